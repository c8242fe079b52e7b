package telemetry

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What a subscription sets, and the defaults and bounds of Apache Kafka.
const (
	metricsKey  = "metrics"
	intervalKey = "interval.ms"
	matchKey    = "match"

	allMetrics        = "*"
	defaultIntervalMs = 300_000
	minIntervalMs     = 100
	maxIntervalMs     = 3_600_000
)

// Client is who asks and pushes, as subscriptions match it.
type Client struct {
	ID              ID
	ClientID        string
	SoftwareName    string
	SoftwareVersion string
	Address, Port   string // where it connects from
}

// attribute is what a pattern of this name looks at.
func (c *Client) attribute(name string) (string, bool) {
	switch name {
	case "client_instance_id":
		return c.ID.String(), true
	case "client_id":
		return c.ClientID, true
	case "client_software_name":
		return c.SoftwareName, true
	case "client_software_version":
		return c.SoftwareVersion, true
	case "client_source_address":
		return c.Address, true
	case "client_source_port":
		return c.Port, true
	}
	return "", false
}

// Subscription asks clients that match for metrics.
type Subscription struct {
	Name       string
	Metrics    []string // prefixes of names; * for all
	IntervalMs int32
	match      []pattern
}

type pattern struct {
	attribute string
	is        *regexp.Regexp
}

// Parse reads the settings of a subscription. An error says that nobody can
// match it: what is stored was checked, but perhaps by another version.
func Parse(name string, set map[string]string) (Subscription, error) {
	s := Subscription{Name: name, Metrics: split(set[metricsKey]), IntervalMs: defaultIntervalMs}
	if v, there := set[intervalKey]; there {
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 32)
		if err != nil || n < minIntervalMs || n > maxIntervalMs {
			return s, fmt.Errorf("subscription %s: %s=%q is not between %d and %d", name, intervalKey, v, minIntervalMs, maxIntervalMs)
		}
		s.IntervalMs = int32(n)
	}
	for _, m := range split(set[matchKey]) {
		p, err := parsePattern(m)
		if err != nil {
			return s, fmt.Errorf("subscription %s: illegal client matching pattern %q: %w", name, m, err)
		}
		s.match = slices.DeleteFunc(s.match, func(was pattern) bool { return was.attribute == p.attribute })
		s.match = append(s.match, p) // of two for one attribute the last counts
	}
	return s, nil
}

func parsePattern(text string) (pattern, error) {
	name, value, ok := strings.Cut(text, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	switch _, known := (&Client{}).attribute(name); {
	case !ok || value == "" || strings.Contains(value, "="):
		return pattern{}, errors.New("not attribute=pattern")
	case !known:
		return pattern{}, errors.New("no such attribute")
	}
	// RE2 takes time in proportion to the text, whatever the pattern.
	re, err := regexp.Compile(`^(?:` + value + `)$`)
	return pattern{name, re}, err
}

// Matches says whether c is asked: all patterns match a whole attribute each.
func (s *Subscription) Matches(c *Client) bool {
	for _, p := range s.match {
		if v, known := c.attribute(p.attribute); !known || !p.is.MatchString(v) {
			return false
		}
	}
	return true
}

// split reads a setting of Kafka's type LIST.
func split(v string) []string {
	var out []string
	for _, e := range strings.Split(v, ",") {
		if e = strings.TrimSpace(e); e != "" {
			out = append(out, e)
		}
	}
	return out
}

// Asked is what one client is asked for, by all subscriptions that match it.
type Asked struct {
	ID         int32 // of this set: another set has another one
	Metrics    []string
	IntervalMs int32
}

// ask joins the subscriptions that match: their metrics, and the shortest of
// their intervals, no longer than the default.
func ask(subs []Subscription, c *Client) Asked {
	a := Asked{IntervalMs: defaultIntervalMs}
	for i := range subs {
		if s := &subs[i]; s.Matches(c) {
			a.Metrics = append(a.Metrics, s.Metrics...)
			a.IntervalMs = min(a.IntervalMs, s.IntervalMs)
		}
	}
	if slices.Contains(a.Metrics, allMetrics) {
		a.Metrics = []string{allMetrics}
	}
	slices.Sort(a.Metrics)
	a.Metrics = slices.Compact(a.Metrics)
	a.ID = subscriptionID(a.Metrics, a.IntervalMs, c.ID)
	return a
}

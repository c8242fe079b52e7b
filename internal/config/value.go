package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Invalid is a value that a key does not take. Its text is what Apache Kafka
// answers; it is kerr.InvalidConfig.
type Invalid struct{ Message string }

func (e *Invalid) Error() string { return e.Message }

// Unwrap makes it INVALID_CONFIG on the wire.
func (e *Invalid) Unwrap() error { return kerr.InvalidConfig }

func invalid(name, raw, why string) error {
	return &Invalid{fmt.Sprintf("Invalid value %s for configuration %s: %s", raw, name, why)}
}

// Check is a rule beyond the type. The zero Check allows everything.
type Check struct {
	Allowed string           // for people, after the type
	refuse  func(any) string // why not, or ""
}

// parse turns the text of a value into bool, string, int64, float64 or
// []string, after Apache Kafka's rules: blanks around it do not count.
func (k *Key) parse(raw string) (any, error) {
	v, why := parseType(k.Type, strings.TrimSpace(raw))
	if why != "" {
		return nil, invalid(k.Name, raw, why)
	}
	if list, ok := v.([]string); ok && slices.Contains(list, "") {
		return nil, &Invalid{fmt.Sprintf("Configuration '%s' values must not be empty.", k.Name)}
	}
	if k.Check.refuse != nil {
		if why := k.Check.refuse(v); why != "" {
			if k.Sensitive() {
				raw = "[hidden]"
			}
			return nil, invalid(k.Name, strings.TrimSpace(raw), why)
		}
	}
	return v, nil
}

// parseType parses s, or says why not.
func parseType(t Type, s string) (v any, why string) {
	switch t {
	case Boolean:
		switch {
		case strings.EqualFold(s, "true"):
			return true, ""
		case strings.EqualFold(s, "false"):
			return false, ""
		}
		return nil, "Expected value to be either true or false"
	case Int, Short, Long:
		bits := map[Type]int{Int: 32, Short: 16, Long: 64}[t]
		n, err := strconv.ParseInt(s, 10, bits)
		if err != nil {
			return nil, "Not a number of type " + strings.ToUpper(t.String())
		}
		return n, ""
	case Double:
		// Java takes a trailing f or d.
		n, err := strconv.ParseFloat(strings.TrimRight(s, "fFdD"), 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || strings.Contains(s, "_") {
			return nil, "Not a number of type DOUBLE"
		}
		return n, ""
	case List:
		return splitList(s), ""
	}
	return s, ""
}

// splitList splits at commas; blanks around them do not count, and nothing is
// the empty list.
func splitList(s string) []string {
	s = strings.TrimSpace(s)
	if s == "" {
		return []string{}
	}
	list := strings.Split(s, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// format writes a parsed value as DescribeConfigs shows it.
func format(v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return formatDouble(v)
	case []string:
		return strings.Join(v, ",")
	case string:
		return v
	}
	return ""
}

// formatDouble writes a number as Java's Double.toString does.
func formatDouble(v float64) string {
	if a := math.Abs(v); a == 0 || a >= 1e-3 && a < 1e7 {
		s := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'E', -1, 64), "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(n)
}

func number(v any) float64 {
	if n, ok := v.(int64); ok {
		return float64(n)
	}
	f, _ := v.(float64)
	return f
}

func atLeast(low int64) Check {
	return Check{fmt.Sprintf("at least %d", low), func(v any) string {
		if n := number(v); n < float64(low) {
			return fmt.Sprintf("Value must be at least %d", low)
		}
		return ""
	}}
}

func between(low, high float64) Check {
	l, h := strconv.FormatFloat(low, 'f', -1, 64), strconv.FormatFloat(high, 'f', -1, 64)
	return Check{"from " + l + " to " + h, func(v any) string {
		switch n := number(v); {
		case n < low:
			return "Value must be at least " + l
		case n > high:
			return "Value must be no more than " + h
		}
		return ""
	}}
}

// oneOf fits texts and each entry of a list.
func oneOf(words ...string) Check {
	all := strings.Join(words, ", ")
	return Check{"out of: " + all, func(v any) string {
		for _, s := range texts(v) {
			if !slices.Contains(words, s) {
				return "String must be one of: " + all
			}
		}
		return ""
	}}
}

// protocols of groups: one cannot do without classic.
var protocols = func() Check {
	c := oneOf("consumer", "classic", "share", "streams")
	c.Allowed += "; classic must be there"
	known := c.refuse
	c.refuse = func(v any) string {
		if why := known(v); why != "" {
			return why
		}
		if !slices.Contains(texts(v), "classic") {
			return "Disabling the 'classic' protocol is not supported."
		}
		return ""
	}
	return c
}()

// assignors of consumer groups: at least one, each once.
var assignors = func() Check {
	c := oneOf("uniform", "range")
	c.Allowed += "; at least one, each once"
	known := c.refuse
	c.refuse = func(v any) string {
		list := texts(v)
		switch {
		case len(list) == 0:
			return "At least one is needed"
		case len(slices.Compact(slices.Sorted(slices.Values(list)))) < len(list):
			return "Each may stand once"
		}
		return known(v)
	}
	return c
}()

func oneOfFold(words ...string) Check {
	all := strings.Join(words, ", ")
	return Check{"out of: " + all + " (in any case)", func(v any) string {
		for _, s := range texts(v) {
			if !slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, s) }) {
				return "String must be one of (case insensitive): " + all
			}
		}
		return ""
	}}
}

func texts(v any) []string {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	list, _ := v.([]string)
	return list
}

var gzipLevel = Check{"from 1 to 9, or -1", func(v any) string {
	if n := v.(int64); n != -1 && (n < 1 || n > 9) {
		return "Value must be between 1 and 9 or equal to -1"
	}
	return ""
}}

// retention times: forever, or longer than nothing.
var retention = Check{"at least 1, or -1 for no limit", func(v any) string {
	if n := v.(int64); n != -1 && n < 1 {
		return "Value must be at least 1, or -1 for no limit"
	}
	return ""
}}

var nonEmptyList = Check{"at least one entry", func(v any) string {
	if len(v.([]string)) == 0 {
		return "At least one entry is needed"
	}
	return ""
}}

var throttledPair = regexp.MustCompile(`^[0-9]+:[0-9]+$`)

var throttledReplicas = Check{"of partition:broker, or *", func(v any) string {
	list := v.([]string)
	if len(list) == 1 && list[0] == "*" {
		return ""
	}
	for _, s := range list {
		if !throttledPair.MatchString(s) {
			return "it must be the literal '*' or a list of replicas in the form [partitionId]:[brokerId],[partitionId]:[brokerId],..."
		}
	}
	return ""
}}

var isoDuration = regexp.MustCompile(`(?i)^P([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,9})?S)?)?$`)

var offsetReset = Check{"out of: latest, earliest, by_duration:PnDTnHnMn.nS", func(v any) string {
	s := v.(string)
	if s == "latest" || s == "earliest" {
		return ""
	}
	if d, ok := strings.CutPrefix(s, "by_duration:"); ok && isoDuration.MatchString(d) && strings.ContainsAny(d, "0123456789") && !strings.HasSuffix(strings.ToUpper(d), "T") {
		return ""
	}
	return "Value must be latest, earliest or by_duration: and a duration of ISO 8601"
}}

var hostPort = Check{"host:port, or empty", func(v any) string {
	s := v.(string)
	if s == "" {
		return ""
	}
	if _, port, err := net.SplitHostPort(s); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err == nil {
			return ""
		}
	}
	return "Value must be host:port with a port from 0 to 65535, or empty"
}}

var perAddress = Check{"of address:number, separated by commas", func(v any) string {
	if _, err := parsePerAddress(v.(string)); err != nil {
		return err.Error()
	}
	return ""
}}

// parsePerAddress reads address:number pairs; an IPv6 address may stand in brackets.
func parsePerAddress(s string) (map[netip.Addr]int, error) {
	out := map[netip.Addr]int{}
	for _, pair := range splitList(s) {
		at := strings.LastIndexByte(pair, ':')
		if at < 0 {
			return nil, fmt.Errorf("%q has no number after a colon", pair)
		}
		addr, err := netip.ParseAddr(strings.Trim(pair[:at], "[]"))
		if err != nil {
			return nil, fmt.Errorf("%q is not an IP address", pair[:at])
		}
		n, err := strconv.ParseInt(strings.TrimSpace(pair[at+1:]), 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not a number of connections", pair[at+1:])
		}
		out[addr.Unmap()] = int(n)
	}
	return out, nil
}

// unit is the length of one of what a key of this name counts.
func unit(name string) time.Duration {
	switch name[strings.LastIndexByte(name, '.')+1:] {
	case "seconds", "secs":
		return time.Second
	case "minutes":
		return time.Minute
	case "hours":
		return time.Hour
	}
	return time.Millisecond
}

// scaled multiplies without overflow: what is too much is the most there is,
// some 292 years as a Duration.
func scaled(n int64, unit time.Duration) time.Duration {
	if n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	if n < 0 {
		return -1
	}
	return time.Duration(n) * unit
}

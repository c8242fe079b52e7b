package group

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/meta"
)

// Regular expressions (RE2) are looked at after the heartbeat that calls for it,
// with the eyes of the client that sent it, and all of a group's at once: what
// they match is a record, and a change of it a new group epoch.

// regexPause is the least time between two looks (Apache Kafka's
// REGEX_BATCH_REFRESH_MIN_INTERVAL_MS).
const regexPause = 10 * time.Second

// regexSlice bounds the topics of one step of a look, so that other groups
// of the shard get their turn. A variable for the tests.
var regexSlice = 1000

// regexScan is a look under way.
type regexScan struct {
	image   *meta.Image
	from    string // first topic of the next step
	visible func(topic string) bool
	wanted  []matcher
}

type matcher struct {
	regex  string
	re     *regexp.Regexp // nil: not one that this version can read
	topics []string
}

// matches says whether the expression matches all of a name. Of the matches that begin
// first re finds the longest.
func (m *matcher) matches(name string) bool {
	if m.re == nil {
		return false
	}
	at := m.re.FindStringIndex(name)
	return at != nil && at[0] == 0 && at[1] == len(name)
}

// checkRegex refuses what is not a regular expression, where nobody in the group has it yet.
func checkRegex(c *consumer, was, is *memberMetadata) *refusal {
	r := is.regex()
	if r == "" || r == was.regex() || c.regexes[r] > 0 {
		return nil
	}
	if _, err := regexp.Compile(r); err != nil {
		why := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		return refuse(kerr.InvalidRegularExpression, "SubscribedTopicRegex `%s` is not a valid regular expression: %s.", r, why)
	}
	return nil
}

// lastScan is when the group's regular expressions were looked at last.
func (c *consumer) lastScan() (version, atMs int64, ok bool) {
	return c.scanned.Version, c.scanned.AtMs, len(c.resolved) > 0
}

// mayScan says whether enough time has passed since the last look. Wall time
// that went back counts as enough.
func (s *step) mayScan(c *consumer) bool {
	_, at, ok := c.lastScan()
	since := s.now.UnixMilli() - at
	return !ok || since > regexPause.Milliseconds() || since < 0
}

// regexChange is what became of a member's regular expression.
type regexChange uint8

const (
	regexSame     regexChange = iota
	regexOther                // what it matches is not known yet
	regexResolved             // another one, or none, and it is known
)

// changeRegex follows a change of a member's regular expression, which is
// written already; known says whether somebody had the new one before.
func (s *step) changeRegex(c *consumer, was, is *memberMetadata, known bool) (regexChange, bool) {
	old, now := was.regex(), is.regex()
	if old == now {
		return regexSame, false
	}
	if old != "" && c.regexes[old] == 0 {
		s.emit(&regexRecord{Group: c.group, Regex: old})
	}
	switch {
	case now == "", known && c.resolved[now] != nil:
		return regexResolved, false
	}
	return regexOther, !known
}

// wantScan starts a look at the group's regular expressions if one is due.
// need says that there is a new one, may whether it is time.
func (s *step) wantScan(c *consumer, need, may bool, visible func(string) bool) {
	if len(c.regexes) == 0 || c.scan != nil || !may {
		return
	}
	version, at, ok := c.lastScan()
	if !need && ok && len(c.regexes) == len(c.resolved) && version >= s.topics.created &&
		s.now.UnixMilli()-at <= s.cfg.RegexRefresh.Milliseconds() {
		return
	}
	c.scan = &regexScan{image: s.image, visible: visible}
	for _, r := range slices.Sorted(maps.Keys(c.regexes)) {
		re, err := regexp.Compile(r)
		if err == nil {
			re.Longest()
		}
		c.scan.wanted = append(c.scan.wanted, matcher{regex: r, re: re})
	}
	s.timer(timerRegex, c.group, "", s.now)
}

func (s *step) cancelScan(c *consumer) {
	if c.scan != nil {
		c.scan = nil
		s.cancel(timerRegex, c.group, "")
	}
}

// regexDue goes on with a look.
func (s *step) regexDue(group string) {
	c := s.consumerIn(group)
	if c == nil || c.scan == nil {
		return
	}
	scan, left := c.scan, regexSlice
	for t := range scan.image.TopicsFrom(scan.from) {
		if left--; left < 0 {
			scan.from = t.Name
			s.timer(timerRegex, c.group, "", s.now)
			return
		}
		seen := scan.visible == nil
		for i := range scan.wanted {
			m := &scan.wanted[i]
			if m.matches(t.Name) && (seen || scan.visible(t.Name)) {
				seen = true
				m.topics = append(m.topics, t.Name)
			}
		}
	}
	c.scan = nil
	s.scanned(c, scan)
}

// scanned writes what a look found.
func (s *step) scanned(c *consumer, scan *regexScan) {
	var found []body
	for _, m := range scan.wanted {
		b := &regexRecord{Group: c.group, Regex: m.regex, Value: &regexTopics{Topics: m.topics, Version: scan.image.Revision(), AtMs: s.now.UnixMilli()}}
		if c.regexes[m.regex] > 0 && s.fits(b) {
			found = append(found, b)
		}
	}
	changed := false
	for _, b := range found {
		r := b.(*regexRecord)
		old := c.resolved[r.Regex]
		changed = changed || old == nil && len(r.Value.Topics) > 0 || old != nil && !slices.Equal(old.Topics, r.Value.Topics)
		s.emit(r)
	}
	if hash := s.metadataHash(c); changed || hash != c.hash {
		s.bump(c, hash)
		c.fresh = true
	}
}

// fits says whether a record is one that the log takes.
func (s *step) fits(b body) bool {
	if m, is := b.(*memberRecord); is && m.longest() > maxString {
		return false
	}
	key, value := encode(b)
	return len(key)+len(value) <= s.cfg.MaxRecordBytes
}

package group

import (
	"maps"
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

// regexSlice bounds the work of one step of a look, so that other groups of the
// shard get their turn: bytes of names times steps of programs. It takes some
// milliseconds at most. A variable for the tests.
var regexSlice = 1 << 20

// regexReading is what it takes to read a byte of an expression, in the same measure.
const regexReading = 100

// regexScan is a look under way: one expression after the other, over all topics.
type regexScan struct {
	image   *meta.Image
	visible func(topic string) bool // nil: all
	known   map[string]*Regex       // that need not be read again
	wanted  []found
	at      int    // in wanted
	re      *Regex // that is looked for; nil: it has yet to be known
	from    string // first topic of the next step
}

// found is what an expression matches.
type found struct {
	regex  string
	topics []string
}

// checkRegex refuses what is not a regular expression, where nobody in the group has it yet.
func checkRegex(c *consumer, was, is *memberMetadata, cmd *ConsumerHeartbeat) *refusal {
	r := is.regex()
	if r == "" || r == was.regex() || c.regexes[r] > 0 {
		return nil
	}
	if read := cmd.read(); read.re == nil {
		return refuse(kerr.InvalidRegularExpression, "SubscribedTopicRegex `%s` is not a valid regular expression: %s.", r, read.why)
	}
	return nil
}

// read is the request's regular expression.
func (c *ConsumerHeartbeat) read() *Regex {
	if c.Regex == nil {
		c.Regex = ReadRegex(*c.Req.SubscribedTopicRegex)
	}
	return c.Regex
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
func (s *step) wantScan(c *consumer, need, may bool, by *ConsumerHeartbeat) {
	if len(c.regexes) == 0 || c.scan != nil || !may {
		return
	}
	version, at, ok := c.lastScan()
	if !need && ok && len(c.regexes) == len(c.resolved) && version >= s.topics.created &&
		s.now.UnixMilli()-at <= s.cfg.RegexRefresh.Milliseconds() {
		return
	}
	c.scan = &regexScan{image: s.image, known: map[string]*Regex{}}
	if by != nil {
		c.scan.visible = by.Visible
		if r := by.Req.SubscribedTopicRegex; r != nil && c.regexes[*r] > 0 {
			c.scan.known[strings.Clone(*r)] = by.read()
		}
	}
	for _, r := range slices.Sorted(maps.Keys(c.regexes)) {
		c.scan.wanted = append(c.scan.wanted, found{regex: r})
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
	scan := c.scan
	if scan.goOn() {
		s.timer(timerRegex, c.group, "", s.now)
		return
	}
	c.scan = nil
	s.scanned(c, scan)
}

// goOn looks for a while; it is false at the end.
func (scan *regexScan) goOn() (more bool) {
	for left := regexSlice; scan.at < len(scan.wanted); scan.at++ {
		w := &scan.wanted[scan.at]
		if scan.re == nil {
			if left <= 0 {
				return true
			}
			if scan.re, scan.from = scan.known[w.regex], ""; scan.re == nil {
				scan.re = ReadRegex(w.regex)
				left -= len(w.regex) * regexReading
			}
		}
		for t := range scan.image.TopicsFrom(scan.from) {
			if left <= 0 {
				scan.from = t.Name
				return true
			}
			left -= (len(t.Name) + 1) * (scan.re.steps + 1)
			if scan.re.matches(t.Name) && (scan.visible == nil || scan.visible(t.Name)) {
				w.topics = append(w.topics, t.Name)
			}
		}
		scan.re = nil
	}
	return false
}

// scanned writes what a look found.
func (s *step) scanned(c *consumer, scan *regexScan) {
	var looked []body
	for _, m := range scan.wanted {
		b := &regexRecord{Group: c.group, Regex: m.regex, Value: &regexTopics{Topics: m.topics, Version: scan.image.Revision(), AtMs: s.now.UnixMilli()}}
		if c.regexes[m.regex] > 0 && s.fits(b) {
			looked = append(looked, b)
		}
	}
	changed := false
	for _, b := range looked {
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

package broker

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/levels"
)

// Every part that logs has a name that barnabas.log.level takes, and the other way about.
func TestLogParts(t *testing.T) {
	b, err := New(Options{Set: []string{"log.dirs=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	b.sequence() // the admin listener is made there
	var have []string
	for _, l := range b.levels.Loggers() {
		if part, ok := strings.CutPrefix(l.Name, "barnabas."); ok {
			have = append(have, part)
		}
	}
	if !slices.Equal(have, config.LogParts) {
		t.Errorf("parts that log are %v, and config.LogParts %v", have, config.LogParts)
	}
}

func TestReload(t *testing.T) {
	set := func(s ...string) *config.Config {
		t.Helper()
		c, _, err := config.Load(config.Options{Set: append(s, "log.dirs=data")})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	b, err := New(Options{Config: set("barnabas.log.level=warn,api=debug"), Levels: levels.New(slog.LevelInfo)})
	if err != nil {
		t.Fatal(err)
	}
	level := func(logger string) string {
		t.Helper()
		i := slices.IndexFunc(b.levels.Loggers(), func(l levels.Logger) bool { return l.Name == logger })
		return levels.Name(b.levels.Loggers()[i].Level)
	}
	if level(levels.Root) != "WARN" || level("barnabas.api") != "DEBUG" {
		t.Errorf("at the start: root %s, api %s", level(levels.Root), level("barnabas.api"))
	}
	for n := range 2 { // what needs a restart needs it the second time too
		now, restart := b.Reload(set("barnabas.log.level=error", "num.partitions=7", "broker.rack=r"))
		if slices.Equal(now, []string{"barnabas.log.level"}) != (n == 0) || !slices.Equal(restart, []string{"broker.rack", "num.partitions"}) {
			t.Errorf("now %v, after a restart %v", now, restart)
		}
		if level(levels.Root) != "ERROR" || level("barnabas.api") != "ERROR" {
			t.Errorf("reloaded: root %s, api %s", level(levels.Root), level("barnabas.api"))
		}
	}
	now, restart := b.Reload(set("barnabas.log.level=warn,api=debug"))
	if !slices.Equal(now, []string{"barnabas.log.level"}) || restart != nil || level("barnabas.api") != "DEBUG" {
		t.Errorf("as at the start: now %v, after a restart %v, api %s", now, restart, level("barnabas.api"))
	}
}

// What requests can change takes effect when the file changes, too, in
// partitions that are there and in the rest of the broker; what was set by
// requests stays the stronger.
func TestReloadOfLiveKeys(t *testing.T) {
	start := []string{"listeners=PLAINTEXT://127.0.0.1:0", "barnabas.admin.listener=", "log.dirs=" + t.TempDir()}
	p := startBroker(t, nil, start...)
	l := p.logUnderTest()
	large := func() error {
		t.Helper()
		return kerr.ErrorForCode(p.put(l, 0, oneRecord(time.Now(), nil, noise(2000), batch.Options{})).ErrorCode)
	}
	reload := func(want string, set ...string) {
		t.Helper()
		c, _, err := config.Load(config.Options{Set: append(set, start...)})
		if err != nil {
			t.Fatal(err)
		}
		now, restart := p.b.Reload(c)
		if got := strings.Join(now, ",") + "; " + strings.Join(restart, ","); got != want {
			t.Errorf("reloaded: %s, want %s", got, want)
		}
	}
	if err := large(); err != nil {
		t.Fatal(err)
	}
	dir, _ := strings.CutPrefix(start[2], "log.dirs=")
	reload("cordoned.log.dirs,message.max.bytes; num.partitions", "message.max.bytes=1000", "cordoned.log.dirs="+dir, "num.partitions=3")
	if err := large(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("reloaded: %v", err)
	}
	if n := len(p.b.parts.logs.Cordoned()); n != 1 {
		t.Errorf("%d directories are cordoned", n)
	}
	if e := p.b.parts.dynamic.settings.DescribeBroker([]string{"message.max.bytes"})[0]; *e.Value != "1000" || e.Source != config.Static {
		t.Errorf("described as %s of %v", *e.Value, e.Source)
	}
	p.setAll("message.max.bytes", "1000000", kmsg.IncrementalAlterConfigOpSet)
	reload("cordoned.log.dirs,message.max.bytes; ", "message.max.bytes=1500")
	if err := large(); err != nil {
		t.Errorf("a dynamic setting is weaker than what was read again: %v", err)
	}
	p.setAll("message.max.bytes", "", kmsg.IncrementalAlterConfigOpDelete)
	if err := large(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("without the dynamic setting: %v", err)
	}
	reload("message.max.bytes; ")
	if err := large(); err != nil {
		t.Errorf("as at the start: %v", err)
	}
}

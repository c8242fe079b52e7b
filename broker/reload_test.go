package broker

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

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
	for range 2 { // what needs a restart needs it the second time too
		now, restart := b.Reload(set("barnabas.log.level=error", "num.partitions=7", "broker.rack=r"))
		if !slices.Equal(now, []string{"barnabas.log.level"}) || !slices.Equal(restart, []string{"broker.rack", "num.partitions"}) {
			t.Errorf("now %v, after a restart %v", now, restart)
		}
		if level(levels.Root) != "ERROR" || level("barnabas.api") != "ERROR" {
			t.Errorf("reloaded: root %s, api %s", level(levels.Root), level("barnabas.api"))
		}
	}
	if now, restart := b.Reload(set("barnabas.log.level=warn,api=debug")); now != nil || restart != nil || level("barnabas.api") != "DEBUG" {
		t.Errorf("as at the start: now %v, after a restart %v, api %s", now, restart, level("barnabas.api"))
	}
}

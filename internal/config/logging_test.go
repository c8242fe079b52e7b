package config

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/levels"
)

func TestLogLevels(t *testing.T) {
	for in, want := range map[string]levels.Spec{
		"":                          {Root: slog.LevelInfo},
		"WARN":                      {Root: slog.LevelWarn},
		"storage=debug":             {Root: slog.LevelInfo, Parts: map[string]slog.Level{"storage": slog.LevelDebug}},
		"api=trace, error,api=info": {Root: slog.LevelError, Parts: map[string]slog.Level{"api": slog.LevelInfo}},
	} {
		c, err := New(map[string]string{"barnabas.log.level": in})
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := c.LogLevels(); got.Root != want.Root || !maps.Equal(got.Parts, want.Parts) {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
	for in, want := range map[string]string{"loud": "loud", "info,warn": "info,warn", "disk=info": "disk", "api=": "api="} {
		if _, err := New(map[string]string{"barnabas.log.level": in}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestChanged(t *testing.T) {
	parse := func(text string) *Config {
		t.Helper()
		c, _, err := Parse("test", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := parse("num.partitions=3\nlog.retention.hours=24\nlog.dirs=a\nbroker.rack=x\n")
	for text, want := range map[string][]string{
		"num.partitions=3\nlog.retention.hours=24\nlog.dirs=a\nbroker.rack=x\nauto.create.topics.enable=true\nno.such.key=1\n": nil,
		"num.partitions= 03\nlog.retention.hours=24\nlog.dirs=b\nbroker.rack=x\n":                                              {"log.dirs"},
		"log.retention.ms=5\nlog.dirs=a": {"broker.rack", "log.retention.hours", "log.retention.ms", "num.partitions"},
	} {
		if got := before.Changed(parse(text)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

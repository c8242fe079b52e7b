package levels

import (
	"context"
	"log/slog"
	"strings"
	"testing"
)

// lines logs one line of each level to each logger, and gives what came out.
func lines(loggers map[string]*slog.Logger, out *strings.Builder) string {
	out.Reset()
	for _, name := range []string{"root", "barnabas.storage"} {
		for _, n := range []string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR"} {
			level, _ := Parse(n)
			loggers[name].Log(context.Background(), level, n)
		}
	}
	return strings.TrimSpace(strings.ReplaceAll(out.String(), "\n", " "))
}

func TestLevels(t *testing.T) {
	var out strings.Builder
	l := New(slog.LevelInfo)
	text := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: Trace, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}})
	root := slog.New(l.Handler(text))
	loggers := map[string]*slog.Logger{"root": root, "barnabas.storage": root.With("part", "storage")}
	same := root.With("part", "storage")
	_ = root.WithGroup("of").With("part", "nothing")
	for _, step := range []struct {
		what string
		do   func() bool
		want string
	}{
		{"one for all", func() bool { return true },
			"msg=INFO msg=WARN msg=ERROR msg=INFO part=storage msg=WARN part=storage msg=ERROR part=storage"},
		{"a part's own", func() bool { return l.Set("barnabas.storage", slog.LevelError) },
			"msg=INFO msg=WARN msg=ERROR msg=ERROR part=storage"},
		{"the root changes", func() bool { l.SetRoot(slog.LevelError); return l.Set("barnabas.storage", Fatal) }, "msg=ERROR"},
		{"down to the least", func() bool { return l.Set(Root, Trace) && l.Set("barnabas.storage", slog.LevelWarn) },
			"msg=TRACE msg=DEBUG msg=INFO msg=WARN msg=ERROR msg=WARN part=storage msg=ERROR part=storage"},
		{"unset", func() bool { l.SetRoot(slog.LevelError); return l.Unset("barnabas.storage") }, "msg=ERROR msg=ERROR part=storage"},
		{"no such logger", func() bool {
			return !l.Set("barnabas.nothing", Trace) && !l.Unset("barnabas.nothing") && !l.Unset(Root)
		},
			"msg=ERROR msg=ERROR part=storage"},
	} {
		if !step.do() {
			t.Errorf("%s: refused", step.what)
		}
		if got := lines(loggers, &out); got != step.want {
			t.Errorf("%s:\n%s\nwant\n%s", step.what, got, step.want)
		}
	}
	l.Set("barnabas.storage", slog.LevelDebug)
	if !same.Enabled(t.Context(), slog.LevelDebug) {
		t.Error("two loggers of one part have two levels")
	}
	if got := l.Loggers(); len(got) != 2 || got[0] != (Logger{"barnabas.storage", slog.LevelDebug}) || got[1] != (Logger{Root, slog.LevelError}) {
		t.Errorf("%v", got)
	}
}

func TestNames(t *testing.T) {
	for _, n := range Names() {
		if l, ok := Parse(n); !ok || Name(l) != n {
			t.Errorf("%s: %v %v", n, l, ok)
		}
	}
	if _, ok := Parse("info"); ok {
		t.Error("a name in small letters")
	}
	if got := Name(slog.LevelInfo + 1); got != "INFO" {
		t.Errorf("%s, want INFO", got)
	}
	if got := Of(slog.NewTextHandler(&strings.Builder{}, &slog.HandlerOptions{Level: slog.LevelWarn})).Loggers()[0].Level; got != slog.LevelWarn {
		t.Errorf("%v, want WARN", got)
	}
	if got := Of(slog.DiscardHandler).Loggers()[0].Level; got != Fatal {
		t.Errorf("%v, want FATAL", got)
	}
}

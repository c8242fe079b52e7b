package levels

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestConfigure(t *testing.T) {
	l := New(slog.LevelInfo)
	root := slog.New(l.Handler(slog.NewTextHandler(&strings.Builder{}, &slog.HandlerOptions{Level: Trace})))
	_ = root.With("part", "storage")
	for _, step := range []struct {
		spec Spec
		want []Logger
	}{
		{Spec{slog.LevelWarn, map[string]slog.Level{"storage": slog.LevelDebug, "later": Trace}},
			[]Logger{{"barnabas.later", Trace}, {"barnabas.storage", slog.LevelDebug}, {Root, slog.LevelWarn}}},
		{Spec{slog.LevelError, map[string]slog.Level{"later": slog.LevelInfo}},
			[]Logger{{"barnabas.later", slog.LevelInfo}, {"barnabas.storage", slog.LevelError}, {Root, slog.LevelError}}},
	} {
		l.Configure(step.spec)
		if got := l.Loggers(); !slices.Equal(got, step.want) {
			t.Errorf("%v: %v, want %v", step.spec, got, step.want)
		}
	}
	if !root.With("part", "later").Enabled(t.Context(), slog.LevelInfo) {
		t.Error("a logger that came later does not go by its level")
	}
}

package main

import (
	"runtime/debug"
	"testing"
)

func TestBuilt(t *testing.T) {
	info := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	for _, c := range []struct {
		version, commit       string
		info                  *debug.BuildInfo
		wantVersion, wantFrom string
	}{
		{"1.2.3", "abc", info("v9.9.9", revision), "1.2.3", "abc"},
		{"", "", info("v1.2.3"), "v1.2.3", "unknown"},
		{"", "", info("(devel)", revision), "dev", "0123456789ab"},
		{"", "", nil, "dev", "unknown"},
	} {
		if v, from := built(c.version, c.commit, c.info); v != c.wantVersion || from != c.wantFrom {
			t.Errorf("%q %q %v: %q %q, want %q %q", c.version, c.commit, c.info, v, from, c.wantVersion, c.wantFrom)
		}
	}
}

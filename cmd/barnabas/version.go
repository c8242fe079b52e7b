package main

import (
	"cmp"
	"runtime/debug"
)

// Set by the linker: see the Makefile.
var version, commit string

// built says what this program was built from. Where the linker was not told,
// as by `go install`, Go itself knows.
func built(version, commit string, info *debug.BuildInfo) (string, string) {
	if info != nil {
		if v := info.Main.Version; v != "(devel)" {
			version = cmp.Or(version, v)
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = cmp.Or(commit, s.Value[:min(12, len(s.Value))])
			}
		}
	}
	return cmp.Or(version, "dev"), cmp.Or(commit, "unknown")
}

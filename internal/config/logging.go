package config

import (
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/barnabas-mq/barnabas/internal/levels"
)

// LogParts are the parts of a broker whose level barnabas.log.level can set.
var LogParts = []string{"admin", "api", "config", "controller", "groups", "metadata", "replica", "server", "storage"}

// logLevels checks barnabas.log.level: one level, and levels of single parts.
var logLevels = Check{"a level, and part=level for parts that differ; levels: trace, debug, info, warn, error, fatal; parts: " + strings.Join(LogParts, ", "),
	func(v any) string {
		roots := 0
		for _, s := range texts(v) {
			part, level, of := strings.Cut(s, "=")
			if !of {
				part, level = "", s
				roots++
			}
			if of && !slices.Contains(LogParts, part) {
				return "there is no part " + part
			}
			if _, ok := levels.Parse(strings.ToUpper(level)); !ok {
				return "there is no level " + level
			}
		}
		if roots > 1 {
			return "one level for all parts is expected"
		}
		return ""
	}}

// LogLevels are the levels that barnabas.log.level asks for.
func (c *Config) LogLevels() levels.Spec {
	spec := levels.Spec{Root: slog.LevelInfo, Parts: map[string]slog.Level{}}
	for _, s := range c.List("barnabas.log.level") {
		part, level, of := strings.Cut(s, "=")
		if !of {
			level = s
		}
		l, _ := levels.Parse(strings.ToUpper(level))
		if of {
			spec.Parts[part] = l
		} else {
			spec.Root = l
		}
	}
	return spec
}

// LogJSON says whether log lines are JSON.
func (c *Config) LogJSON() bool { return c.Text("barnabas.log.format") == "json" }

// Changed names the keys whose value in next is another one, by name.
func (c *Config) Changed(next *Config) []string {
	var out []string
	for _, name := range c.names(next) {
		k, _ := lookupBroker(name)
		if a, b := c.shown(name, k), next.shown(name, k); a != b {
			out = append(out, name)
		}
	}
	return out
}

// names are the keys that c or other sets.
func (c *Config) names(other *Config) []string {
	all := map[string]string{}
	for _, l := range slices.Concat(c.layers, other.layers) {
		maps.Copy(all, l.raw)
	}
	return sortedKeys(all)
}

// shown is the key's own value in words that compare.
func (c *Config) shown(name string, k *Key) string {
	for _, s := range c.settings([]string{name}) {
		if v, err := k.parse(s.raw); err == nil {
			return "=" + format(v)
		}
	}
	return ""
}

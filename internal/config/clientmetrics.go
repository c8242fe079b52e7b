package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// matchKeys are what a subscription may look at to tell clients apart (KIP-714).
var matchKeys = []string{
	"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port",
}

const (
	minMetricsInterval = 100
	maxMetricsInterval = 3_600_000
)

// validateClientMetrics checks a subscription before it is stored.
func validateClientMetrics(overrides map[string]string) error {
	for _, name := range sortedKeys(overrides) {
		if _, ok := index[ClientMetricsScope][name]; !ok {
			return wrong("Unknown client metrics configuration: %s", name)
		}
	}
	for _, name := range sortedKeys(overrides) {
		v, err := index[ClientMetricsScope][name].parse(overrides[name])
		if err != nil {
			return err
		}
		switch v := v.(type) {
		case int64:
			if v < minMetricsInterval || v > maxMetricsInterval {
				return wrong("Invalid value %d for %s, interval must be between %d and %d (1 hour)", v, name, minMetricsInterval, maxMetricsInterval)
			}
		case []string:
			if name == "match" {
				for _, pair := range v {
					if err := checkMatch(pair); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// checkMatch looks at one attribute=pattern. Patterns are RE2's: those that
// only Java's can say are refused.
func checkMatch(pair string) error {
	name, pattern, ok := strings.Cut(pair, "=")
	_, err := regexp.Compile(strings.TrimSpace(pattern))
	if !ok || pattern == "" || strings.Contains(strings.TrimRight(pattern, "="), "=") || err != nil || !slices.Contains(matchKeys, strings.TrimSpace(name)) {
		return &Invalid{fmt.Sprintf("Illegal client matching pattern: %s", pair)}
	}
	return nil
}

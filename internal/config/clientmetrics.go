package config

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
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

// checkMatch looks at one attribute=pattern.
func checkMatch(pair string) error {
	name, pattern, ok := strings.Cut(pair, "=")
	illegal := "Illegal client matching pattern: " + pair
	if !ok || pattern == "" || strings.Contains(strings.TrimRight(pattern, "="), "=") || !slices.Contains(matchKeys, strings.TrimSpace(name)) {
		return &Invalid{illegal}
	}
	pattern = strings.TrimSpace(pattern)
	_, err := regexp.Compile(pattern)
	if err == nil {
		_, err = regexp.Compile("^(?:" + pattern + ")$") // as it is matched: a \Q without its \E would not end
	}
	var bad *syntax.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad) && javaMay[bad.Code]:
		return &Invalid{fmt.Sprintf("%s: patterns are RE2's, which takes time in proportion to the text and has no look-around, back-references or possessive quantifiers: %s `%s`",
			illegal, bad.Code, bad.Expr)}
	}
	return &Invalid{illegal}
}

// javaMay are the mistakes in a pattern of RE2 that may be none in one of Java:
// who sends it gets more words than Apache Kafka has for what is wrong in both.
var javaMay = map[syntax.ErrorCode]bool{
	syntax.ErrInvalidPerlOp: true, syntax.ErrInvalidEscape: true, syntax.ErrInvalidRepeatOp: true, syntax.ErrInvalidRepeatSize: true,
	syntax.ErrInvalidCharRange: true, syntax.ErrInvalidNamedCapture: true, syntax.ErrLarge: true, syntax.ErrNestingDepth: true,
}

package config

import (
	"maps"
	"slices"
	"time"
)

// Source tells where a value comes from, by its code in DescribeConfigs.
type Source int8

// The sources, from the strongest.
const (
	DynamicTopic Source = iota + 1
	DynamicBroker
	DynamicDefault
	Static
	Default
	DynamicLogger // of loggers, which are no keys
	DynamicClientMetrics
	DynamicGroup
)

var sourceNames = [...]string{"", "DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG", "STATIC_BROKER_CONFIG", "DEFAULT_CONFIG",
	"DYNAMIC_BROKER_LOGGER_CONFIG", "CLIENT_METRICS_CONFIG", "GROUP_CONFIG"}

func (s Source) String() string { return sourceNames[s] }

// layer is the set keys of one source, as text.
type layer struct {
	source Source
	raw    map[string]string
}

// Config is a broker's settings: what was set, in layers over the defaults.
type Config struct {
	layers []layer // the strongest first
	// unknown are dynamic settings that are no keys, by source: Apache Kafka
	// keeps and shows them, and they do nothing.
	unknown []layer
}

// New makes a Config of static settings that need no file, for programs and
// tests; values that do not fit their key are an error.
func New(set map[string]string) (*Config, error) {
	c, _, err := Load(Options{Set: slices.Collect(func(yield func(string) bool) {
		for _, k := range slices.Sorted(maps.Keys(set)) {
			if !yield(k + "=" + set[k]) {
				return
			}
		}
	})})
	return c, err
}

// setting is one value of one key in one layer.
type setting struct {
	name   string
	raw    string
	source Source
}

// settings lists every value that the broker keys names have, the strongest
// first: layer by layer, and within a layer in the order of names.
func (c *Config) settings(names []string) []setting {
	var out []setting
	for _, l := range c.layers {
		for _, name := range names {
			if raw, ok := l.raw[name]; ok {
				out = append(out, setting{name, raw, l.source})
			}
		}
	}
	for _, name := range names {
		if k, ok := lookupBroker(name); ok && k.Default != nil {
			out = append(out, setting{name, *k.Default, Default})
		}
	}
	return out
}

// lookup gives the parsed value that counts for a broker key and its synonyms,
// and the setting that it comes from; nil when it is unset.
func (c *Config) lookup(name string) (any, setting) {
	names, ok := fallbacks[name]
	if !ok {
		names = synonymsOf(name)
	}
	for _, s := range c.settings(names) {
		k, _ := lookupBroker(s.name)
		if v, err := k.parse(s.raw); err == nil {
			return v, s
		}
	}
	return nil, setting{}
}

// IsSet tells whether anybody set the key itself.
func (c *Config) IsSet(name string) bool {
	for _, l := range c.layers {
		if _, ok := l.raw[name]; ok {
			return true
		}
	}
	return false
}

// Int is the value of a whole-number broker key; 0 when it is unset.
func (c *Config) Int(name string) int64 {
	v, _ := c.lookup(name)
	n, _ := v.(int64)
	return n
}

// Double is the value of a number.
func (c *Config) Double(name string) float64 {
	v, _ := c.lookup(name)
	n, _ := v.(float64)
	return n
}

// Bool is the value of a boolean broker key.
func (c *Config) Bool(name string) bool {
	v, _ := c.lookup(name)
	b, _ := v.(bool)
	return b
}

// Text is the value of a broker key of text; "" when it is unset.
func (c *Config) Text(name string) string {
	v, _ := c.lookup(name)
	s, _ := v.(string)
	return s
}

// List is the value of a broker key of a list.
func (c *Config) List(name string) []string {
	v, _ := c.lookup(name)
	l, _ := v.([]string)
	return l
}

// Duration is the value of a time key in whatever unit it was set; -1 for
// anything below nothing, and some 292 years for anything above.
func (c *Config) Duration(name string) time.Duration {
	v, s := c.lookup(name)
	n, ok := v.(int64)
	if !ok {
		return 0
	}
	return scaled(n, unit(s.name))
}

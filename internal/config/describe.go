package config

import (
	"maps"
	"slices"
)

// Entry is what DescribeConfigs answers about one key.
type Entry struct {
	Name      string
	Value     *string // nil when unset or sensitive
	Source    Source
	Sensitive bool
	ReadOnly  bool
	Type      Type      // 0 of a key that nobody knows
	Synonyms  []Synonym // every value that it has, the strongest first
	Doc       string
}

// IsDefault is what version 0 answers in the place of a source.
func (e Entry) IsDefault() bool { return e.Source == Default }

// Synonym is one value of a key or of one that means the same (KIP-226).
type Synonym struct {
	Name   string
	Value  *string
	Source Source
}

// DescribeBroker answers about the broker's keys by name, or about those of
// names that there are; nil and empty mean all.
func (c *Config) DescribeBroker(names []string) []Entry {
	var out []Entry
	for _, k := range selected(BrokerScope, names) {
		out = append(out, c.describeBroker(k))
	}
	return append(out, c.describeUnknown(names, DynamicBroker, DynamicDefault)...)
}

// DescribeCluster answers about the dynamic settings of all brokers: those
// that are set, as they were set.
func (c *Config) DescribeCluster(names []string) []Entry {
	var out []Entry
	for _, l := range c.layers {
		if l.source != DynamicDefault {
			continue
		}
		for _, name := range sortedKeys(l.raw) {
			k, _ := lookupBroker(name)
			if len(names) > 0 && !slices.Contains(names, name) {
				continue
			}
			e := entry(k)
			e.Source, e.ReadOnly = l.source, k.Mode == ReadOnly
			if !e.Sensitive {
				e.Value = value(l.raw[name])
			}
			e.Synonyms = []Synonym{{name, e.Value, l.source}}
			out = append(out, e)
		}
	}
	return append(out, c.describeUnknown(names, DynamicDefault)...)
}

// describeUnknown answers about keys that nobody knows: for all that is known
// they are secrets.
func (c *Config) describeUnknown(names []string, sources ...Source) []Entry {
	found := map[string]*Entry{}
	for _, l := range c.unknown {
		if !slices.Contains(sources, l.source) {
			continue
		}
		for name := range l.raw {
			if len(names) > 0 && !slices.Contains(names, name) {
				continue
			}
			e := found[name]
			if e == nil {
				e = &Entry{Name: name, Source: l.source, Sensitive: true, ReadOnly: true}
				found[name] = e
			}
			e.Synonyms = append(e.Synonyms, Synonym{Name: name, Source: l.source})
		}
	}
	var out []Entry
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[name])
	}
	return out
}

// DescribeClientMetrics answers about a subscription to client metrics.
func (c *Config) DescribeClientMetrics(overrides map[string]string, names []string) []Entry {
	var out []Entry
	for _, k := range selected(ClientMetricsScope, names) {
		e := c.describeWith(k, overrides, DynamicClientMetrics)
		if e.Source == Default {
			e.Synonyms = nil // so it is in Apache Kafka
		}
		out = append(out, e)
	}
	return out
}

func (c *Config) describeBroker(k *Key) Entry {
	e := entry(k)
	e.ReadOnly = k.Mode == ReadOnly
	all := c.settings(synonymsOf(k.Name))
	for i, s := range all { // those of stronger keys say nothing about this one
		if s.name == k.Name {
			e.fill(k, all[i:], func(s setting) (any, bool) {
				v, err := k.parse(s.raw)
				return v, err == nil && s.name == k.Name
			})
			break
		}
	}
	return e
}

// DescribeTopic answers about a topic with these overrides.
func (c *Config) DescribeTopic(overrides map[string]string, names []string) []Entry {
	var out []Entry
	for _, k := range selected(TopicScope, names) {
		out = append(out, c.describeWith(k, overrides, DynamicTopic))
	}
	return out
}

// DescribeGroup answers about a group with these overrides.
func (c *Config) DescribeGroup(overrides map[string]string, names []string) []Entry {
	var out []Entry
	for _, k := range selected(GroupScope, names) {
		out = append(out, c.describeWith(k, overrides, DynamicGroup))
	}
	return out
}

func (c *Config) describeWith(k *Key, overrides map[string]string, source Source) Entry {
	e := entry(k)
	var all []setting
	if raw, ok := overrides[k.Name]; ok {
		all = append(all, setting{k.Name, raw, source})
	}
	all = append(all, c.settings(k.Synonyms)...)
	// A group's key that no broker's key gives is told with its default beside
	// the override, a topic's without.
	if k.Default != nil && (len(all) == 0 || k.Scope == GroupScope && len(k.Synonyms) == 0) {
		all = append(all, setting{k.Name, *k.Default, Default})
	}
	e.fill(k, all, func(s setting) (any, bool) {
		if s.source == source {
			v, err := k.parse(s.raw)
			if list, ok := v.([]string); ok && source == DynamicClientMetrics {
				v = eachOnce(list) // as Apache Kafka tells them, and no others
			}
			return v, err == nil
		}
		from, ok := lookupBroker(s.name)
		if !ok {
			from = k
		}
		v, err := from.parse(s.raw)
		return convert(v, s.name, k.Name), err == nil
	})
	return e.trim(k)
}

func eachOnce(list []string) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// trim leaves out of the synonyms what Apache Kafka does: a default in another
// unit, unless a stronger value stands before it, and a topic's default that no
// broker's key gives. An override is shown as it was read.
func (e Entry) trim(k *Key) Entry {
	own := 0
	if e.Source == DynamicTopic || e.Source >= DynamicClientMetrics {
		own = 1
		e.Synonyms[0].Value = e.Value
	}
	rest := e.Synonyms[own:]
	for len(rest) > 0 && rest[0].Source == Default && (len(k.Synonyms) > 0 && rest[0].Name != k.Synonyms[0] || k.Scope == TopicScope && len(k.Synonyms) == 0) {
		rest = rest[1:]
	}
	e.Synonyms = append(e.Synonyms[:own:own], rest...)
	return e
}

func entry(k *Key) Entry {
	return Entry{Name: k.Name, Source: Default, Sensitive: k.Sensitive(), Type: k.Type, Doc: k.Doc}
}

// fill sets value and source from the strongest setting that parses.
func (e *Entry) fill(k *Key, all []setting, parse func(setting) (any, bool)) {
	found := false
	for _, s := range all {
		syn := Synonym{Name: s.name, Value: &s.raw, Source: s.source}
		if e.Sensitive {
			syn.Value = nil
		}
		e.Synonyms = append(e.Synonyms, syn)
		if found {
			continue
		}
		if v, ok := parse(s); ok {
			found = true
			e.Source = s.source
			if !e.Sensitive {
				e.Value = value(format(v))
			}
		}
	}
}

// selected are the described rows of a scope, by name.
func selected(scope Scope, names []string) []*Key {
	if len(names) == 0 {
		return Keys(scope)
	}
	var out []*Key
	for _, k := range Keys(scope) {
		for _, name := range names {
			if name == k.Name {
				out = append(out, k)
				break
			}
		}
	}
	return out
}

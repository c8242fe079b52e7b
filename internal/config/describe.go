package config

// Entry is what DescribeConfigs answers about one key.
type Entry struct {
	Name      string
	Value     *string // nil when unset or sensitive
	Source    Source
	Sensitive bool
	ReadOnly  bool
	Type      Type
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
	if len(all) == 0 && k.Default != nil {
		all = append(all, setting{k.Name, *k.Default, Default})
	}
	e.fill(k, all, func(s setting) (any, bool) {
		if s.source == source {
			v, err := k.parse(s.raw)
			return v, err == nil
		}
		from, ok := lookupBroker(s.name)
		if !ok {
			from = k
		}
		v, err := from.parse(s.raw)
		return convert(v, s.name, k.Name), err == nil
	})
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

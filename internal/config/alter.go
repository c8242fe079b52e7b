package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// OpKind is what an alteration does to one key (KIP-339), by its code.
type OpKind int8

// The kinds.
const (
	SetOp OpKind = iota
	DeleteOp
	AppendOp   // to a list
	SubtractOp // from a list
)

// Op alters one key; Value is nil where the protocol carried null.
type Op struct {
	Name  string
	Kind  OpKind
	Value *string
}

// Alter gives the overrides that a topic, a group or a subscription to client
// metrics has after ops, which name each key once. Errors are *Invalid
// (INVALID_CONFIG), for unknown keys, values that do not fit, and lists that
// are none; some of client metrics are *Wrong. was is not changed.
func (c *Config) Alter(scope Scope, was map[string]string, ops []Op) (map[string]string, error) {
	next := maps.Clone(was)
	if next == nil {
		next = map[string]string{}
	}
	for _, op := range ops {
		k := index[scope][op.Name]
		if op.Kind == DeleteOp {
			delete(next, op.Name) // also a key that this version does not know: it can only be taken away
			continue
		}
		if op.Kind == SetOp {
			next[op.Name] = *op.Value // what is unknown is refused with the rest
			continue
		}
		if err := CheckList(scope, op); err != nil {
			return nil, err
		}
		have, set := next[op.Name]
		if !set {
			have = c.inherited(k)
		}
		next[op.Name] = alterList(have, op)
	}
	for _, op := range ops {
		if len(next[op.Name]) > MaxValueBytes {
			return nil, tooLong()
		}
	}
	return next, c.validate(scope, next)
}

// CheckList refuses to append to, or to subtract from, what is no list:
// INVALID_CONFIG. Of other things than topics Apache Kafka knows no lists.
func CheckList(scope Scope, op Op) error {
	verb, alters := map[OpKind]string{AppendOp: "APPEND", SubtractOp: "SUBTRACT"}[op.Kind]
	if k, known := index[scope][op.Name]; !alters || known && k.Type == List && scope == TopicScope {
		return nil
	}
	return &Invalid{fmt.Sprintf("Can't %s to key %s because its type is not LIST.", verb, op.Name)}
}

// inherited is the value of a list that is not set itself.
func (c *Config) inherited(k *Key) string {
	for _, e := range c.describe(k.Scope, nil, []string{k.Name}) {
		if e.Value != nil {
			return *e.Value
		}
	}
	return ""
}

// alterList adds to a list, or takes away from it. Each entry is looked at
// once: what is sent may be as long as a request.
func alterList(list string, op Op) string {
	var have []string
	if list = strings.TrimSpace(list); list != "" {
		have = strings.Split(list, ",")
	}
	count := map[string]int{}
	if op.Kind == AppendOp {
		for _, h := range have {
			count[h]++
		}
	}
	for part := range strings.SplitSeq(*op.Value, ",") {
		part = strings.TrimSpace(part)
		if count[part]++; op.Kind == AppendOp && count[part] == 1 {
			have = append(have, part)
		}
	}
	if op.Kind == SubtractOp {
		have = slices.DeleteFunc(have, func(h string) bool {
			count[h]--
			return count[h] >= 0
		})
	}
	return strings.Join(have, ",")
}

func (c *Config) describe(scope Scope, overrides map[string]string, names []string) []Entry {
	switch scope {
	case GroupScope:
		return c.DescribeGroup(overrides, names)
	case ClientMetricsScope:
		return c.DescribeClientMetrics(overrides, names)
	}
	return c.DescribeTopic(overrides, names)
}

func (c *Config) validate(scope Scope, overrides map[string]string) error {
	switch scope {
	case GroupScope:
		return c.ValidateGroup(overrides)
	case ClientMetricsScope:
		return validateClientMetrics(overrides)
	}
	nullable := make(map[string]*string, len(overrides))
	for k, v := range overrides {
		nullable[k] = &v
	}
	return c.ValidateTopic(nullable)
}

// ValidateGroup checks a group's overrides before they are stored: each value,
// the broker's bounds for it (a stored one that falls out of them later is
// clamped), and that a session outlasts its heartbeats.
func (c *Config) ValidateGroup(overrides map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		k, ok := index[GroupScope][name]
		if !ok {
			return &Invalid{"Unknown group config name: " + name}
		}
		v, err := k.parse(overrides[name])
		if err != nil {
			return err
		}
		if n, number := v.(int64); number {
			if err := c.groupBounds(name, n); err != nil {
				return err
			}
		}
		if known := c.List("group.streams.assignors"); name == "streams.assignor.name" && !slices.Contains(known, overrides[name]) {
			return &Invalid{fmt.Sprintf("%s must be one of %s", name, strings.Join(known, ", "))}
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := c.groupInt(overrides, kind+".session.timeout.ms"), c.groupInt(overrides, kind+".heartbeat.interval.ms")
		if session <= heartbeat {
			return &Invalid{fmt.Sprintf("%s.session.timeout.ms must be greater than %s.heartbeat.interval.ms", kind, kind)}
		}
	}
	return nil
}

// groupBounds holds a group's number against what the broker's keys allow.
func (c *Config) groupBounds(name string, n int64) error {
	kind, rest, _ := strings.Cut(name, ".")
	rest = strings.TrimPrefix(rest, "num.") // its bound has no such word
	_, bottom := lookupBroker("group." + kind + ".min." + rest)
	_, top := lookupBroker("group." + kind + ".max." + rest)
	least, most := c.Int("group."+kind+".min."+rest), c.Int("group."+kind+".max."+rest)
	switch {
	case bottom && top && (n < least || n > most):
		return &Invalid{fmt.Sprintf("%s must be in the range %d to %d inclusive.", name, least, most)}
	case top && n > most:
		return &Invalid{fmt.Sprintf("%s must be less than or equal to %d", name, most)}
	}
	return nil
}

// groupInt is the value that counts for a group's numeric key.
func (c *Config) groupInt(overrides map[string]string, name string) int64 {
	if k, ok := index[GroupScope][name]; ok {
		if v, err := k.parse(overrides[name]); err == nil {
			if n, ok := v.(int64); ok {
				return n
			}
		}
	}
	return c.Int("group." + name)
}

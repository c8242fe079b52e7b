package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// With lays the dynamic settings of the cluster and of this broker over the
// static ones. What does not fit is left out, and comes back as a sentence: it
// was refused when it was set, unless another version stored it, or the static
// settings have changed since. Keys that nobody knows are only kept to be shown.
func (c *Config) With(cluster, broker map[string]string) (next *Config, warnings []string) {
	static := c.layers[len(c.layers)-1]
	next = &Config{layers: []layer{{DynamicBroker, map[string]string{}}, {DynamicDefault, map[string]string{}}, static}}
	for i, raw := range []map[string]string{broker, cluster} {
		l := next.layers[i]
		unknown := layer{l.source, map[string]string{}}
		for _, name := range sortedKeys(raw) {
			k, known := lookupBroker(name)
			if !known {
				unknown.raw[name] = raw[name]
				continue
			}
			err := k.dynamic(name, raw[name], l.source == DynamicDefault)
			if err == nil {
				_, err = k.parse(raw[name])
			}
			if err == nil {
				l.raw[name] = raw[name]
				continue
			}
			warnings = append(warnings, fmt.Sprintf("dynamic setting of %s is ignored: %v", name, err))
		}
		next.unknown = append(next.unknown, unknown)
	}
	// Two that agree by themselves may not agree with each other: the broker's
	// own go first, one by one, as each was laid over what was there.
	for i := range next.layers[:2] {
		for _, name := range sortedKeys(next.layers[i].raw) {
			errs := next.crossCheck()
			if len(errs) == 0 {
				return next, warnings
			}
			if slices.ContainsFunc(errs, func(err error) bool { return strings.Contains(err.Error(), name) }) {
				delete(next.layers[i].raw, name)
				warnings = append(warnings, fmt.Sprintf("dynamic setting of %s is ignored: %v", name, errs[0]))
			}
		}
	}
	return next, warnings
}

// dynamic says why a known key cannot be set to raw while brokers run, or nil; all
// is for a setting of all brokers.
func (k *Key) dynamic(name, raw string, all bool) error {
	switch {
	case k.Mode == ReadOnly:
		return wrong("Cannot update these configs dynamically: [%s]", name)
	case all && (k.Mode == PerBroker || name != k.Name):
		return wrong("Cannot update these configs at default cluster level, broker id must be specified: [%s]", name)
	case k.Refusal(raw) != "":
		return &Invalid{k.Refusal(raw)}
	case !k.live(name):
		return &Invalid{name + " cannot be changed while this broker runs: set it in the broker's configuration and start it again"}
	}
	return nil
}

// live tells whether a dynamic key can be changed without a start here: what
// listeners are made of cannot, nor can keys of one listener. What is only kept
// can.
func (k *Key) live(name string) bool {
	return name == k.Name && (k.Mode == ClusterWide || k.State == Planned || name == "cordoned.log.dirs")
}

// Wrong is a change of a broker's settings that is refused; it is
// INVALID_REQUEST, which Apache Kafka answers to brokers' settings alone.
type Wrong struct{ Message string }

func (e *Wrong) Error() string { return e.Message }

// Unwrap makes it INVALID_REQUEST on the wire.
func (e *Wrong) Unwrap() error { return kerr.InvalidRequest }

func wrong(format string, args ...any) error { return &Wrong{fmt.Sprintf(format, args...)} }

// AlterBroker gives the dynamic settings that this broker, or with all every
// broker, has after ops, which name each key once; c is what counts now. Errors
// are *Wrong (INVALID_REQUEST) or *Invalid (INVALID_CONFIG). Keys that nobody
// knows are taken, as by Apache Kafka, and do nothing.
func (c *Config) AlterBroker(all bool, was map[string]string, ops []Op) (map[string]string, error) {
	next := maps.Clone(was)
	if next == nil {
		next = map[string]string{}
	}
	for _, op := range ops {
		k, known := lookupBroker(op.Name)
		switch op.Kind {
		case DeleteOp:
			delete(next, op.Name)
		case SetOp:
			next[op.Name] = *op.Value
		default:
			verb := map[OpKind]string{AppendOp: "append", SubtractOp: "subtract"}[op.Kind]
			if !known {
				return nil, &Invalid{"Unknown config name: " + op.Name}
			}
			if k.Type != List {
				return nil, &Invalid{fmt.Sprintf("Config value %s is not allowed for config key: %s", verb, op.Name)}
			}
			have, set := next[op.Name]
			if !set && k.Default != nil {
				have = *k.Default // not the static value: so it is in Apache Kafka
			}
			next[op.Name] = alterList(have, op)
		}
	}
	if err := c.checkBroker(all, was, next); err != nil {
		return nil, err
	}
	return next, minInsync(all, ops)
}

// minInsync keeps min.insync.replicas one for all brokers: eligible leaders
// (KIP-966) are counted by the topic's value and the cluster's. It comes last:
// in Apache Kafka it is the controller's word, after the broker's own checks.
func minInsync(all bool, ops []Op) error {
	if all || !slices.ContainsFunc(ops, func(op Op) bool { return op.Name == "min.insync.replicas" }) {
		return nil
	}
	return &Invalid{"Broker-level min.insync.replicas cannot be altered while ELR is enabled."}
}

// MaxValueBytes is the longest value of an override, as in Apache Kafka.
const MaxValueBytes = 32767

// checkBroker holds the next dynamic settings against what counts now.
func (c *Config) checkBroker(all bool, was, next map[string]string) error {
	var readOnly, security []string
	for _, name := range sortedKeys(next) {
		k, known := lookupBroker(name)
		switch {
		case !known:
		case k.Mode == ReadOnly:
			readOnly = append(readOnly, name)
		case name == k.Name && strings.HasPrefix(name, "ssl."):
			security = append(security, name)
		}
	}
	switch {
	case len(readOnly) > 0:
		return wrong("Cannot update these configs dynamically: [%s]", strings.Join(readOnly, ", "))
	case len(security) > 0:
		return wrong("These security configs can be dynamically updated only per-listener using the listener prefix: [%s]", strings.Join(security, ", "))
	}
	for _, name := range sortedKeys(next) {
		if len(next[name]) > MaxValueBytes {
			return tooLong()
		}
		k, known := lookupBroker(name)
		if !known {
			continue
		}
		if _, err := k.parse(next[name]); err != nil {
			return wrong("%s", err)
		}
		if err := k.dynamic(name, next[name], all); err != nil {
			return err
		}
	}
	return c.checkTogether(all, was, next)
}

func tooLong() error {
	return &Invalid{fmt.Sprintf("The configuration value cannot be added because it exceeds the maximum value size of %d bytes.", MaxValueBytes)}
}

// checkTogether holds the settings that would count against each other and
// against those that count now.
func (c *Config) checkTogether(all bool, was, next map[string]string) error {
	then := c.replaced(all, next)
	if errs := then.crossCheck(); len(errs) > 0 {
		return wrong("%s", errs[0])
	}
	changed := func(name string) bool {
		to, set := next[name]
		from, before := was[name]
		return set && (!before || from != to)
	}
	// Without a thread there would be no compaction; a broker may start so, as
	// Apache Kafka does, but is not brought there.
	for _, name := range []string{"max.connections", "max.connection.creation.rate", "log.cleaner.threads"} {
		if changed(name) && then.Int(name) <= 0 {
			return wrong("Invalid %s %d", name, then.Int(name))
		}
	}
	for _, name := range threadCounts {
		if !changed(name) {
			continue
		}
		switch now, n := c.Int(name), then.Int(name); {
		case n < now/2:
			return wrong("Dynamic thread count update validation failed for %s=%d, value should be at least half the current value %d", name, n, now)
		case n > 2*now:
			return wrong("Dynamic thread count update validation failed for %s=%d, value should not be greater than double the current value %d", name, n, now)
		}
	}
	dirs := then.List("log.dirs")
	for _, d := range then.List("cordoned.log.dirs") {
		if changed("cordoned.log.dirs") && d != "*" && !slices.Contains(dirs, d) {
			return wrong("Invalid entry in cordoned.log.dirs: %s. All cordoned log dirs must be entries of log.dirs or log.dir.", d)
		}
	}
	return nil
}

// threadCounts change by no more than half or double at a time.
var threadCounts = []string{"num.recovery.threads.per.data.dir"}

// replaced is c with other dynamic settings of one source.
func (c *Config) replaced(all bool, raw map[string]string) *Config {
	source := DynamicBroker
	if all {
		source = DynamicDefault
	}
	next := &Config{}
	for _, of := range []Source{DynamicBroker, DynamicDefault} {
		if of == source {
			next.layers = append(next.layers, layer{of, raw})
			continue
		}
		for _, l := range c.layers {
			if l.source == of {
				next.layers = append(next.layers, l)
			}
		}
	}
	next.layers = append(next.layers, c.layers[len(c.layers)-1])
	return next
}

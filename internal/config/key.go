package config

import (
	"slices"
	"strings"
)

// Type is the type of a value, by its code in DescribeConfigs (KIP-569).
type Type int8

// The types.
const (
	Boolean Type = iota + 1
	String
	Int
	Short
	Long
	Double
	List
	Class
	Password
)

var typeNames = [...]string{"", "boolean", "string", "int", "short", "long", "double", "list", "class", "password"}

func (t Type) String() string { return typeNames[t] }

// Scope is what a key configures.
type Scope int8

// The scopes. The same name may stand in several.
const (
	BrokerScope Scope = iota
	TopicScope
	GroupScope
	ClientMetricsScope
)

var scopeNames = [...]string{"broker", "topic", "group", "client-metrics"}

func (s Scope) String() string { return scopeNames[s] }

// Mode tells how a value may change while the broker runs (KIP-226).
type Mode int8

// The modes.
const (
	ReadOnly    Mode = iota // with a restart
	PerBroker               // for one broker at a time
	ClusterWide             // for one broker, or for all as a default
)

var modeNames = [...]string{"read-only", "per-broker", "cluster-wide"}

func (m Mode) String() string { return modeNames[m] }

// State tells what setting a key does today.
type State int8

// The states.
const (
	Live    State = iota // it takes effect
	Planned              // it is checked and kept for a feature to come
	Never                // it is accepted for Apache Kafka's sake and has no meaning here; Reason says why
	Refused              // what it asks for would not happen, which Reason says: it stops the start
)

var stateNames = [...]string{"effective", "kept, no effect yet", "ignored", "refused"}

func (s State) String() string { return stateNames[s] }

// Key is one row of the table.
type Key struct {
	Name     string
	Scope    Scope
	Type     Type
	Default  *string // nil: null, which means unset
	Kafka    string  // Apache Kafka's default, where it differs
	Check    Check
	Mode     Mode
	Synonyms []string // broker keys that give a topic's or a group's key its default, the strongest first
	State    State
	Reason   string // of Never and Refused: one sentence, no capital and no full stop
	Hidden   bool   // not described, not documented
	Doc      string
}

// Sensitive values are never shown.
func (k *Key) Sensitive() bool { return k.Type == Password }

// Refusal says why a value cannot be set while the broker runs, although it is
// one of the key's; "" where it can. One that repeats the default asks for nothing.
func (k *Key) Refusal(raw string) string {
	if v, err := k.parse(raw); err != nil || k.isDefault(v) {
		return ""
	}
	switch k.State {
	case Never:
		return k.Name + " has no effect in Barnabas: " + k.Reason
	case Refused:
		return k.Name + " cannot be used: " + k.Reason
	}
	return ""
}

// Allowed says what a value may be, for people.
func (k *Key) Allowed() string {
	kind := map[Type]string{Boolean: "true or false", String: "a text", Int: "a whole number", Short: "a whole number", Long: "a whole number", Double: "a number",
		List: "a list separated by commas", Class: "a name", Password: "a text"}[k.Type]
	if k.Check.Allowed == "" {
		return kind
	}
	return kind + ", " + k.Check.Allowed
}

func value(s string) *string { return &s }

// tables holds the rows by area, in the order of the documentation.
var tables = []struct {
	Title string
	Scope Scope
	Keys  []Key
}{
	{"Identity, directories and the metadata quorum", BrokerScope, nodeKeys},
	{"Listeners, connections and limits of requests", BrokerScope, networkKeys},
	{"Topics, replication and election", BrokerScope, replicationKeys},
	{"The log", BrokerScope, logKeys},
	{"Groups", BrokerScope, groupKeys},
	{"Transactions and producer ids", BrokerScope, transactionKeys},
	{"Quotas", BrokerScope, quotaKeys},
	{"Security", BrokerScope, securityKeys},
	{"Tiered storage", BrokerScope, tieredKeys},
	{"Metrics", BrokerScope, metricsKeys},
	{"Topic configuration", TopicScope, topicKeys},
	{"Group configuration", GroupScope, groupScopeKeys},
	{"Client metrics subscriptions", ClientMetricsScope, clientMetricsKeys},
}

// index finds rows by scope and name.
var index = func() (byName [4]map[string]*Key) {
	for scope := range byName {
		byName[scope] = map[string]*Key{}
	}
	for t := range tables {
		for i := range tables[t].Keys {
			k := &tables[t].Keys[i]
			k.Scope = tables[t].Scope
			byName[k.Scope][k.Name] = k
		}
	}
	return byName
}()

// Lookup finds a row.
func Lookup(scope Scope, name string) (*Key, bool) {
	k, ok := index[scope][name]
	return k, ok
}

// Keys lists the rows of a scope by name, hidden ones left out.
func Keys(scope Scope) []*Key {
	var out []*Key
	for _, k := range index[scope] {
		if !k.Hidden {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b *Key) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// lookupBroker also finds keys for one listener: listener.name.<name>.<key>.
func lookupBroker(name string) (*Key, bool) {
	if k, ok := index[BrokerScope][name]; ok {
		return k, true
	}
	rest, ok := strings.CutPrefix(name, "listener.name.")
	if !ok {
		return nil, false
	}
	// A listener's name may hold dots: the longest key that fits decides.
	for {
		_, after, ok := strings.Cut(rest, ".")
		if !ok {
			return nil, false
		}
		if k, ok := index[BrokerScope][after]; ok {
			return k, true
		}
		rest = after
	}
}

// brokerSynonyms are keys that mean the same in other units, the strongest
// first; every key of a set gives its whole set.
var brokerSynonyms = func() map[string][]string {
	out := map[string][]string{}
	for _, set := range [][]string{
		{"log.retention.ms", "log.retention.minutes", "log.retention.hours"},
		{"log.roll.ms", "log.roll.hours"},
		{"log.roll.jitter.ms", "log.roll.jitter.hours"},
		{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"},
	} {
		for _, name := range set {
			out[name] = set
		}
	}
	// The scheduler's interval has a meaning of its own.
	delete(out, "log.flush.scheduler.interval.ms")
	return out
}()

// synonymsOf lists name and the broker keys that mean the same.
func synonymsOf(name string) []string {
	if set, ok := brokerSynonyms[name]; ok {
		return set
	}
	return []string{name}
}

// fallbacks are keys that stand in for another that is unset; DescribeConfigs
// does not call them synonyms.
var fallbacks = map[string][]string{
	"log.dirs": {"log.dirs", "log.dir"},
	"node.id":  {"node.id", "broker.id"},
}

package broker

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// bed is a broker with settings of its own, and for each key what shows its
// effect: each would fail if the key were at its default, or had none.
type bed struct {
	name  string
	set   []string
	files vfs.FS
	// broker, topic, group and metrics have the keys of each scope.
	broker, topic, group, metrics map[string]func(*process)
}

// scopes are the proofs by scope.
func (b *bed) scopes() [4]map[string]func(*process) {
	return [4]map[string]func(*process){
		config.BrokerScope: b.broker, config.TopicScope: b.topic, config.GroupScope: b.group, config.ClientMetricsScope: b.metrics,
	}
}

// effects are the beds, and the proofs that need no broker, or several.
func effects() (beds []bed, alone map[string]func(*testing.T)) {
	beds = slices.Concat(logBeds(), []bed{topicBed()}, networkBeds(), topicMakingBeds(), groupBeds(), adminBeds())
	alone = map[string]func(*testing.T){}
	for _, m := range []map[string]func(*testing.T){nodeProofs(), networkProofs(), diskProofs(), groupProofs(), adminProofs(), balanceProofs(), replicationProofs(), clusterProofs()} {
		maps.Copy(alone, m)
	}
	return beds, alone
}

// TestEveryKey walks the whole table: a key is effective, and something here
// shows it, or it is kept, ignored or refused with its words at the start.
func TestEveryKey(t *testing.T) {
	beds, alone := effects()
	var proven [4]map[string]bool
	for scope := range proven {
		proven[scope] = map[string]bool{}
	}
	for _, b := range beds {
		for scope, proofs := range b.scopes() {
			for key := range proofs {
				proven[scope][key] = true
				if config.Scope(scope) == config.BrokerScope {
					mustBeSet(t, b, key)
				}
			}
		}
		t.Run(b.name, b.run)
	}
	for key := range alone {
		proven[config.BrokerScope][key] = true
	}
	t.Run("alone", func(t *testing.T) {
		for _, key := range slices.Sorted(maps.Keys(alone)) {
			t.Run(key, func(t *testing.T) { t.Parallel(); alone[key](t) })
		}
	})
	for scope := range proven {
		for _, k := range config.Keys(config.Scope(scope)) {
			if live := k.State == config.Live; live != proven[scope][k.Name] {
				t.Errorf("the %s key %s is %s, and there is a proof of its effect: %v", k.Scope, k.Name, k.State, !live)
			}
			if k.State != config.Live {
				idle(t, k)
			}
			delete(proven[scope], k.Name)
		}
		for key := range proven[scope] {
			if k, ok := config.Lookup(config.Scope(scope), key); !ok || !k.Hidden {
				t.Errorf("there is a proof for the %s key %s, which the table does not have", config.Scope(scope), key)
			}
		}
	}
}

// mustBeSet: a proof for a key of brokers needs another value than the default.
func mustBeSet(t *testing.T, b bed, key string) {
	k, ok := config.Lookup(config.BrokerScope, key)
	if !ok {
		return // told by the walk
	}
	for _, s := range b.set {
		if name, v, _ := strings.Cut(s, "="); name == key && (k.Default == nil || *k.Default != v) {
			return
		}
	}
	t.Errorf("%s: %s is proven and not set, or to its default", b.name, key)
}

func (b bed) run(t *testing.T) {
	t.Parallel()
	p := startBroker(t, b.files, append([]string{"log.dirs=" + t.TempDir()}, b.set...)...)
	for _, proofs := range b.scopes() {
		for _, key := range slices.Sorted(maps.Keys(proofs)) {
			t.Run(key, func(t *testing.T) {
				of := *p
				of.t = t
				proofs[key](&of)
			})
		}
	}
}

// idle checks what is said of a key without an effect: at the start, when it
// is altered, and by the page.
func idle(t *testing.T, k *config.Key) {
	var page strings.Builder
	if err := config.WriteDocs(&page); err != nil {
		t.Fatal(err)
	}
	if row := "| `" + k.Name + "` |"; !strings.Contains(page.String(), row) {
		t.Errorf("%s is not on the page", k.Name)
	}
	for _, v := range values(k) {
		switch k.Scope {
		case config.BrokerScope:
			if idleAtStart(k, v) {
				return
			}
		case config.TopicScope, config.GroupScope:
			if idleOverride(t, k, v) {
				return
			}
		}
	}
	t.Errorf("no value of the %s key %s shows that it is %s", k.Scope, k.Name, k.State)
}

func idleAtStart(k *config.Key, v string) bool {
	c, warnings, err := config.Load(config.Options{Set: []string{k.Name + "=" + v}})
	said := strings.Join(warnings, "\n")
	altered := k.Refusal(v)
	switch k.State {
	case config.Planned: // kept, and described
		return err == nil && said == k.Name+" has no effect yet" && altered == "" && kept(c.DescribeBroker([]string{k.Name}), v, config.Static, k.Sensitive())
	case config.Never:
		return err == nil && said == k.Name+" is accepted and has no effect in Barnabas: "+k.Reason && strings.HasSuffix(altered, k.Reason)
	case config.Refused:
		return err != nil && strings.HasPrefix(err.Error(), k.Name+": the value ") && strings.HasSuffix(err.Error(), "is refused: "+k.Reason) && strings.HasSuffix(altered, k.Reason)
	}
	return false
}

func kept(entries []config.Entry, v string, source config.Source, sensitive bool) bool {
	return len(entries) == 1 && entries[0].Source == source && (sensitive || entries[0].Value != nil && *entries[0].Value == v)
}

// idleOverride does the same for overrides of a topic or a group.
func idleOverride(t *testing.T, k *config.Key, v string) bool {
	c, err := config.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	next, err := c.Alter(k.Scope, nil, []config.Op{{Name: k.Name, Value: &v}})
	if k.State == config.Refused {
		return err != nil && strings.HasSuffix(err.Error(), k.Reason)
	}
	if err != nil || k.Refusal(v) != "" {
		return false
	}
	if k.Scope == config.GroupScope {
		return kept(c.DescribeGroup(next, []string{k.Name}), v, config.DynamicGroup, false)
	}
	return kept(c.DescribeTopic(next, []string{k.Name}), v, config.DynamicTopic, false)
}

// values are some that a key may have, none of them its default.
func values(k *config.Key) []string {
	def := ""
	if k.Default != nil {
		def = *k.Default
	}
	out := []string{"true", "false", "x", "1:1", "earliest", "sticky"}
	if _, words, ok := strings.Cut(k.Check.Allowed, "out of: "); ok {
		out = append(out, strings.Split(words, ", ")...)
	}
	n, _ := strconv.ParseInt(def, 10, 64)
	out = append(out, strconv.FormatInt(n+1, 10), strconv.FormatInt(n-1, 10), "0.25", "1")
	return slices.DeleteFunc(out, func(v string) bool { return v == def })
}

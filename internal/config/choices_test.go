package config

import (
	"slices"
	"testing"
)

// What is offered is taken, for every key.
func TestChoicesAreAllowed(t *testing.T) {
	lists := 0
	for _, scope := range []Scope{BrokerScope, TopicScope, GroupScope, ClientMetricsScope} {
		for _, k := range Keys(scope) {
			for _, v := range k.Choices() {
				lists++
				if _, err := k.parse(v); err != nil && k.Type != List { // a list may need a certain word among others
					t.Errorf("%s: %q is offered: %v", k.Name, v, err)
				}
			}
		}
	}
	if lists < 50 {
		t.Errorf("only %d values are offered", lists)
	}
	k, _ := Lookup(TopicScope, "cleanup.policy")
	if got := k.Choices(); !slices.Contains(got, "compact") || !slices.Contains(got, "delete") {
		t.Errorf("cleanup.policy: %q", got)
	}
}

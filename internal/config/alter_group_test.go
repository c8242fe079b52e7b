package config

import (
	"errors"
	"testing"
)

// What a group may be given, held against the broker's bounds and lists.
func TestValidateGroup(t *testing.T) {
	c := must(t, nil)
	for _, one := range []struct {
		name, value string
		ok          bool
	}{
		{"streams.num.standby.replicas", "2", true},
		{"streams.num.standby.replicas", "3", false}, // group.streams.max.standby.replicas
		{"streams.assignor.name", "sticky", true},
		{"streams.assignor.name", "x", false},
		{"consumer.session.timeout.ms", "60000", true},
		{"consumer.session.timeout.ms", "60001", false},
		{"consumer.session.timeout.ms", "44999", false},
		{"no.such.key", "1", false},
	} {
		err := c.ValidateGroup(map[string]string{one.name: one.value})
		var invalid *Invalid
		if one.ok != (err == nil) || err != nil && !errors.As(err, &invalid) {
			t.Errorf("%s=%s: %v", one.name, one.value, err)
		}
	}
}

// A broker's min.insync.replicas is refused in two ways: a value that is none
// as any other, one that would be as a setting of all brokers.
func TestBrokersMinInsync(t *testing.T) {
	c := must(t, nil)
	zero, one := "0", "1"
	_, err := c.AlterBroker(false, nil, []Op{{Name: "min.insync.replicas", Value: &zero}})
	var bad *Wrong
	if !errors.As(err, &bad) {
		t.Errorf("0: %v", err)
	}
	_, err = c.AlterBroker(false, nil, []Op{{Name: "min.insync.replicas", Value: &one}})
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		t.Errorf("1: %v", err)
	}
}

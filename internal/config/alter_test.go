package config

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

func TestAlter(t *testing.T) {
	c, err := New(map[string]string{"group.consumer.max.session.timeout.ms": "90000"})
	if err != nil {
		t.Fatal(err)
	}
	set := func(name, v string) Op { return Op{name, SetOp, &v} }
	list := func(kind OpKind, name, v string) Op { return Op{name, kind, &v} }
	for _, c1 := range []struct {
		what  string
		scope Scope
		was   map[string]string
		ops   []Op
		want  map[string]string
		err   string
	}{
		{"set and delete", TopicScope, map[string]string{"segment.bytes": "1048576", "retention.ms": "1"},
			[]Op{set("retention.ms", "5"), {"segment.bytes", DeleteOp, nil}}, map[string]string{"retention.ms": "5"}, ""},
		{"delete what is not there", TopicScope, nil, []Op{{"retention.ms", DeleteOp, nil}}, map[string]string{}, ""},
		{"append to the default", TopicScope, nil, []Op{list(AppendOp, "cleanup.policy", "compact")},
			map[string]string{"cleanup.policy": "delete,compact"}, ""},
		{"append what is there", TopicScope, nil, []Op{list(AppendOp, "cleanup.policy", "delete")}, map[string]string{"cleanup.policy": "delete"}, ""},
		{"subtract", TopicScope, map[string]string{"cleanup.policy": "delete,compact"}, []Op{list(SubtractOp, "cleanup.policy", "delete, nothing")},
			map[string]string{"cleanup.policy": "compact"}, ""},
		{"append to a number", TopicScope, nil, []Op{list(AppendOp, "retention.ms", "5")}, nil, "Can't APPEND to key retention.ms because its type is not LIST."},
		{"unknown", TopicScope, nil, []Op{set("nosuch", "5")}, nil, "Unknown topic config name: nosuch"},
		{"unknown of a group", GroupScope, nil, []Op{set("retention.ms", "5")}, nil, "Unknown group config name: retention.ms"},
		{"group", GroupScope, nil, []Op{set("consumer.session.timeout.ms", "90000")}, map[string]string{"consumer.session.timeout.ms": "90000"}, ""},
		{"above the broker's bound", GroupScope, nil, []Op{set("consumer.session.timeout.ms", "90001")}, nil,
			"consumer.session.timeout.ms must be in the range 45000 to 90000 inclusive."},
		{"below it", GroupScope, nil, []Op{set("consumer.heartbeat.interval.ms", "4999")}, nil,
			"consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive."},
	} {
		t.Run(c1.what, func(t *testing.T) {
			before := maps.Clone(c1.was)
			got, err := c.Alter(c1.scope, c1.was, c1.ops)
			if !maps.Equal(before, c1.was) {
				t.Error("what there was has changed")
			}
			switch {
			case c1.err != "":
				if err == nil || err.Error() != c1.err {
					t.Errorf("%v, want %s", err, c1.err)
				}
			case err != nil:
				t.Error(err)
			case !maps.Equal(got, c1.want):
				t.Errorf("%v, want %v", got, c1.want)
			}
		})
	}
	if _, err := c.Alter(GroupScope, nil, []Op{set("consumer.heartbeat.interval.ms", "15000"), set("consumer.session.timeout.ms", "45000")}); err != nil {
		t.Error(err)
	}
}

// A list as long as a request is refused in the time that it takes to read it.
func TestAlterLongList(t *testing.T) {
	c, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range 500_000 {
		fmt.Fprintf(&b, "%d,", n)
	}
	long := b.String()
	began := time.Now()
	if _, err := c.Alter(TopicScope, nil, []Op{{"cleanup.policy", AppendOp, &long}}); err == nil {
		t.Error("a list of 3 MB is taken")
	}
	if _, err := c.Alter(TopicScope, map[string]string{"cleanup.policy": "compact,delete"}, []Op{{"cleanup.policy", SubtractOp, &long}}); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
}

package config

import (
	"strings"
	"testing"
)

func TestReload(t *testing.T) {
	was := map[string]string{"log.retention.ms": "1000", "num.partitions": "2", "group.consumer.max.assignment.interval.ms": "9000"}
	for _, c := range []struct {
		next               map[string]string
		now, restart, ends string // and log.retention.ms in the end
	}{
		{was, "", "", "=1000"},
		{map[string]string{"num.partitions": "2", "group.consumer.max.assignment.interval.ms": "9000"}, "log.retention.ms", "", ""},
		{map[string]string{"log.retention.ms": "2000", "num.partitions": "3", "group.consumer.max.assignment.interval.ms": "9000"},
			"log.retention.ms", "num.partitions", "=2000"},
		// The interval fits only with the bound that needs a restart.
		{map[string]string{"log.retention.ms": "2000", "num.partitions": "2", "group.consumer.max.assignment.interval.ms": "20000",
			"group.consumer.assignment.interval.ms": "15000", "barnabas.log.level": "warn"}, "barnabas.log.level",
			"group.consumer.assignment.interval.ms,group.consumer.max.assignment.interval.ms,log.retention.ms", "=1000"},
	} {
		running, now, restart := must(t, was).Reload(must(t, c.next))
		if got := strings.Join(now, ","); got != c.now {
			t.Errorf("%v: now %s, want %s", c.next, got, c.now)
		}
		if got := strings.Join(restart, ","); got != c.restart {
			t.Errorf("%v: after a restart %s, want %s", c.next, got, c.restart)
		}
		if got := running.shown("log.retention.ms", index[BrokerScope]["log.retention.ms"]); got != c.ends {
			t.Errorf("%v: runs with %s", c.next, got)
		}
	}
}

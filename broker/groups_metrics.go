package broker

import (
	"context"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/barnabas-mq/barnabas/internal/group"
)

// groupMetrics tells of the groups that this broker coordinates, when it is
// asked: a group costs nothing until then. Lag is told for partitions that
// this broker leads.
type groupMetrics struct {
	g *groups

	members, state, rebalances, commits, lag, age *prometheus.Desc
}

// scrapeTimeout bounds what a scrape waits for machines.
const scrapeTimeout = 5 * time.Second

// Collector tells of the groups.
func (g *groups) Collector() prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("barnabas_group_"+name, help, append([]string{"group"}, labels...), nil)
	}
	return &groupMetrics{
		g:          g,
		members:    desc("members", "Members of the group."),
		state:      desc("state", "1, with the group's protocol and state as labels.", "type", "state"),
		rebalances: desc("rebalances_total", "Generations or epochs that the group began since its coordinator loaded it."),
		commits:    desc("commits_total", "Offsets of partitions that were committed since the coordinator loaded the group."),
		lag:        desc("lag_records", "Records between the group's committed offset and the high watermark.", "topic", "partition"),
		age:        desc("lag_seconds", "Age of the oldest record that the group has not read; 0 when it has read all.", "topic", "partition"),
	}
}

// Describe implements prometheus.Collector.
func (c *groupMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.members, c.state, c.rebalances, c.commits, c.lag, c.age} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *groupMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	for _, shard := range c.g.run.Active() {
		reply, err := c.g.run.Do(ctx, shard, &group.Observe{})
		if err != nil {
			continue // given up or loading: there is nothing to tell
		}
		now := time.Now()
		for _, s := range reply.([]group.Stats) {
			// A label has to be UTF-8, and an id need not be: what stood for such an
			// id could be another group's, and fail the whole scrape.
			if utf8.ValidString(s.Group) {
				c.group(out, now, &s)
			}
		}
	}
}

func (c *groupMetrics) group(out chan<- prometheus.Metric, now time.Time, s *group.Stats) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{s.Group}, labels...)...)
	}
	count := func(d *prometheus.Desc, v uint64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), s.Group)
	}
	gauge(c.members, float64(s.Members))
	gauge(c.state, 1, s.Type, s.State)
	count(c.rebalances, s.Rebalances)
	count(c.commits, s.Commits)
	for _, o := range s.Offsets {
		p, ok := c.g.replicas.Get(o.TopicPartition)
		if !ok {
			continue
		}
		records, age, err := p.Lag(now, o.Offset)
		if err != nil {
			continue // this broker does not lead it
		}
		partition := strconv.Itoa(int(o.Partition))
		gauge(c.lag, float64(records), o.Topic, partition)
		gauge(c.age, age.Seconds(), o.Topic, partition)
	}
}

package broker

import (
	"maps"
	"slices"
	"strconv"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// configure plans other overrides of a resource; ok is false when they are
// that already. Values are looked at before the resource is.
func configure(img *meta.Image, scope config.Scope, name string, change func(map[string]string) (map[string]string, error)) (t kv.Txn, ok bool, err error) {
	node := kafka.NoNode // all brokers
	if scope == config.BrokerScope && name != "" {
		n, err := strconv.ParseInt(name, 10, 32)
		if err != nil {
			return t, false, err
		}
		node = kafka.NodeID(n)
	}
	var was map[string]string
	switch {
	case scope == config.GroupScope:
		was = img.GroupConfig(name)
	case scope == config.ClientMetricsScope:
		was = img.ClientMetrics(name)
	case scope == config.TopicScope:
		was = img.TopicConfig(name)
	case node == kafka.NoNode:
		was = img.ClusterConfig()
	default:
		was = img.BrokerConfig(node)
	}
	next, err := change(was)
	if err != nil {
		return t, false, err
	}
	c := plan.ConfigChange{Set: next}
	for _, k := range slices.Sorted(maps.Keys(was)) {
		if _, kept := next[k]; !kept {
			c.Remove = append(c.Remove, k)
		}
	}
	switch scope {
	case config.GroupScope:
		t, ok = plan.ConfigureGroup(img, name, c)
	case config.ClientMetricsScope:
		t, ok = plan.ConfigureClientMetrics(img, name, c)
	case config.BrokerScope:
		t, ok = plan.ConfigureBroker(img, node, c)
	default:
		return plan.ConfigureTopic(img, name, c)
	}
	return t, ok, nil
}

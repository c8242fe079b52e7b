package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// Dynamic reads and checks settings that are changed while brokers run.
type Dynamic interface {
	// DescribeCluster lists the settings of all brokers that are set.
	DescribeCluster(names []string) []config.Entry
	// DescribeClientMetrics lists a subscription's settings.
	DescribeClientMetrics(overrides map[string]string, names []string) []config.Entry
	// AlterBroker gives the settings of this broker, or of all, after ops;
	// INVALID_REQUEST or INVALID_CONFIG.
	AlterBroker(all bool, was map[string]string, ops []config.Op) (map[string]string, error)
}

// resource is what a request configures.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// change is what a request wants of one resource. legacy replaces everything
// (AlterConfigs); else each op changes its key (KIP-339).
type change struct {
	resource
	ops    []config.Op
	legacy bool
}

// again marks the resources that a request names more than once: all of them
// are refused, each where it stands.
func again(all []resource) map[resource]bool {
	seen, twice := make(map[resource]bool, len(all)), map[resource]bool{}
	for _, r := range all {
		twice[r] = seen[r]
		seen[r] = true
	}
	maps.DeleteFunc(twice, func(_ resource, is bool) bool { return !is })
	return twice
}

// alter carries out one change.
func (a *API) alter(ctx context.Context, r *server.Request, c change, validate bool) error {
	if err := checkOps(c.ops); err != nil {
		return err
	}
	switch c.kind {
	case kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
	case kmsg.ConfigResourceTypeBrokerLogger:
		if !c.legacy {
			break
		}
		fallthrough
	default:
		return refusal(kerr.InvalidRequest, fmt.Sprintf("Unknown resource type %d", c.kind))
	}
	if !a.mayConfig(r, acl.AlterConfigs, c.kind, c.name) {
		return a.deniedConfig(c.kind)
	}
	if c.kind == kmsg.ConfigResourceTypeBrokerLogger {
		return a.alterLoggers(c, validate)
	}
	scope, name, err := a.configured(c.resource)
	if err != nil {
		for _, op := range c.ops {
			if wrong := config.CheckList(scope, op); wrong != nil && scope != config.BrokerScope {
				return wrong // which is looked at before the name
			}
		}
		return err
	}
	err = a.Cluster.Configure(ctx, scope, name, func(was map[string]string) (map[string]string, error) {
		ops := c.ops
		if c.legacy {
			ops = replace(was, ops)
		}
		if scope == config.BrokerScope {
			return a.Dynamic.AlterBroker(name == "", was, ops)
		}
		return a.Settings.Alter(scope, was, ops)
	}, validate)
	if errors.Is(err, context.DeadlineExceeded) {
		return refusal(kerr.RequestTimedOut, "The settings may have been changed, or may yet be.")
	}
	return err
}

// replace takes away what is set and not named.
func replace(was map[string]string, ops []config.Op) []config.Op {
	ops = slices.Clone(ops)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if !slices.ContainsFunc(ops, func(op config.Op) bool { return op.Name == name }) {
			ops = append(ops, config.Op{Name: name, Kind: config.DeleteOp})
		}
	}
	return ops
}

// checkOps: each key once, and none without a value.
func checkOps(ops []config.Op) error {
	seen := make(map[string]bool, len(ops))
	var nulls []string
	for _, op := range ops {
		if seen[op.Name] {
			return refusal(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[op.Name] = true
		if op.Value == nil && op.Kind != config.DeleteOp {
			nulls = append(nulls, op.Name)
		}
	}
	if len(nulls) > 0 {
		return refusal(kerr.InvalidRequest, "Null value not supported for : "+strings.Join(nulls, ", "))
	}
	return nil
}

// configured is what the metadata calls a resource; a broker is named as the
// number that its name says.
func (a *API) configured(r resource) (config.Scope, string, error) {
	switch r.kind {
	case kmsg.ConfigResourceTypeTopic:
		if r.name == "" {
			return config.TopicScope, "", refusal(kerr.InvalidRequest, "Default topic resources are not allowed.")
		}
		return config.TopicScope, r.name, plan.CheckName(r.name)
	case kmsg.ConfigResourceTypeGroupConfig:
		if r.name == "" {
			return config.GroupScope, "", refusal(kerr.InvalidRequest, "Default group resources are not allowed.")
		}
		return config.GroupScope, r.name, checkLength(r.name)
	case kmsg.ConfigResourceTypeClientMetrics:
		if r.name == "" {
			return config.ClientMetricsScope, "", refusal(kerr.InvalidRequest, "Subscription name can't be empty")
		}
		return config.ClientMetricsScope, r.name, checkLength(r.name)
	}
	if r.name == "" {
		return config.BrokerScope, "", nil
	}
	id, err := strconv.ParseInt(r.name, 10, 32)
	if err != nil {
		return config.BrokerScope, "", refusal(kerr.InvalidRequest, "Node id must be an integer, but it is: "+r.name)
	}
	if id != int64(a.Self) {
		return config.BrokerScope, "", refusal(kerr.InvalidRequest, fmt.Sprintf("Unexpected broker id, expected %d, but received %s", a.Self, r.name))
	}
	return config.BrokerScope, a.Self.String(), nil
}

// maxResourceName is what the log of groups has room for in a group's id.
const maxResourceName = math.MaxInt16

// checkLength refuses names that nothing has, and that only fill the metadata.
func checkLength(name string) error {
	if len(name) > maxResourceName {
		return refusal(kerr.InvalidRequest, fmt.Sprintf("A resource's name is %d bytes long at most.", maxResourceName))
	}
	return nil
}

// mayConfig: who may see or change the settings of a resource.
func (a *API) mayConfig(r *server.Request, op acl.Operation, kind kmsg.ConfigResourceType, name string) bool {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return a.allow(r, op, acl.Topic, name)
	case kmsg.ConfigResourceTypeGroupConfig:
		return a.allow(r, op, acl.Group, name)
	}
	return a.allow(r, op, acl.Cluster, acl.ClusterName)
}

func (a *API) deniedConfig(kind kmsg.ConfigResourceType) error {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return kerr.TopicAuthorizationFailed
	case kmsg.ConfigResourceTypeGroupConfig:
		return kerr.GroupAuthorizationFailed
	}
	return kerr.ClusterAuthorizationFailed
}

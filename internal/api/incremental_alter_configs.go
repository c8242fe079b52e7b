package api

// IncrementalAlterConfigs, key 44, versions 0-1 (KIP-339): settings of topics
// and groups. Those of brokers come from their files: a change at run time is
// refused with a sentence that says so.

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) incrementalAlterConfigs(ctx context.Context, r *server.Request, req *kmsg.IncrementalAlterConfigsRequest, resp *kmsg.IncrementalAlterConfigsResponse) error {
	ctx, cancel := context.WithTimeout(ctx, a.Limits.RequestTimeout)
	defer cancel()
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	times := make(map[resource]int)
	for i := range req.Resources {
		times[resource{req.Resources[i].ResourceType, req.Resources[i].ResourceName}]++
	}
	for i := range req.Resources {
		in := &req.Resources[i]
		key := resource{in.ResourceType, in.ResourceName}
		n := times[key]
		if n == 0 {
			continue // named twice, and told so
		}
		times[key] = 0
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		err := error(refusal(kerr.InvalidRequest, "Each resource must appear at most once"))
		if n == 1 {
			err = a.alterConfig(ctx, r, in, req.ValidateOnly)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = a.code(err), message(err)
		}
		resp.Resources = append(resp.Resources, out)
	}
	return nil
}

func (a *API) alterConfig(ctx context.Context, r *server.Request, in *kmsg.IncrementalAlterConfigsRequestResource, validate bool) error {
	kind, name := in.ResourceType, in.ResourceName
	if !a.mayConfig(r, acl.AlterConfigs, kind, name) {
		return a.deniedConfig(kind)
	}
	ops, err := configOps(in)
	if err != nil {
		return err
	}
	scope := config.TopicScope
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		if err := plan.CheckName(name); err != nil {
			return err
		}
	case kmsg.ConfigResourceTypeGroupConfig:
		if name == "" {
			return refusal(kerr.InvalidRequest, "Default group resources are not allowed.")
		}
		scope = config.GroupScope
	case kmsg.ConfigResourceTypeBroker:
		return refusal(kerr.InvalidRequest, "Settings of brokers cannot be changed while they run: set them in the broker's configuration and start it again.")
	default:
		return unsupportedResource(kind)
	}
	err = a.Cluster.Configure(ctx, scope, name, func(was map[string]string) (map[string]string, error) {
		return a.Settings.Alter(scope, was, ops)
	}, validate)
	if errors.Is(err, context.DeadlineExceeded) {
		return refusal(kerr.RequestTimedOut, "The settings may have been changed, or may yet be.")
	}
	return err
}

// configOps reads what is asked for one resource: each key once.
func configOps(in *kmsg.IncrementalAlterConfigsRequestResource) ([]config.Op, error) {
	var ops []config.Op
	var twice, nulls []string
	seen := make(map[string]bool)
	for i := range in.Configs {
		c := &in.Configs[i]
		if seen[c.Name] {
			twice = append(twice, c.Name)
		}
		seen[c.Name] = true
		op := config.Op{Name: c.Name, Kind: config.OpKind(c.Op), Value: c.Value}
		if op.Kind < config.SetOp || op.Kind > config.SubtractOp {
			return nil, refusal(kerr.InvalidRequest, fmt.Sprintf("Unknown operation %d on %s.", c.Op, c.Name))
		}
		if op.Value == nil && op.Kind != config.DeleteOp {
			nulls = append(nulls, c.Name)
		}
		ops = append(ops, op)
	}
	switch {
	case len(twice) > 0:
		return nil, refusal(kerr.InvalidRequest, "Error due to duplicate config keys : "+strings.Join(twice, ","))
	case len(nulls) > 0:
		return nil, refusal(kerr.InvalidRequest, "Null value not supported for : "+strings.Join(nulls, ","))
	}
	return ops, nil
}

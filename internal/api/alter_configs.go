package api

// AlterConfigs, key 33, versions 0-2: what is named replaces all that is set.
// Deprecated for IncrementalAlterConfigs (KIP-339), and still asked by older tools.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) alterConfigs(ctx context.Context, r *server.Request, req *kmsg.AlterConfigsRequest, resp *kmsg.AlterConfigsResponse) error {
	ctx, cancel := context.WithTimeout(ctx, a.Limits.RequestTimeout)
	defer cancel()
	all := make([]resource, len(req.Resources))
	for i := range req.Resources {
		all[i] = resource{req.Resources[i].ResourceType, req.Resources[i].ResourceName}
	}
	twice := again(all)
	for i := range req.Resources {
		c := change{resource: all[i], legacy: true}
		for j := range req.Resources[i].Configs {
			of := &req.Resources[i].Configs[j]
			c.ops = append(c.ops, config.Op{Name: of.Name, Kind: config.SetOp, Value: of.Value})
		}
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = c.kind, c.name
		err := error(refusal(kerr.InvalidRequest, "Each resource must appear at most once."))
		if !twice[c.resource] {
			err = a.alter(ctx, r, c, req.ValidateOnly)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = a.code(err), message(err)
		}
		resp.Resources = append(resp.Resources, out)
	}
	return nil
}

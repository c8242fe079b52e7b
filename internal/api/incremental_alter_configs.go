package api

// IncrementalAlterConfigs, key 44, versions 0-1 (KIP-339): settings of topics,
// groups, subscriptions to client metrics and brokers (KIP-226), and levels of
// the broker's loggers (KIP-412).

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) incrementalAlterConfigs(ctx context.Context, r *server.Request, req *kmsg.IncrementalAlterConfigsRequest, resp *kmsg.IncrementalAlterConfigsResponse) error {
	ctx, cancel := context.WithTimeout(ctx, a.Limits.RequestTimeout)
	defer cancel()
	all := make([]resource, len(req.Resources))
	for i := range req.Resources {
		all[i] = resource{req.Resources[i].ResourceType, req.Resources[i].ResourceName}
	}
	twice := again(all)
	unknown := unknownOps(req)
	for i := range req.Resources {
		c := change{resource: all[i]}
		for j := range req.Resources[i].Configs {
			of := &req.Resources[i].Configs[j]
			c.ops = append(c.ops, config.Op{Name: of.Name, Kind: config.OpKind(of.Op), Value: of.Value})
		}
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = c.kind, c.name
		err := error(refusal(kerr.InvalidRequest, "Each resource must appear at most once."))
		switch {
		case unknown != nil:
			err = unknown
		case !twice[c.resource]:
			err = a.alter(ctx, r, c, req.ValidateOnly)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = a.code(err), message(err)
		}
		resp.Resources = append(resp.Resources, out)
	}
	return nil
}

// unknownOps refuses the whole request for an operation that does not exist:
// whoever wrote that meant something which nobody here can know. Apache Kafka
// answers UNKNOWN_SERVER_ERROR.
func unknownOps(req *kmsg.IncrementalAlterConfigsRequest) error {
	for i := range req.Resources {
		for j := range req.Resources[i].Configs {
			if op := config.OpKind(req.Resources[i].Configs[j].Op); op < config.SetOp || op > config.SubtractOp {
				return refusal(kerr.InvalidRequest, fmt.Sprintf("Unknown operations type %d: nothing of the request is carried out.", op))
			}
		}
	}
	return nil
}

package api

// ListConfigResources, key 74, versions 0-1 (KIP-1142).
//
//	v0   subscriptions to client metrics alone (KIP-714)
//	v1   the types that are asked for; none: all

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/server"
)

var listedTypes = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
	kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig,
}

func (a *API) listConfigResources(_ context.Context, r *server.Request, req *kmsg.ListConfigResourcesRequest, resp *kmsg.ListConfigResourcesResponse) error {
	if !a.allow(r, acl.DescribeConfigs, acl.Cluster, acl.ClusterName) {
		resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return nil
	}
	want := listedTypes
	switch {
	case req.Version == 0:
		want = []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeClientMetrics}
	case len(req.ResourceTypes) > 0:
		want = nil
		for _, t := range req.ResourceTypes {
			kind := kmsg.ConfigResourceType(t)
			if !slices.Contains(listedTypes, kind) {
				resp.ErrorCode = kerr.UnsupportedVersion.Code
				return nil
			}
			if !slices.Contains(want, kind) {
				want = append(want, kind)
			}
		}
	}
	img := a.Image()
	add := func(kind kmsg.ConfigResourceType, name string) {
		out := kmsg.NewListConfigResourcesResponseConfigResource()
		out.Type, out.Name = int8(kind), name
		resp.ConfigResources = append(resp.ConfigResources, out)
	}
	for _, kind := range want {
		switch kind {
		case kmsg.ConfigResourceTypeTopic:
			for t := range img.Topics() {
				add(kind, t.Name)
			}
		case kmsg.ConfigResourceTypeClientMetrics:
			for name := range img.ClientMetricsNames() {
				add(kind, name)
			}
		case kmsg.ConfigResourceTypeGroupConfig:
			for id := range img.ConfiguredGroups() {
				add(kind, id)
			}
		default:
			for _, b := range img.Brokers() {
				add(kind, b.ID.String())
			}
		}
	}
	return nil
}

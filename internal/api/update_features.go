package api

// UpdateFeatures, key 57, versions 0-2 (KIP-584, KIP-778).
//
//	v0   nothing can be lowered: Apache Kafka does not look at the flag that asks for it
//	v1   the type of the change; validate only
//	v2   no answer per feature: all are changed or none is

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) updateFeatures(ctx context.Context, r *server.Request, req *kmsg.UpdateFeaturesRequest, resp *kmsg.UpdateFeaturesResponse) error {
	if err := a.changeFeatures(ctx, r, req); err != nil {
		resp.ErrorCode, resp.ErrorMessage = a.code(err), message(err)
		return nil
	}
	if req.Version > 1 {
		return nil
	}
	for i := range req.FeatureUpdates {
		out := kmsg.NewUpdateFeaturesResponseResult()
		out.Feature, out.ErrorMessage = req.FeatureUpdates[i].Feature, kmsg.StringPtr("NONE")
		resp.Results = append(resp.Results, out)
	}
	return nil
}

func (a *API) changeFeatures(ctx context.Context, r *server.Request, req *kmsg.UpdateFeaturesRequest) error {
	if !a.allow(r, acl.Alter, acl.Cluster, acl.ClusterName) {
		return kerr.ClusterAuthorizationFailed
	}
	updates := make([]plan.FeatureUpdate, 0, len(req.FeatureUpdates))
	for i := range req.FeatureUpdates {
		in := &req.FeatureUpdates[i]
		u := plan.FeatureUpdate{Name: in.Feature, Level: in.MaxVersionLevel, Type: plan.UpgradeType(in.UpgradeType)}
		if req.Version == 0 {
			u.Type = plan.Upgrade
		}
		updates = append(updates, u)
	}
	ctx, cancel := context.WithTimeout(ctx, a.Limits.RequestTimeout) // Apache Kafka does not look at the request's own
	defer cancel()
	err := a.Features.Update(ctx, updates, req.Version >= 1 && req.ValidateOnly)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return refusal(kerr.RequestTimedOut, "The features may have been changed, or may yet be.")
	case errors.Is(err, kerr.InvalidUpdateVersion):
		return refusal(kerr.InvalidUpdateVersion, "The update failed for all features since the following feature had an error: "+err.Error())
	}
	return err
}

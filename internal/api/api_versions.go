package api

// ApiVersions, key 18, versions 0-5.
//
// The answer's header has no tagged fields at any version, and a version above
// the newest is answered with version 0 and UNSUPPORTED_VERSION: both are the
// server's part, since nobody can parse such a request's body.
//
//	v3   the client's name and version (KIP-511); features (KIP-584)
//	v4   features whose lowest version is 0 are told too (KAFKA-17011)
//	v5   the cluster and node the client thinks it talks to (KIP-1242)

import (
	"context"
	"maps"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/server"
)

// softwareName is what KIP-511 allows as a client's name or version.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func (a *API) apiVersions(_ context.Context, r *server.Request, req *kmsg.ApiVersionsRequest, resp *kmsg.ApiVersionsResponse) error {
	if err := a.checkApiVersions(req); err != nil {
		resp.ErrorCode = a.code(err)
		return nil
	}
	if req.Version >= 3 {
		r.Conn.SoftwareName, r.Conn.SoftwareVersion = req.ClientSoftwareName, req.ClientSoftwareVersion
	}
	for _, k := range a.Table().Advertised() {
		out := kmsg.NewApiVersionsResponseApiKey()
		out.ApiKey, out.MinVersion, out.MaxVersion = k.Key, k.Min, k.Max
		resp.ApiKeys = append(resp.ApiKeys, out)
	}
	if req.Version < 3 {
		return nil
	}
	img := a.Image()
	levels, epoch := img.Features()
	if !unknown(img) { // else it is -1: unknown
		resp.FinalizedFeaturesEpoch = epoch
	}
	for _, name := range slices.Sorted(maps.Keys(a.Features.Supported)) {
		span := a.Features.Supported[name]
		if span[0] == 0 && req.Version < 4 {
			span[0] = 1 // older clients refuse a range that begins at 0
		}
		if span[1] < span[0] {
			continue
		}
		out := kmsg.NewApiVersionsResponseSupportedFeature()
		out.Name, out.MinVersion, out.MaxVersion = name, span[0], span[1]
		resp.SupportedFeatures = append(resp.SupportedFeatures, out)
	}
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		if levels[name] == 0 {
			continue // level 0 is how a feature says that it is off
		}
		out := kmsg.NewApiVersionsResponseFinalizedFeature()
		out.Name, out.MinVersionLevel, out.MaxVersionLevel = name, levels[name], levels[name]
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, out)
	}
	return nil
}

func (a *API) checkApiVersions(req *kmsg.ApiVersionsRequest) error {
	if req.Version >= 3 && (!softwareName.MatchString(req.ClientSoftwareName) || !softwareName.MatchString(req.ClientSoftwareVersion)) {
		return kerr.InvalidRequest
	}
	if req.Version < 5 || req.ClusterID == nil && req.NodeID == -1 {
		return nil
	}
	switch {
	case req.ClusterID == nil || req.NodeID == -1: // both or neither
		return kerr.InvalidRequest
	case req.NodeID != int32(a.Self):
		return kerr.RebootstrapRequired
	}
	// A broker that does not know its cluster yet takes the client's word for it:
	// Java does not come back to a coordinator that sent it away.
	if id := a.Image().ClusterID(); id != "" && id != *req.ClusterID {
		return kerr.RebootstrapRequired
	}
	return nil
}

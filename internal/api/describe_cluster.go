package api

// DescribeCluster, key 60, versions 0-2 (KIP-700).
//
//	v1   the kind of endpoint that is asked for (KIP-919): there are no
//	     controllers to connect to here
//	v2   fenced brokers are listed when they are asked for (KIP-1073). None is:
//	     a broker that is gone has no registration that could tell its address

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// The kinds of endpoint.
const (
	brokerEndpoint     = 1
	controllerEndpoint = 2
)

func (a *API) clusterNodes(_ context.Context, r *server.Request, req *kmsg.DescribeClusterRequest, resp *kmsg.DescribeClusterResponse) error {
	resp.EndpointType, resp.ControllerID, resp.ClusterAuthorizedOperations = brokerEndpoint, -1, notAsked
	if err := checkEndpoint(req.EndpointType); err != nil {
		resp.ErrorCode, resp.ErrorMessage = a.code(err), message(err)
		return nil
	}
	img := a.Image()
	resp.ClusterID = img.ClusterID()
	controller, _ := img.Controller()
	for _, b := range a.reachable(img, r.Conn.Listener) {
		host, port, _ := address(b, r.Conn.Listener)
		out := kmsg.NewDescribeClusterResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack = int32(b.ID), host, port, rack(b)
		resp.Brokers = append(resp.Brokers, out)
		if b.ID == controller {
			resp.ControllerID = int32(b.ID)
		}
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = 0
		if a.allow(r, acl.Describe, acl.Cluster, acl.ClusterName) {
			resp.ClusterAuthorizedOperations = acl.For(img).Authorized(r.Principal, acl.Cluster, acl.ClusterName)
		}
	}
	return nil
}

func checkEndpoint(kind int8) error {
	switch kind {
	case brokerEndpoint:
		return nil
	case controllerEndpoint:
		return refusal(kerr.MismatchedEndpointType,
			"The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
	default:
		return refusal(kerr.UnsupportedEndpointType, fmt.Sprintf("Unsupported endpoint type %d", kind))
	}
}

package api

// UnregisterBroker, key 64, version 0 (KIP-500).
//
// A registration lasts as long as its broker runs and holds its session, so a
// broker that is gone for good is forgotten without being asked for. What could
// be unregistered is a broker that serves: Apache Kafka takes it out of service
// until it restarts, with every partition that only it can lead. Here that is
// refused, and stopping the broker does it in order.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) unregisterBroker(_ context.Context, r *server.Request, req *kmsg.UnregisterBrokerRequest, resp *kmsg.UnregisterBrokerResponse) error {
	err := a.refuseUnregister(r, kafka.NodeID(req.BrokerID))
	resp.ErrorCode, resp.ErrorMessage = a.code(err), message(err)
	return nil
}

func (a *API) refuseUnregister(r *server.Request, id kafka.NodeID) error {
	if !a.allow(r, acl.Alter, acl.Cluster, acl.ClusterName) {
		return kerr.ClusterAuthorizationFailed
	}
	if _, there := a.Image().Broker(id); !there {
		return refusal(kerr.BrokerIDNotRegistered, fmt.Sprintf("Broker ID %d is not currently registered", id))
	}
	return refusal(kerr.InvalidRequest, fmt.Sprintf("Broker %d is running: stop it, and its registration ends with its session.", id))
}

package api

// AddRaftVoter, key 80, versions 0-1 (KIP-853): a node becomes a voter of the
// metadata. Any broker carries it out.
//
//	v1   whether to wait until it votes (KIP-1186); before, always
//
// The node is added as one that learns, and votes once it has caught up. Its
// directory id is not looked at: etcd gives a member an id of its own, which is
// told as its directory.

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// Voters changes who votes on the metadata. An error wraps a *kerr.Error; it is
// REQUEST_TIMED_OUT when ctx ends first.
type Voters interface {
	// Listener is the name of the listener at which voters are reached.
	Listener() string
	// Add makes a node that is found there a voter, and with wait comes back when it votes.
	Add(ctx context.Context, node kafka.NodeID, host string, port uint16, wait bool) error
	// Remove takes the member with this directory id out.
	Remove(ctx context.Context, node kafka.NodeID, dir kafka.DirID) error
}

func (a *API) addRaftVoter(ctx context.Context, r *server.Request, req *kmsg.AddRaftVoterRequest, resp *kmsg.AddRaftVoterResponse) error {
	resp.ErrorMessage = kmsg.StringPtr("NONE") // as Apache Kafka says of no error
	if err := a.addVoter(ctx, r, req); err != nil {
		resp.ErrorCode, resp.ErrorMessage = a.code(err), message(err)
	}
	return nil
}

func (a *API) addVoter(ctx context.Context, r *server.Request, req *kmsg.AddRaftVoterRequest) error {
	if err := a.mayChangeVoters(r, req.ClusterID); err != nil {
		return err
	}
	if req.VoterID < 0 || req.VoterDirectoryID == (kafka.DirID{}) {
		return refusal(kerr.InvalidRequest, "Add voter request didn't include a valid voter")
	}
	name := a.Voters.Listener()
	for i := range req.Listeners {
		l := &req.Listeners[i]
		if l.Name != name {
			continue
		}
		limit := a.Limits.RequestTimeout
		if req.TimeoutMillis > 0 {
			limit = min(limit, time.Duration(req.TimeoutMillis)*time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return a.Voters.Add(ctx, kafka.NodeID(req.VoterID), l.Host, l.Port, req.Version == 0 || req.AckWhenCommitted)
	}
	return refusal(kerr.InvalidRequest, fmt.Sprintf("Add voter request didn't include the endpoint for the default listener %s", name))
}

// mayChangeVoters: who may, and of this cluster.
func (a *API) mayChangeVoters(r *server.Request, cluster *string) error {
	if !a.allow(r, acl.Alter, acl.Cluster, acl.ClusterName) {
		return kerr.ClusterAuthorizationFailed
	}
	if id := a.Image().ClusterID(); cluster != nil && *cluster != id {
		return refusal(kerr.InconsistentClusterID, fmt.Sprintf("The given id %q doesn't match the cluster id %q", *cluster, id))
	}
	return nil
}

package api

// RemoveRaftVoter, key 81, version 0 (KIP-853): a voter of the metadata, or one
// that is on its way to become one, is none any more. Any broker carries it out.
//
// The directory id is that which DescribeQuorum tells.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) removeRaftVoter(ctx context.Context, r *server.Request, req *kmsg.RemoveRaftVoterRequest, resp *kmsg.RemoveRaftVoterResponse) error {
	resp.ErrorMessage = kmsg.StringPtr("NONE") // as Apache Kafka says of no error
	if err := a.removeVoter(ctx, r, req); err != nil {
		resp.ErrorCode, resp.ErrorMessage = a.code(err), message(err)
	}
	return nil
}

func (a *API) removeVoter(ctx context.Context, r *server.Request, req *kmsg.RemoveRaftVoterRequest) error {
	if err := a.mayChangeVoters(r, req.ClusterID); err != nil {
		return err
	}
	if req.VoterID < 0 || req.VoterDirectoryID == (kafka.DirID{}) {
		return refusal(kerr.InvalidRequest, "Remove voter request didn't include a valid voter")
	}
	ctx, cancel := context.WithTimeout(ctx, a.Limits.RequestTimeout*2/3) // the client's own is as long
	defer cancel()
	return a.Voters.Remove(ctx, kafka.NodeID(req.VoterID), req.VoterDirectoryID)
}

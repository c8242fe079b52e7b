package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// errNoQuorum is told of metadata outside of the cluster.
var errNoQuorum = &plan.Refusal{Code: kerr.InvalidRequest, Message: "The metadata is in an etcd outside of the cluster: ask that for its members."}

// quorum tells the members of the metadata's quorum: the one that is embedded
// here, which leads and has all that there is, up to the image's revision.
func (b *Broker) quorum(context.Context) (api.Quorum, error) {
	if len(b.node.Metadata.Endpoints) > 0 {
		return api.Quorum{}, errNoQuorum
	}
	img, now := b.parts.keeper.Image(), time.Now()
	return api.Quorum{
		Leader: b.node.NodeID, Epoch: max(img.ControllerEpoch(), 1), HighWatermark: img.Revision(),
		Voters: []api.QuorumMember{{Node: b.node.NodeID, End: img.Revision(), Heard: now, CaughtUp: now}},
	}, nil
}

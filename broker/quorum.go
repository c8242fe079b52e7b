package broker

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore/etcdstore"
)

// errNoQuorum is told of metadata outside of the cluster.
var errNoQuorum = &plan.Refusal{Code: kerr.InvalidRequest, Message: "The metadata is in an etcd outside of the cluster: ask that for its members."}

// quorum tells the members of the metadata's quorum: the voters, or the one that
// is embedded here, which leads and has all that there is, up to the image's
// revision.
func (b *Broker) quorum(ctx context.Context) (api.Quorum, error) {
	if len(b.node.Metadata.Endpoints) > 0 {
		return api.Quorum{}, errNoQuorum
	}
	now := time.Now()
	if m, ok := b.parts.store.(members); ok && !b.node.Metadata.Alone() {
		infos, err := m.Members(ctx)
		if err != nil {
			return api.Quorum{}, kerr.LeaderNotAvailable // nobody says who leads
		}
		return quorumOf(infos, voters{b}.Listener(), now), nil
	}
	img := b.parts.keeper.Image()
	return api.Quorum{
		Leader: b.node.NodeID, Epoch: max(img.ControllerEpoch(), 1), HighWatermark: img.Revision(),
		Voters: []api.QuorumMember{{Node: b.node.NodeID, End: img.Revision(), Heard: now, CaughtUp: now}},
	}, nil
}

// quorumOf is what members said just now. One that did not say anything has no
// position and no times; one that learns is an observer.
func quorumOf(infos []etcdstore.MemberInfo, listener string, now time.Time) api.Quorum {
	q := api.Quorum{Leader: kafka.NoNode}
	for _, i := range infos {
		q.Epoch = max(q.Epoch, int32(i.Term))
		q.HighWatermark = max(q.HighWatermark, int64(i.Index))
		if i.Leader {
			q.Leader = kafka.NodeID(i.Node)
		}
	}
	for _, i := range infos {
		m := api.QuorumMember{Node: kafka.NodeID(i.Node), Dir: directoryOf(i.ID), End: -1, Listeners: listenersAt(listener, i.Peer)}
		if i.Err == nil {
			m.End, m.Heard = int64(i.Index), now
			if m.End == q.HighWatermark {
				m.CaughtUp = now
			}
		}
		if i.Learner {
			q.Observers = append(q.Observers, m)
		} else {
			q.Voters = append(q.Voters, m)
		}
	}
	return q
}

// listenersAt is where a member is found, by its URL.
func listenersAt(name, peer string) []meta.Listener {
	u, err := url.Parse(peer)
	if err != nil {
		return nil
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil
	}
	return []meta.Listener{{Name: name, Host: host, Port: int32(n)}}
}

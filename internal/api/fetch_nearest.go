package api

import (
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
)

// choose names the replica that a consumer should read from, if it is another
// one, and takes back what was read here: the consumer goes there at once
// (KIP-392). A consumer that has been sent to a follower stays there.
func (f *fetch) choose(it *fetchItem) {
	it.prefer = kafka.NoNode
	if !f.RackAware || f.req.Rack == "" || f.req.Version < 11 || it.read.Diverging != nil || f.ownRack() == f.req.Rack {
		return
	}
	if _, leads := it.part.Leading(); !leads {
		return
	}
	it.prefer = nearest(f.img, it.topic.Partitions[it.partition], it.part.Followers(), f.req.Rack, f.r.Conn.Listener, it.offset)
	if it.prefer >= 0 {
		it.read.Release()
		it.read.Slices, it.read.SizeBytes, it.read.Aborted = nil, 0, nil
	}
}

// nearby: a follower serves this reader, too: a consumer of its rack, which the
// leader may have sent, and a tool that compares replicas. Nobody else: a consumer
// that has not heard of the next leader would be told a high watermark that is
// behind one that it knows (safety 18).
func (f *fetch) nearby() bool {
	return f.replica == comparingReplica || f.replica < 0 && f.req.Version >= 11 && f.req.Rack != "" && f.req.Rack == f.ownRack()
}

// comparingReplica is whom Apache Kafka's kafka-replica-verification says it is.
const comparingReplica = -2

func (f *fetch) ownRack() string {
	if self, ok := f.img.Broker(f.Self); ok {
		return self.Rack
	}
	return ""
}

// nearest is the follower in sync of that rack that has the most, and has the
// offset; -1: none.
func nearest(img *meta.Image, s *meta.Partition, followers []isr.Follower, rack, listener string, offset int64) kafka.NodeID {
	best, most := kafka.NoNode, int64(-1)
	for _, r := range s.ISR {
		b, ok := img.Broker(r.Node)
		if !ok || b.Rack != rack || b.Leaving {
			continue
		}
		if _, _, ok := address(b, listener); !ok {
			continue
		}
		i := slices.IndexFunc(followers, func(f isr.Follower) bool { return f.Node == r.Node })
		if i < 0 {
			continue
		}
		f := followers[i]
		if f.LogStart <= offset && offset <= f.Fetched && f.Fetched > most {
			best, most = r.Node, f.Fetched
		}
	}
	return best
}

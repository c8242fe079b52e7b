package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica"
)

// answer builds the response out of what the session says must be told. Partitions
// go straight into its bytes: most answers say nothing, and are many.
func (f *fetch) answer() {
	told := f.session.finish(f.items)
	f.charge(told)
	f.resp.SessionID = f.session.id
	topics := 0
	for rest := told; len(rest) > 0; topics++ {
		rest = rest[run(rest):]
	}
	out := newScatter(f.resp, topics, len(told))
	var hinted map[kafka.NodeID]bool
	for len(told) > 0 {
		n := run(told)
		out.topic(told[0].fetchPartition.topic, told[0].id, n)
		for _, it := range told[:n] {
			p := f.partition(it)
			out.partition(&p, it.read.Slices)
			if l := p.CurrentLeader; l.LeaderID >= 0 {
				if hinted == nil {
					hinted = map[kafka.NodeID]bool{}
				}
				hinted[kafka.NodeID(l.LeaderID)] = true
			}
		}
		out.noTags()
		told = told[n:]
	}
	if f.req.Version >= 16 {
		f.addBrokers(hinted)
	}
	f.Metrics.fetched(f.items, f.sessions.count())
	parts := out.end()
	f.r.Scatter(parts, func() {
		out.buf.Release()
		f.release()
		f.free()
	})
}

// run counts the partitions that follow each other and are of the first one's topic.
func run(told []*fetchItem) int {
	n := 1
	for n < len(told) && told[n].fetchPartition.topic == told[0].fetchPartition.topic && told[n].id == told[0].id {
		n++
	}
	return n
}

func (f *fetch) partition(it *fetchItem) kmsg.FetchResponseTopicPartition {
	out := kmsg.NewFetchResponseTopicPartition()
	out.Partition = it.partition
	out.ErrorCode = it.code
	out.HighWatermark, out.LastStableOffset, out.LogStartOffset = it.read.HW, it.read.LSO, it.read.LogStart
	if it.read.Behind && f.replica < 0 {
		out.HighWatermark, out.LastStableOffset = -1, -1
	}
	if it.code != 0 {
		out.HighWatermark, out.LastStableOffset, out.LogStartOffset = -1, -1, -1
		if f.replica >= 0 && it.code == kerr.OffsetOutOfRange.Code {
			out.LogStartOffset = it.read.LogStart // where it is to begin anew
		}
	}
	out.PreferredReadReplica = int32(it.prefer)
	out.RecordBatches = []byte{}                              // empty, never null: older consumers choke on -1
	if it.early && it.code != kerr.InconsistentTopicID.Code { // as Apache Kafka: null there
		out.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	}
	if f.isolation == replica.ReadCommitted {
		out.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, 0, len(it.read.Aborted))
		for _, t := range it.read.Aborted {
			a := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			a.ProducerID, a.FirstOffset = t.ProducerID, t.FirstOffset
			out.AbortedTransactions = append(out.AbortedTransactions, a)
		}
	}
	if d := it.read.Diverging; d != nil && f.req.Version >= 12 {
		out.DivergingEpoch.Epoch, out.DivergingEpoch.EndOffset = int32(d.Epoch), d.EndOffset
	}
	switch it.code {
	case kerr.NotLeaderForPartition.Code, kerr.FencedLeaderEpoch.Code:
		if f.req.Version >= 16 {
			out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = leaderHint(it.topic, it.partition)
		}
	}
	return out
}

func (f *fetch) addBrokers(ids map[kafka.NodeID]bool) {
	if len(ids) == 0 {
		return
	}
	for _, b := range f.img.Brokers() {
		host, port, ok := address(b, f.r.Conn.Listener)
		if !ids[b.ID] || !ok {
			continue
		}
		out := kmsg.NewFetchResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack = int32(b.ID), host, port, rack(b)
		f.resp.Brokers = append(f.resp.Brokers, out)
	}
}

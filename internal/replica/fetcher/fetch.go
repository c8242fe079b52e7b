package fetcher

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// fetchVersion names topics by id (KIP-516), and the broker's epoch (KIP-903).
const fetchVersion = 17

// request lists what has changed since the last one, or everything where a
// session begins.
func (w *worker) request(wait time.Duration) *kmsg.FetchRequest {
	if epoch := w.cfg.Epoch(); epoch != w.session.brokerEpoch {
		w.session.brokerEpoch = epoch
		w.outOfSession()
	}
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(fetchVersion)
	req.ReplicaState.ID, req.ReplicaState.Epoch = int32(w.cfg.Self), w.session.brokerEpoch
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait.Milliseconds()), w.cfg.MinBytes, w.cfg.AnswerBytes
	req.SessionID, req.SessionEpoch = w.session.id, w.session.epoch
	at := make(map[kafka.TopicID]int)
	w.throttle()
	full := w.session.epoch == 0 // a session begins, or the leader has none to spare
	for f := range w.look {
		if f.until.IsZero() {
			delete(w.look, f)
			if !full {
				w.list(req, at, f)
			}
		}
	}
	if full {
		for _, f := range w.parts {
			if f.until.IsZero() {
				f.in = false
				w.list(req, at, f)
			}
		}
	}
	w.leaveOut(req)
	return req
}

// list asks for a partition, unless it is in the session as it stands now.
func (w *worker) list(req *kmsg.FetchRequest, at map[kafka.TopicID]int, f *followed) {
	now, follows := f.p.Following()
	if !follows || now.Leader != w.leader || f.in && now == f.asked {
		return // of another role Entered tells
	}
	if w.slow(f); w.held(f) {
		return
	}
	f.asked, f.in = now, true
	if now.Counted < now.Offset {
		w.unflushed[f] = true
	}
	i, ok := at[f.key.topic]
	if !ok {
		i = len(req.Topics)
		at[f.key.topic] = i
		t := kmsg.NewFetchRequestTopic()
		t.TopicID = f.key.topic
		req.Topics = append(req.Topics, t)
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.PartitionMaxBytes = f.key.partition, w.cfg.PartitionBytes
	p.CurrentLeaderEpoch, p.LastFetchedEpoch = int32(now.Epoch), int32(now.LastEpoch)
	p.FetchOffset, p.LogStartOffset, p.HighWatermark = now.Offset, now.LogStart, f.p.HighWatermark()
	wire.SetClaim(&p, now.Counted)
	req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
}

// leaveOut takes out of the session what is not fetched any more.
func (w *worker) leaveOut(req *kmsg.FetchRequest) {
	at := make(map[kafka.TopicID]int)
	for _, k := range w.forgotten {
		if f := w.parts[k]; f != nil && f.in {
			continue // it is back
		}
		i, ok := at[k.topic]
		if !ok {
			i = len(req.ForgottenTopics)
			at[k.topic] = i
			t := kmsg.NewFetchRequestForgottenTopic()
			t.TopicID = k.topic
			req.ForgottenTopics = append(req.ForgottenTopics, t)
		}
		req.ForgottenTopics[i].Partitions = append(req.ForgottenTopics[i].Partitions, k.partition)
	}
	w.forgotten = nil
}

// answered carries out what the leader says of a partition.
func (w *worker) answered(f *followed, p *kmsg.FetchResponseTopicPartition) {
	switch err := w.carryOut(f, p); {
	case err == nil:
		f.delay = 0
	case errors.Is(err, kerr.NotLeaderForPartition), errors.Is(err, kerr.FencedLeaderEpoch),
		errors.Is(err, kerr.UnknownLeaderEpoch), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.UnknownTopicOrPartition):
		w.refused(f) // one of the two has not heard of the newest state yet
		w.log.Debug("fetch of a partition refused", "tp", f.p.TopicPartition(), "err", err)
		return
	default:
		w.refused(f)
		w.log.Warn("partition cannot be followed, trying again", "tp", f.p.TopicPartition(), "err", err)
		return
	}
	now, _ := f.p.Following()
	if now != f.asked {
		w.look[f] = true
	}
	if now.Counted < now.Offset {
		w.unflushed[f] = true
	}
}

func (w *worker) carryOut(f *followed, p *kmsg.FetchResponseTopicPartition) error {
	epoch := f.asked.Epoch
	err := kerr.ErrorForCode(p.ErrorCode)
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange) && p.LogStartOffset >= 0:
		// Of what is wanted here the leader has nothing: it was deleted there, or
		// is of an epoch from before all that it has.
		w.log.Warn("log begins anew at the leader's start", "tp", f.p.TopicPartition(), "end", f.asked.Offset, "start", p.LogStartOffset)
		return f.p.ResetAsFollower(epoch, p.LogStartOffset)
	case err != nil:
		return err
	case p.DivergingEpoch.EndOffset >= 0:
		to := f.p.Cut(replica.Diverging{Epoch: kafka.LeaderEpoch(p.DivergingEpoch.Epoch), EndOffset: p.DivergingEpoch.EndOffset})
		w.log.Info("log parts from the leader's, and is cut", "tp", f.p.TopicPartition(), "end", f.asked.Offset, "to", to)
		return f.p.TruncateAsFollower(epoch, to)
	}
	if len(p.RecordBatches) > 0 {
		w.quiet = false
		if w.slow(f) {
			w.cfg.Throttle.Took(len(p.RecordBatches))
		}
	}
	return f.p.AppendAsFollower(epoch, p.RecordBatches, p.HighWatermark, p.LogStartOffset)
}

// refused takes a partition out of the session for a while.
func (w *worker) refused(f *followed) {
	f.delay = w.longer(f.delay)
	w.keepOut(f, f.delay)
}

// keepOut has a partition not fetched for a while.
func (w *worker) keepOut(f *followed, d time.Duration) {
	f.until = time.Now().Add(d)
	w.look[f] = true
	if f.in {
		f.in = false
		w.forgotten = append(w.forgotten, f.key)
	}
}

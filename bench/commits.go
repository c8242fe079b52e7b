package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The offset of a prepared commit is written over this mark.
const offsetMark = 0x7b5b3b1b7b5b3b1b

// prepared is a commit of one group whose offset and correlation id are set
// each time it is sent.
type prepared struct {
	group   string
	frame   []byte
	offsets []int // where the offset stands
	acked   int64 // the last offset that was acknowledged
}

func prepare(group, topic string, parts int) *prepared {
	p := &prepared{group: group, frame: frame(commitRequest(group, topic, parts, func(int32) int64 { return offsetMark }), 0)}
	mark := binary.BigEndian.AppendUint64(nil, offsetMark)
	for at := 0; ; {
		i := bytes.Index(p.frame[at:], mark)
		if i < 0 {
			return p
		}
		p.offsets = append(p.offsets, at+i)
		at += i + len(mark)
	}
}

// commitRequest is what a consumer without a group membership commits.
func commitRequest(group, topic string, parts int, offset func(part int32) int64) *kmsg.OffsetCommitRequest {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.SetVersion(9)
	q.Group = group
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for i := range parts {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = int32(i), offset(int32(i))
		t.Partitions = append(t.Partitions, p)
	}
	q.Topics = append(q.Topics, t)
	return q
}

func commitErr(r *kmsg.OffsetCommitResponse) error {
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("commit of %s-%d: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return nil
}

// committer commits for some groups in turn, over one connection and from one
// goroutine: it reads what has come and sends as many anew in one write.
type committer struct {
	c      *rawConn
	groups []*prepared
	lane   int64 // this connection's number: offsets of two connections never meet
	lanes  int64
	next   int64
	buf    []byte
	want   []byte // an answer after its correlation id; all are alike
	got    []byte
	sent   []time.Time // of the requests in flight, a ring
	took   []time.Duration
	done   int64 // answers
}

func (w *committer) offset(i int64) int64 { return i*w.lanes + w.lane }

func (w *committer) fill(now time.Time, depth int) error {
	w.buf = w.buf[:0]
	for ; w.next-w.done < int64(depth); w.next++ {
		p := w.groups[w.next%int64(len(w.groups))]
		binary.BigEndian.PutUint32(p.frame[8:], uint32(w.next))
		for _, at := range p.offsets {
			binary.BigEndian.PutUint64(p.frame[at:], uint64(w.offset(w.next)))
		}
		w.buf = append(w.buf, p.frame...)
		w.sent[w.next%int64(len(w.sent))] = now
	}
	_, err := w.c.c.Write(w.buf)
	return err
}

func (w *committer) answer() error {
	var h [4]byte
	if _, err := io.ReadFull(w.c.r, h[:]); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(h[:]))
	if cap(w.got) < n {
		w.got = make([]byte, n)
	}
	w.got = w.got[:n]
	if _, err := io.ReadFull(w.c.r, w.got); err != nil {
		return err
	}
	if n < 4 || binary.BigEndian.Uint32(w.got) != uint32(w.done) || !bytes.Equal(w.got[4:], w.want) {
		r := kmsg.NewPtrOffsetCommitResponse()
		r.SetVersion(9)
		if err := decode(w.got, uint32(w.done), r); err != nil {
			return err
		}
		if err := commitErr(r); err != nil {
			return err
		}
		w.want = append(w.want[:0], w.got[4:]...)
	}
	w.took = append(w.took, time.Since(w.sent[w.done%int64(len(w.sent))]))
	w.groups[w.done%int64(len(w.groups))].acked = w.offset(w.done)
	w.done++
	return nil
}

// run keeps depth commits in flight until the time comes, and then waits for
// the answers.
func (w *committer) run(stop time.Time, depth int) error {
	w.sent, w.took, w.next = make([]time.Time, depth), w.took[:0], w.done
	for {
		if now := time.Now(); now.Before(stop) {
			if err := w.fill(now, depth); err != nil {
				return err
			}
		} else if w.next == w.done {
			return nil
		}
		for more := true; more; more = w.next > w.done && w.c.r.Buffered() > 0 {
			if err := w.answer(); err != nil {
				return err
			}
		}
	}
}

func committers(addr, topic string) []*committer {
	if *ngroups%*nclients != 0 && *ngroups > *nclients || *ngroups < 1 {
		log.Fatalf("-groups %d: a multiple of the %d connections, or fewer", *ngroups, *nclients)
	}
	awaitCoordinator(addr, "bench-commit-0")
	ws := make([]*committer, *nclients)
	for i := range ws {
		w := &committer{c: mustDial(addr), lane: int64(i), lanes: int64(*nclients), done: 1}
		w.c.r = bufio.NewReaderSize(w.c.c, 64<<10)
		for g := i; g < max(*ngroups, i+1); g += *nclients {
			w.groups = append(w.groups, prepare(fmt.Sprintf("bench-commit-%d", g%*ngroups), topic, *nparts))
		}
		for _, p := range w.groups {
			commitOnce(w.c, p.group, topic, func(int32) int64 { return 0 })
		}
		ws[i] = w
	}
	return ws
}

// commitOnce commits every partition, as soon as the group's coordinator takes it.
func commitOnce(c *rawConn, group, topic string, offset func(part int32) int64) {
	deadline := time.Now().Add(time.Minute)
	for {
		r, err := call[*kmsg.OffsetCommitResponse](c, commitRequest(group, topic, *nparts, offset))
		if err != nil {
			log.Fatal("commit: ", err)
		}
		err = commitErr(r)
		if err == nil {
			return
		}
		if !comesAndGoes(r.Topics[0].Partitions[0].ErrorCode) || time.Now().After(deadline) {
			log.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func commitFor(ws []*committer, d time.Duration) {
	var wg sync.WaitGroup
	stop := time.Now().Add(d)
	for _, w := range ws {
		wg.Go(func() {
			if err := w.run(stop, *inflight); err != nil {
				log.Fatal("commit: ", err)
			}
		})
	}
	wg.Wait()
}

// warmCommits lets a broker with a just-in-time compiler reach its speed.
func warmCommits(ctx context.Context, addr string) {
	topic := makeTopic(ctx, addr, *nparts)
	defer dropTopic(ctx, addr, topic)
	ws := committers(addr, topic)
	defer closeAll(ws)
	commitFor(ws, *warmup)
}

func closeAll(ws []*committer) {
	for _, w := range ws {
		w.c.c.Close()
	}
}

func runCommits(addr, topic string, pid pids) result {
	ws := committers(addr, topic)
	defer closeAll(ws)
	commitFor(ws, 200*time.Millisecond)
	u := during(pid, func() { commitFor(ws, *dur) })
	var h hist
	for _, w := range ws {
		h.d = append(h.d, w.took...)
	}
	m := float64(len(h.d)) / 1e6
	r := result{"commits_per_s": int64(m * 1e6 / u.wall), "offsets_per_s": int64(m * 1e6 * float64(*nparts) / u.wall), "secs": r2(u.wall), "stall": r2(u.stalled / u.wall),
		"client_cpu_s_per_M": r2(u.client / m)}
	if len(pid) > 0 {
		r["broker_cpu_s_per_M"] = r2(u.broker / m)
		r["commits_per_cpu_s"] = int64(m * 1e6 / u.broker)
		r["rss_MiB"] = mib(rss(pid))
	}
	h.into(r, "")
	checkCommits(ws, topic)
	return r
}

// checkCommits asks for every group's offsets: each must be the last that some
// connection saw acknowledged.
func checkCommits(ws []*committer, topic string) {
	acked := map[string]map[int64]bool{}
	for _, w := range ws {
		for _, p := range w.groups {
			if acked[p.group] == nil {
				acked[p.group] = map[int64]bool{}
			}
			acked[p.group][p.acked] = true
		}
	}
	for _, w := range ws {
		for _, p := range w.groups {
			gs, err := fetchOffsets(w.c, []string{p.group}, "", nil)
			if err != nil {
				log.Fatal(err)
			}
			found := 0
			for part, offset := range offsetsOf(gs[0], topic) {
				if !acked[p.group][offset] {
					log.Fatalf("%s: offset %d of %s-%d was not the last acknowledged, of %v", p.group, offset, topic, part, acked[p.group])
				}
				found++
			}
			if found != *nparts {
				log.Fatalf("%s has %d offsets in the place of %d", p.group, found, *nparts)
			}
		}
	}
}

// fetchOffsets asks for the offsets of some groups: of some partitions of a
// topic, or of all topics when topic is "".
func fetchOffsets(c *rawConn, groups []string, topic string, parts []int32) ([]kmsg.OffsetFetchResponseGroup, error) {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.SetVersion(9)
	for _, g := range groups {
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group = g
		if topic != "" {
			t := kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic, t.Partitions = topic, parts
			rg.Topics = append(rg.Topics, t)
		}
		q.Groups = append(q.Groups, rg)
	}
	r, err := call[*kmsg.OffsetFetchResponse](c, q)
	if err != nil {
		return nil, fmt.Errorf("offset fetch: %w", err)
	}
	if len(r.Groups) != len(groups) {
		return nil, fmt.Errorf("offset fetch: %d groups in the place of %d", len(r.Groups), len(groups))
	}
	return r.Groups, nil
}

func offsetsOf(g kmsg.OffsetFetchResponseGroup, topic string) map[int32]int64 {
	out := map[int32]int64{}
	for _, t := range g.Topics {
		if t.Topic != topic {
			continue
		}
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 && p.Offset >= 0 {
				out[p.Partition] = p.Offset
			}
		}
	}
	return out
}

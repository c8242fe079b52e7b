package brokertest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/batch"
)

// found asks partition 0 for a time, and gives "offset at timestamp epoch", or
// the error.
func (p *peer) found(version int16, topic string, ts int64) string {
	p.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = version
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	in := kmsg.NewListOffsetsRequestTopicPartition()
	in.Timestamp = ts
	t.Partitions = append(t.Partitions, in)
	req.Topics = append(req.Topics, t)
	out := ask[*kmsg.ListOffsetsResponse](p, req).Topics[0].Partitions[0]
	if out.ErrorCode != 0 {
		return name(out.ErrorCode)
	}
	return fmt.Sprintf("%d at %d epoch %d", out.Offset, out.Timestamp, out.LeaderEpoch)
}

func (p *peer) wantFound(what string, version int16, topic string, ts int64, want string) {
	p.t.Helper()
	if got := p.found(version, topic, ts); got != want {
		p.t.Errorf("%s: v%d %s, time %d: %s, want %s", what, version, topic, ts, got, want)
	}
}

// timed is a batch whose records have these times.
func timed(codec batch.Codec, times ...int64) []byte {
	var b batch.Builder
	b.Reset(batch.Options{Encoding: batch.Encoding{Codec: codec}})
	for _, ts := range times {
		b.Append(ts, nil, []byte("v"))
	}
	return build(&b)
}

func TestLIST01NothingFound(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("l1", 1, "retention.ms=-1")
	const none = "-1 at -1 epoch -1"
	for version := int16(4); version <= 11; version++ {
		p.wantFound("empty", version, "l1", 5, none)
	}
	p.write("l1", timed(batch.None, 10, 20))
	for version := int16(4); version <= 11; version++ {
		p.wantFound("past the last record", version, "l1", 21, none)
		p.wantFound("the last record", version, "l1", 20, "1 at 20 epoch 0")
	}
	p.deleteRecords(upTo(2, "l1", -1))
	for version := int16(7); version <= 11; version++ {
		p.wantFound("all is deleted", version, "l1", 0, none)
		p.wantFound("all is deleted", version, "l1", -3, none)
	}
}

func TestLIST02FirstRecordAtOrAfter(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	for _, codec := range []batch.Codec{batch.None, batch.Gzip, batch.Zstd} {
		topic := fmt.Sprintf("l2-%d", codec)
		p.create(topic, 1, "retention.ms=-1")
		p.write(topic, timed(codec, 2, 4, 6, 8))
		p.write(topic, timed(codec, 3, 9))
		for ts, want := range map[int64]string{
			2: "0 at 2 epoch 0", 3: "1 at 4 epoch 0", 4: "1 at 4 epoch 0", 5: "2 at 6 epoch 0", 7: "3 at 8 epoch 0", 9: "5 at 9 epoch 0",
			-3: "5 at 9 epoch 0",
		} {
			p.wantFound("by time", 7, topic, ts, want)
		}
	}
	p.create("l2-log", 1, "message.timestamp.type=LogAppendTime")
	p.write("l2-log", timed(batch.None, 2, 4))
	at := p.list("l2-log", 0, 1)
	if at.Offset != 0 || at.Timestamp < recordTime {
		t.Errorf("LogAppendTime: %d at %d, want offset 0 and the broker's time", at.Offset, at.Timestamp)
	}
	if got := p.list("l2-log", 0, at.Timestamp); got.Offset != 0 {
		t.Errorf("LogAppendTime: both records have one time, and the first of them is %d", got.Offset)
	}
}

// Which special timestamps a version knows: the others are UNSUPPORTED_VERSION.
func TestListOffsetsSpecial(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("ls", 1, "retention.ms=-1")
	p.write("ls", timed(batch.None, 7, 9, 8))
	p.deleteRecords(upTo(2, "ls", 1))
	for version := int16(4); version <= 11; version++ {
		for ts, c := range map[int64]struct {
			since int16
			want  string
		}{
			-1: {1, "3 at -1 epoch 0"}, -2: {1, "1 at -1 epoch 0"}, -3: {7, "1 at 9 epoch 0"}, -4: {8, "1 at -1 epoch 0"},
			-5: {9, "-1 at -1 epoch -1"}, -6: {11, "-1 at -1 epoch -1"}, -7: {99, ""},
		} {
			if version < c.since {
				c.want = "UNSUPPORTED_VERSION"
			}
			p.wantFound("special", version, "ls", ts, c.want)
		}
	}
}

// What moves the leader epoch on one broker is a restart. Several brokers would
// only add that another one leads.
func TestLIST03LIST05EpochsOfRecords(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	p.create("l3", 1, "retention.ms=-1")
	p.write("l3", timed(batch.None, 10, 11))
	b.Restart()
	b.Restart() // an epoch without a record
	p = dial(t, b)
	p.write("l3", timed(batch.None, 20, 21, 22))
	b.Restart()
	p = dial(t, b)
	m, _ := p.topic("l3")
	now := m.Partitions[0].LeaderEpoch
	mid := now - 1
	if now < 3 {
		t.Fatalf("leader epoch %d after three restarts", now)
	}
	p.wantFound("earliest", 7, "l3", -2, "0 at -1 epoch 0")
	p.wantFound("old record", 7, "l3", 11, "1 at 11 epoch 0")
	p.wantFound("newer record", 7, "l3", 21, fmt.Sprintf("3 at 21 epoch %d", mid))
	p.wantFound("largest timestamp", 7, "l3", -3, fmt.Sprintf("4 at 22 epoch %d", mid))
	p.wantFound("latest", 7, "l3", -1, fmt.Sprintf("5 at -1 epoch %d", now))

	for asked, want := range map[int32]string{
		0: "0 2 NONE", 1: "0 2 NONE", mid: fmt.Sprintf("%d 5 NONE", mid), now: fmt.Sprintf("%d 5 NONE", now),
		now + 1: "-1 -1 NONE", -1: "-1 -1 NONE",
	} {
		if got := p.epochEnd(4, "l3", -1, -1, asked); got != want {
			t.Errorf("end of epoch %d: %s, want %s", asked, got, want)
		}
	}
	p.deleteRecords(upTo(2, "l3", 3))
	p.wantFound("earliest after a deletion", 7, "l3", -2, fmt.Sprintf("3 at -1 epoch %d", mid))
	if got := p.epochEnd(4, "l3", -1, -1, 0); got != "0 3 NONE" {
		t.Errorf("end of an epoch below the first: %s", got)
	}
}

func (p *peer) epochEnd(version int16, topic string, replica, current, asked int32) string {
	p.t.Helper()
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.Version, req.ReplicaID = version, replica
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = topic
	in := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	in.CurrentLeaderEpoch, in.LeaderEpoch = current, asked
	t.Partitions = append(t.Partitions, in)
	req.Topics = append(req.Topics, t)
	out := ask[*kmsg.OffsetForLeaderEpochResponse](p, req).Topics[0].Partitions[0]
	return fmt.Sprintf("%d %d %s", out.LeaderEpoch, out.EndOffset, name(out.ErrorCode))
}

func TestLIST06WhoAsks(t *testing.T) {
	b := brokertest.Start(t)
	dial(t, b).create("l6", 1)
	b.Restart()
	p := dial(t, b)
	m, _ := p.topic("l6")
	now := m.Partitions[0].LeaderEpoch
	for version := int16(2); version <= 4; version++ {
		for _, replica := range []int32{-2, -1} {
			for current, want := range map[int32]string{
				-1: fmt.Sprintf("%d 0 NONE", now), now: fmt.Sprintf("%d 0 NONE", now),
				now - 1: "-1 -1 FENCED_LEADER_EPOCH", now + 1: "-1 -1 UNKNOWN_LEADER_EPOCH",
			} {
				if got := p.epochEnd(version, "l6", replica, current, now); got != want {
					t.Errorf("v%d replica %d, current epoch %d: %s, want %s", version, replica, current, got, want)
				}
			}
		}
	}
}

// The log start moves all the while: by retention, and by DeleteRecords.
func TestLIST07EarliestIsReadable(t *testing.T) {
	b := brokertest.Start(t, brokertest.Set("log.retention.check.interval.ms", "20"), brokertest.Set("log.segment.bytes", "1048576"))
	p := dial(t, b)
	p.create("l7", 1, "retention.bytes=1048576", "file.delete.delay.ms=0")
	mover := dial(t, b)
	var moving sync.WaitGroup
	stop := make(chan struct{})
	defer moving.Wait()
	defer close(stop)
	moving.Go(func() {
		payload := records(string(make([]byte, 100_000)))
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := mover.c.Do(t.Context(), produceTo(9, -1, "l7", payload)); err != nil {
				return // the test is over
			}
			if n%20 == 19 {
				if _, err := mover.c.Do(t.Context(), upTo(2, "l7", int64(n-5))); err != nil {
					return
				}
			}
		}
	})
	reads, moved := 0, 0
	for end := time.Now().Add(patience); reads < 200; {
		start := p.list("l7", 0, -2).Offset
		got := p.fetch(fetchOf(12, "l7", [16]byte{}, at{0, start, 0}))[0]
		switch {
		case got.ErrorCode == 0 && got.LogStartOffset >= start:
			reads++
		case got.ErrorCode == kerr.OffsetOutOfRange.Code && p.list("l7", 0, -2).Offset > start:
			moved++
		default:
			t.Fatalf("earliest was %d; fetch at it: %s, log start %d", start, name(got.ErrorCode), got.LogStartOffset)
		}
		if time.Now().After(end) {
			t.Fatalf("%d reads, %d times the log start was gone", reads, moved)
		}
	}
	for end := time.Now().Add(patience); p.list("l7", 0, -2).Offset == 0; {
		if time.Now().After(end) {
			t.Fatal("the log start never moved")
		}
	}
}

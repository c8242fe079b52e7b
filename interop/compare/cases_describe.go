//go:build interop

package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

func describeCases() []testCase {
	return []testCase{
		{"META-04-describe-cluster", describeCluster},
		{"META-06-pages", describePages},
		{"META-06-cursors", describeCursors},
		{"DescribeProducers", describeProducers},
		{"DescribeProducers-errors", describeProducersErrors},
	}
}

func describeCluster(s *session) {
	for v := int16(0); v <= 2; v++ {
		for _, kind := range []int8{1, 2, 0, 3, -1} {
			for _, more := range []bool{false, true} {
				req := kmsg.NewPtrDescribeClusterRequest()
				req.Version, req.EndpointType = v, kind
				req.IncludeClusterAuthorizedOperations, req.IncludeFencedBrokers = more, more
				s.ask(fmt.Sprintf("endpoint %d, all %t", kind, more), req)
			}
		}
	}
}

// pageReq asks for topics by their whole names; the cursor is for cursor, if
// it is not "-".
func pageReq(limit int32, cursor string, partition int32, topics ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = limit
	for _, name := range topics {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = name
		req.Topics = append(req.Topics, t)
	}
	if cursor != "-" {
		c := kmsg.NewDescribeTopicPartitionsRequestCursor()
		c.Topic, c.Partition = cursor, partition
		req.Cursor = &c
	}
	return req
}

func describePages(s *session) {
	s.create("pa", 2)
	s.create("pb", 5)
	s.create("pc", 1)
	a, b, c, no := s.topic("pa"), s.topic("pb"), s.topic("pc"), s.topic("pbb")
	for _, limit := range []int32{3, 2, 1, 0, -5, 8, 7, 100000} {
		req := pageReq(limit, "-", 0, c, no, b, a, b)
		for page := 0; page < 12; page++ {
			resp, ok := s.ask(fmt.Sprintf("limit %d, page %d", limit, page), req).(*kmsg.DescribeTopicPartitionsResponse)
			if !ok || resp.NextCursor == nil {
				break
			}
			req = pageReq(limit, resp.NextCursor.Topic, resp.NextCursor.Partition, c, no, b, a, b)
		}
	}
	s.ask("a bad name and one that is unknown", pageReq(2000, "-", 0, "a b", no, a))
	s.ask("an empty name among others", pageReq(2000, "-", 0, "", a))
	// Other cases have left their topics: only the order is looked at.
	s.listAll("-")
	s.listAll(b)
	s.listAll(no)
}

// listAll pages through everything, and says which of the case's own topics
// came, with how many partitions, and whether names went up all the while.
func (s *session) listAll(from string) {
	last, partition := from, int32(0)
	own := map[string]int{}
	up := true
	for {
		resp := s.do(pageReq(3, last, partition)).(*kmsg.DescribeTopicPartitionsResponse)
		prev := ""
		for _, t := range resp.Topics {
			up = up && *t.Topic >= prev
			prev = *t.Topic
			if s.plain(*t.Topic) != *t.Topic {
				own[s.plain(*t.Topic)] += len(t.Partitions)
			}
		}
		if resp.NextCursor == nil {
			break
		}
		last, partition = resp.NextCursor.Topic, resp.NextCursor.Partition
	}
	s.note("all topics from %s: %v, in order: %t", s.plain(from), own, up)
}

func describeCursors(s *session) {
	s.create("qa", 2)
	s.create("qc", 3)
	a, b, c := s.topic("qa"), s.topic("qb"), s.topic("qc")
	for _, at := range []int32{0, 1, 2, 3, 9, -1} {
		s.ask(fmt.Sprintf("from partition %d", at), pageReq(10, a, at, a, c))
		s.ask(fmt.Sprintf("from partition %d, one a page", at), pageReq(1, a, at, a, c))
	}
	s.ask("a topic that is not asked for", pageReq(10, b, 0, a, c))
	s.ask("an unknown topic that is asked for", pageReq(10, b, 1, a, b, c))
	s.ask("the last topic", pageReq(10, c, 1, a, b, c))
	s.ask("behind the last topic", pageReq(10, s.topic("qd"), 0, a, b, c))
	s.ask("no name", pageReq(10, "", 0, a, c))
	s.ask("a negative partition of no topic", pageReq(10, "", -1, a))
	s.ask("a negative partition, all topics", pageReq(10, a, -1))
}

func producersReq(topic string, partitions ...int32) *kmsg.DescribeProducersRequest {
	r := kmsg.NewPtrDescribeProducersRequest()
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = topic, partitions
	r.Topics = append(r.Topics, t)
	return r
}

func describeProducers(s *session) {
	s.create("pr", 3)
	pid := s.producerID().ProducerID
	send := func(p int32, epoch int16, seq int32, ts int64, values ...string) {
		b := raw.NewBatch(ts, values...)
		b.ProducerID, b.Epoch, b.Sequence = pid, epoch, seq
		s.put("pr", p, b.MustEncode())
	}
	s.ask("nobody", producersReq(s.topic("pr"), 0, 1, 2))
	s.put("pr", 0, raw.NewBatch(1000, "no producer").MustEncode())
	send(0, 0, 0, 1000, "a", "b")
	send(0, 0, 2, 500, "c")
	send(1, 0, 0, 7000, "d")
	s.ask("one", producersReq(s.topic("pr"), 0, 1, 2))
	send(0, 0, 0, 1000, "a", "b")
	s.ask("after a duplicate", producersReq(s.topic("pr"), 0))
	send(0, 3, 0, 9000, "e")
	s.ask("another epoch", producersReq(s.topic("pr"), 0))
	pid = s.producerID().ProducerID
	send(2, 0, 5, 9000, "f")
	s.ask("another producer", producersReq(s.topic("pr"), 2, 1))
	s.ask("delete records", deleteReq(2, s.topic("pr"), deleteAsk{0, -1}))
	s.ask("records are gone", producersReq(s.topic("pr"), 0))
}

func describeProducersErrors(s *session) {
	s.create("pe", 1)
	s.ask("unknown topic", producersReq(s.topic("nosuch"), 0, 3))
	s.ask("bad name", producersReq("a b", 0))
	s.ask("empty name", producersReq("", 0))
	s.ask("unknown partitions", producersReq(s.topic("pe"), 0, 1, -1))
	s.ask("no partitions", producersReq(s.topic("pe")))
	none := producersReq("x")
	none.Topics = nil
	s.ask("no topics", none)
	s.ask("partition twice", producersReq(s.topic("pe"), 0, 0))
}

//go:build interop

package main

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

func sessionCases() []testCase {
	return []testCase{
		{"FETCH-05-session", fetch05},
		{"FETCH-05-session-ids", fetch05ids},
		{"FETCH-05-session-errors", fetch05errors},
	}
}

// sessionFetch is a request within a session.
func sessionFetch(version int16, id, epoch int32, topics ...kmsg.FetchRequestTopic) *kmsg.FetchRequest {
	r := fetch(version, "", [16]byte{})
	r.Topics = topics
	r.SessionID, r.SessionEpoch = id, epoch
	return r
}

func forget(topic string, id [16]byte, partitions ...int32) kmsg.FetchRequestForgottenTopic {
	f := kmsg.NewFetchRequestForgottenTopic()
	f.Topic, f.TopicID, f.Partitions = topic, id, partitions
	return f
}

func fetch05(s *session) {
	s.runSession(12)
}

func fetch05ids(s *session) {
	s.runSession(13)
}

func (s *session) runSession(v int16) {
	tid := s.create("sess", 3)
	name, id := s.topic("sess"), tid
	if v >= 13 {
		name = ""
	} else {
		id = [16]byte{}
	}
	topic := func(asks ...fetchAsk) kmsg.FetchRequestTopic { return fetchTopic(name, id, asks...) }
	one := raw.NewBatch(1000, "x").MustEncode()
	s.put("sess", 0, one)
	r, ok := s.ask("open with three partitions", sessionFetch(v, 0, 0, topic(fetchAsk{0, 0, 0}, fetchAsk{1, 0, 0}, fetchAsk{2, 0, 0}))).(*kmsg.FetchResponse)
	if !ok || r.SessionID == 0 {
		s.fail("no session")
	}
	sid := r.SessionID
	s.ask("epoch 1, nothing listed: partition 0 has data still", sessionFetch(v, sid, 1))
	s.ask("epoch 2, partition 0 moved to its end", sessionFetch(v, sid, 2, topic(fetchAsk{0, 1, 0})))
	s.ask("epoch 3, nothing new", sessionFetch(v, sid, 3))
	s.put("sess", 1, one)
	f := sessionFetch(v, sid, 4)
	f.ForgottenTopics = append(f.ForgottenTopics, forget(name, id, 1))
	s.ask("epoch 4, partition 1 has data and is forgotten", f)
	s.put("sess", 1, one)
	s.put("sess", 2, one)
	s.ask("epoch 5, 1 and 2 have data", sessionFetch(v, sid, 5))
	s.ask("epoch 6, partition 2 to 1, unknown partition 8 added", sessionFetch(v, sid, 6, topic(fetchAsk{2, 1, 0}, fetchAsk{8, 0, 0})))
	s.ask("epoch 7, the error comes again", sessionFetch(v, sid, 7))
	s.ask("epoch 7 twice", sessionFetch(v, sid, 7))
	s.ask("epoch 9, one skipped", sessionFetch(v, sid, 9))
	s.ask("epoch 8 still works", sessionFetch(v, sid, 8))
	s.ask("out of range in the session", sessionFetch(v, sid, 9, topic(fetchAsk{0, 50, 0})))
	s.ask("close, epoch -1", sessionFetch(v, sid, -1, topic(fetchAsk{0, 0, 0})))
	s.ask("after the close", sessionFetch(v, sid, 10))
}

func fetch05errors(s *session) {
	id := s.create("serr", 2)
	name := s.topic("serr")
	topic := fetchTopic(name, id, fetchAsk{0, 0, 0})
	s.ask("unknown session", sessionFetch(12, 12345678, 1))
	s.ask("unknown session, epoch 0", sessionFetch(12, 12345678, 0, topic))
	s.ask("unknown session, epoch -1", sessionFetch(12, 12345678, -1, topic))
	s.ask("session 0, epoch 1", sessionFetch(12, 0, 1, topic))
	s.ask("session 0, epoch -1, empty", sessionFetch(12, 0, -1))
	s.ask("session 0, epoch 0, empty", sessionFetch(12, 0, 0))
	s.ask("session 0, epoch -5", sessionFetch(12, 0, -5, topic))
	r, ok := s.ask("open", sessionFetch(12, 0, 0, topic)).(*kmsg.FetchResponse)
	if !ok || r.SessionID == 0 {
		s.fail("no session")
	}
	s.ask("epoch 0 with its id opens another", sessionFetch(12, r.SessionID, 0, topic))
	s.ask("the first is gone", sessionFetch(12, r.SessionID, 1))
	s.ask("v7", sessionFetch(7, 0, 0, topic))
	other, err := raw.Dial(s.addr)
	if err != nil {
		s.fail("dial: %v", err)
	}
	defer other.Close()
	r, ok = s.ask("open", sessionFetch(12, 0, 0, topic)).(*kmsg.FetchResponse)
	if !ok {
		s.fail("no session")
	}
	resp, err := other.Do(sessionFetch(12, r.SessionID, 1))
	if err != nil {
		s.fail("other connection: %v", err)
	}
	s.note("session used from another connection: %s", errName(resp.(*kmsg.FetchResponse).ErrorCode))
	last := sessionFetch(12, r.SessionID, 2)
	last.ForgottenTopics = append(last.ForgottenTopics, forget(name, id, 0))
	s.ask("forget the only partition", last)
	s.ask("an empty session lives", sessionFetch(12, r.SessionID, 3))
	both := sessionFetch(12, 0, 0, topic)
	both.ForgottenTopics = append(both.ForgottenTopics, forget(name, id, 0))
	s.ask("full fetch that forgets", both)
}

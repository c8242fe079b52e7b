//go:build interop

package main

import "github.com/twmb/franz-go/pkg/kmsg"

func producerIDCases() []testCase {
	return []testCase{{"InitProducerId", initPID}}
}

func initPID(s *session) {
	req := func(v int16, id int64, epoch int16) *kmsg.InitProducerIDRequest {
		r := kmsg.NewPtrInitProducerIDRequest()
		r.Version, r.ProducerID, r.ProducerEpoch, r.TransactionTimeoutMillis = v, id, epoch, 60000
		return r
	}
	s.producerID()
	for v := int16(0); v <= 5; v++ {
		s.ask("plain", req(v, -1, -1))
	}
	for _, v := range []int16{3, 4, 5} {
		for _, c := range []struct {
			id    int64
			epoch int16
		}{{12345, 3}, {12345, -1}, {-1, 3}, {-2, -1}, {-1, -2}, {0, 0}, {-5, -5}, {12345, 32767}} {
			s.fixedPIDs[c.id] = true
			s.ask("with a producer", req(v, c.id, c.epoch))
		}
	}
	r := req(4, -1, -1)
	for _, ms := range []int32{0, -1, 2147483647} {
		r.TransactionTimeoutMillis = ms
		s.ask("timeout without a transactional id", r)
	}
	r = req(4, -1, -1)
	r.TransactionalID = kmsg.StringPtr("")
	s.ask("empty transactional id", r)
}

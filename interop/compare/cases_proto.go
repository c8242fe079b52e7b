//go:build interop

package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

func protoCases() []testCase {
	return []testCase{
		{"ApiVersions", apiVersionsAll},
		{"PROTO-01-apiversions-too-new", proto01},
		{"PROTO-02-software-name", proto02},
		{"PROTO-02-cluster-and-node", proto02v5},
		{"PROTO-03-unsupported-version", proto03},
		{"PROTO-08-acks0-pipelined", proto08},
		{"PROTO-08-acks0-error", proto08error},
		{"PROTO-09-empty-and-null", proto09},
		{"PROTO-10-duplicates", proto10},
		{"PROTO-11-empty-records", proto11},
	}
}

func apiVersions(version int16, name, software string) *kmsg.ApiVersionsRequest {
	r := kmsg.NewPtrApiVersionsRequest()
	r.Version, r.ClientSoftwareName, r.ClientSoftwareVersion = version, name, software
	return r
}

func apiVersionsAll(s *session) {
	for v := int16(0); v <= 5; v++ {
		req := apiVersions(v, "interop", "1.0")
		s.ask("plain", req)
		if _, err := s.c().Send(req); err != nil {
			s.fail("send: %v", err)
		}
		f, err := s.c().Read()
		if err != nil {
			s.fail("read: %v", err)
		}
		s.note("bytes behind the correlation id (%d): %x", len(f.Body), f.Body)
	}
}

func proto01(s *session) {
	for _, v := range []int16{6, 99, 32767} {
		for _, body := range [][]byte{nil, {0xff, 0xff, 0xff}, []byte("\x08interop\x041.0\x00")} {
			corr, err := s.c().SendBody(18, v, true, body)
			if err != nil {
				s.fail("send: %v", err)
			}
			f, err := s.c().Read()
			s.note("ApiVersions v%d body %x: %s", v, body, frameText(f, err, corr))
		}
	}
	_, err := s.c().SendBody(18, -1, true, nil)
	if err != nil {
		s.fail("send: %v", err)
	}
	f, err := s.c().Read()
	s.note("ApiVersions v-1: %s", frameText(f, err, f.Correlation))
	if err != nil {
		s.hangUp()
	}
	r := s.do(apiVersions(3, "interop", "1.0")).(*kmsg.ApiVersionsResponse)
	s.note("ApiVersions v3 next on the same connection: error %d", r.ErrorCode)
}

func frameText(f raw.Frame, err error, corr int32) string {
	if err != nil {
		return answerError(err)
	}
	return fmt.Sprintf("correlation right: %t, %d bytes: %x", f.Correlation == corr, len(f.Body), f.Body)
}

func proto02(s *session) {
	for _, n := range [][2]string{
		{"bad name!", "1.0"}, {"", "1.0"}, {"ok", ""}, {"ok", "1 0"}, {"-a", "1"}, {"a-", "1"}, {"a", "1"}, {"a.b-c", "1.0-rc.1"}, {"ä", "1"},
	} {
		for _, v := range []int16{3, 4, 5} {
			s.askAPI(fmt.Sprintf("name %q version %q", n[0], n[1]), apiVersions(v, n[0], n[1]))
		}
	}
	s.askAPI("no names before v3", apiVersions(2, "", ""))
}

// askAPI is ask without the long list of keys.
func (s *session) askAPI(label string, req *kmsg.ApiVersionsRequest) {
	resp, err := s.c().Do(req)
	if err != nil {
		s.hangUp()
		s.note("%s v%d: %s", label, req.Version, answerError(err))
		return
	}
	r := resp.(*kmsg.ApiVersionsResponse)
	s.note("%s v%d: error %s, some keys: %t, features: %t", label, req.Version, errName(r.ErrorCode), len(r.ApiKeys) > 0, len(r.SupportedFeatures) > 0)
}

func proto02v5(s *session) {
	r := s.do(metadata(9, false)).(*kmsg.MetadataResponse)
	right, wrong := r.ClusterID, kmsg.StringPtr("no-such-cluster-AAAAAA")
	for _, c := range []struct {
		label   string
		cluster *string
		node    int32
	}{
		{"both right", right, r.ControllerID}, {"wrong cluster", wrong, r.ControllerID}, {"wrong node", right, 77},
		{"cluster only", right, -1}, {"node only", nil, r.ControllerID}, {"neither", nil, -1}, {"node -2", right, -2},
	} {
		req := apiVersions(5, "interop", "1.0")
		req.ClusterID, req.NodeID = c.cluster, c.node
		s.askAPI(c.label, req)
		m, err := s.c().Do(metadata(9, false))
		if err != nil {
			s.hangUp()
			s.note("  next request on the connection: %s", answerError(err))
			continue
		}
		s.note("  next request on the connection: answered, %d brokers", len(m.(*kmsg.MetadataResponse).Brokers))
	}
}

func proto03(s *session) {
	for _, c := range []struct {
		label    string
		key, ver int16
		flexible bool
	}{
		{"Metadata v99", 3, 99, true}, {"Metadata v14", 3, 14, true}, {"JoinGroup v99", 11, 99, true}, {"Fetch v0", 1, 0, false}, {"Fetch v3", 1, 3, false},
		{"Fetch v19", 1, 19, true}, {"ListOffsets v0", 2, 0, false}, {"CreateTopics v1", 19, 1, false}, {"DeleteTopics v0", 20, 0, false},
		{"OffsetForLeaderEpoch v1", 23, 1, false}, {"Produce v0", 0, 0, false}, {"Produce v2", 0, 2, false}, {"Produce v14", 0, 14, true},
		{"InitProducerId v6", 22, 6, true}, {"LeaderAndIsr v0", 4, 0, false}, {"ControlledShutdown v0", 7, 0, false}, {"key 500", 500, 0, false}, {"key -1", -1, 0, false},
	} {
		conn, err := raw.Dial(s.addr)
		if err != nil {
			s.fail("dial: %v", err)
		}
		if _, err := conn.SendBody(c.key, c.ver, c.flexible, make([]byte, 32)); err != nil {
			s.fail("send: %v", err)
		}
		f, err := conn.Read()
		s.note("%s: %s", c.label, frameText(f, err, f.Correlation))
		conn.Close()
	}
}

func proto08(s *session) {
	s.create("acks0", 1)
	batch := raw.NewBatch(1000, "x").MustEncode()
	var corr [4]int32
	for i, req := range []kmsg.Request{
		produce(9, 0, s.topic("acks0"), [16]byte{}, part{0, batch}), apiVersions(3, "interop", "1.0"),
		produce(9, 0, s.topic("acks0"), [16]byte{}, part{0, batch}), metadata(9, false, s.topic("acks0")),
	} {
		var err error
		if corr[i], err = s.c().Send(req); err != nil {
			s.fail("send: %v", err)
		}
	}
	for _, want := range []int{1, 3} {
		f, err := s.c().Read()
		if err != nil {
			s.fail("answer %d: %v", want, err)
		}
		s.note("answer belongs to request %d: %t", want, f.Correlation == corr[want])
	}
	// Nothing says when an append without an acknowledgement can be seen.
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		r := s.do(listOffsets(7, s.topic("acks0"), offsetAsk{0, -1, -1})).(*kmsg.ListOffsetsResponse)
		if r.Topics[0].Partitions[0].Offset == 2 {
			break
		}
	}
	s.ask("both were stored", listOffsets(7, s.topic("acks0"), offsetAsk{0, -1, -1}))
}

func proto08error(s *session) {
	s.create("acks0e", 1)
	bad := raw.NewBatch(1000, "x").MustEncode()
	bad[len(bad)-1] ^= 1
	for _, c := range []struct {
		label string
		req   kmsg.Request
	}{
		{"corrupt batch", produce(9, 0, s.topic("acks0e"), [16]byte{}, part{0, bad})},
		{"unknown topic", produce(9, 0, s.topic("nosuch"), [16]byte{}, part{0, raw.NewBatch(1000, "x").MustEncode()})},
		{"unknown partition", produce(9, 0, s.topic("acks0e"), [16]byte{}, part{7, raw.NewBatch(1000, "x").MustEncode()})},
	} {
		s.hangUp()
		if _, err := s.c().Send(c.req); err != nil {
			s.fail("send: %v", err)
		}
		_, err := s.c().Do(apiVersions(3, "interop", "1.0"))
		s.note("acks=0, %s: the next request is answered: %t, connection closed: %t", c.label, err == nil, err != nil)
		s.hangUp()
	}
}

func proto09(s *session) {
	s.create("p9", 1)
	for v := int16(0); v <= 13; v++ {
		for _, null := range []bool{false, true} {
			req := metadata(v, false)
			if null {
				req.Topics = nil
			}
			if null && v == 0 {
				continue
			}
			resp, err := s.c().Do(req)
			if err != nil {
				s.hangUp()
				s.note("v%d null=%t: %s", v, null, answerError(err))
				continue
			}
			r := resp.(*kmsg.MetadataResponse)
			s.note("v%d null=%t: topics listed: %t, brokers %d, controller %d, cluster id: %t", v, null, len(r.Topics) > 0, len(r.Brokers), r.ControllerID, r.ClusterID != nil)
		}
	}
}

func proto10(s *session) {
	id := s.create("dup", 2)
	name := s.topic("dup")
	s.put("dup", 0, raw.NewBatch(1000, "x").MustEncode())
	s.ask("topic twice", metadata(12, false, name, name))
	s.ask("unknown topic twice", metadata(12, false, s.topic("nodup"), s.topic("nodup")))
	byID := metadata(12, false)
	for range 2 {
		t := kmsg.NewMetadataRequestTopic()
		t.TopicID = id
		byID.Topics = append(byID.Topics, t)
	}
	s.ask("id twice", byID)
	s.ask("partition twice", listOffsets(7, name, offsetAsk{0, -1, -1}, offsetAsk{0, -2, -1}, offsetAsk{1, -1, -1}))
	two := listOffsets(7, name, offsetAsk{0, -1, -1})
	two.Topics = append(two.Topics, two.Topics[0])
	s.ask("topic twice", two)
	ct := kmsg.NewPtrCreateTopicsRequest()
	ct.Version, ct.TimeoutMillis = 7, 5000
	ct.Topics = append(ct.Topics, newTopic(s.topic("twin"), 1, 1), newTopic(s.topic("twin"), 2, 1))
	s.ask("name twice", ct)
	s.ask("not created", metadata(12, false, s.topic("twin")))
	f := fetch(12, name, [16]byte{}, fetchAsk{0, 0, 0}, fetchAsk{0, 0, 0})
	s.ask("partition twice", f)
	b := raw.NewBatch(1000, "x").MustEncode()
	s.ask("partition twice", produce(9, -1, name, [16]byte{}, part{1, b}, part{1, b}))
}

func proto11(s *session) {
	id := s.create("empty", 1)
	for v := int16(4); v <= 18; v++ {
		name, tid := s.topic("empty"), id
		s.ask("empty partition", fetch(v, name, tid, fetchAsk{0, 0, 0}))
		s.ask("out of range", fetch(v, name, tid, fetchAsk{0, 5, 0}))
		s.ask("unknown partition", fetch(v, name, tid, fetchAsk{9, 0, 0}))
	}
	for _, v := range []int16{4, 11, 12} {
		if _, err := s.c().Send(fetch(v, s.topic("empty"), id, fetchAsk{0, 0, 0}, fetchAsk{9, 0, 0})); err != nil {
			s.fail("send: %v", err)
		}
		f, err := s.c().Read()
		if err != nil {
			s.fail("read: %v", err)
		}
		s.note("v%d bytes: %d", v, len(f.Body))
	}
}

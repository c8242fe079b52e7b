package brokertest_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

func TestPROTO01ApiVersionsTooNew(t *testing.T) {
	b := brokertest.Start(t)
	r := dialRaw(t, b)
	for i, version := range []int16{6, 99, 32767, -1} {
		for j, body := range [][]byte{nil, {0xff, 0xff, 0xff}, []byte("\x08interop\x041.0\x00")} {
			id := int32(100*i + j)
			r.send(frame(18, version, id, true, body))
			got, answer := r.answer()
			if got != id {
				t.Errorf("v%d: correlation %d, want %d", version, got, id)
			}
			// error 35, one entry: key 18, 0 to 5.
			same(t, fmt.Sprintf("v%d", version), answer, []byte{0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5})
		}
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "case", "1.0"
	r.send(request(req, 7))
	id, answer := r.answer()
	if id != 7 || !bytes.HasPrefix(answer, []byte{0, 0}) {
		t.Errorf("v3 on the same connection: correlation %d, %x", id, answer[:8])
	}
}

func TestPROTO02SoftwareName(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	for _, c := range []struct {
		name, version string
		good          bool
	}{
		{"bad name!", "1.0", false}, {"", "1.0", false}, {"ok", "", false}, {"ok", "1 0", false},
		{"-a", "1", false}, {"a-", "1", false}, {"ä", "1", false}, {"a", "1", true}, {"a.b-c", "1.0-rc.1", true},
	} {
		for version := int16(3); version <= 5; version++ {
			req := kmsg.NewPtrApiVersionsRequest()
			req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, c.name, c.version
			resp := ask[*kmsg.ApiVersionsResponse](p, req)
			what := fmt.Sprintf("%q %q v%d", c.name, c.version, version)
			if c.good {
				wantCode(t, what, resp.ErrorCode, nil)
				continue
			}
			wantCode(t, what, resp.ErrorCode, kerr.InvalidRequest)
			if len(resp.ApiKeys) != 0 {
				t.Errorf("%s: %d keys in a refusal", what, len(resp.ApiKeys))
			}
		}
	}
}

func TestPROTO02ClusterAndNode(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	id, other := b.Broker().ClusterID(), "another"
	for _, c := range []struct {
		cluster *string
		node    int32
		want    *kerr.Error
	}{
		{&id, 1, nil}, {nil, -1, nil}, {&other, 1, kerr.RebootstrapRequired}, {&id, 2, kerr.RebootstrapRequired},
		{&id, -2, kerr.RebootstrapRequired}, {&id, -1, kerr.InvalidRequest}, {nil, 1, kerr.InvalidRequest},
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 5, "case", "1"
		req.ClusterID, req.NodeID = c.cluster, c.node
		resp := ask[*kmsg.ApiVersionsResponse](p, req)
		wantCode(t, fmt.Sprintf("node %d", c.node), resp.ErrorCode, c.want)
		p.alive()
	}
}

func TestPROTO03UnsupportedVersion(t *testing.T) {
	b := brokertest.Start(t)
	bystander := dial(t, b)
	for _, c := range []struct{ key, version int16 }{
		{3, 99}, {3, 14}, {11, 99}, {1, 0}, {1, 3}, {1, 19}, {2, 0}, {19, 1}, {20, 0}, {23, 1},
		{0, 0}, {0, 2}, {0, 14}, {22, 6}, {4, 0}, {7, 0}, {500, 0}, {-1, 0},
	} {
		r := dialRaw(t, b)
		r.send(frame(c.key, c.version, 1, false, []byte{0, 0, 0, 0}))
		r.closed(fmt.Sprintf("key %d version %d", c.key, c.version))
	}
	bystander.alive()
}

// Produce is advertised from version 0, or librdkafka 2.0-2.8 take this for a
// broker without compression. That its batches arrive compressed is checked
// with the client itself.
func TestPROTO04ProduceFromZero(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	for version := int16(0); version <= 5; version++ {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "case", "1"
		resp := ask[*kmsg.ApiVersionsResponse](p, req)
		wantCode(t, "ApiVersions", resp.ErrorCode, nil)
		if k := resp.ApiKeys[0]; k.ApiKey != 0 || k.MinVersion != 0 || k.MaxVersion != 13 {
			t.Errorf("v%d: Produce is told as %+v", version, k)
		}
	}
}

// Old kafka-python sends both probes in one write.
func TestPROTO05PipelinedProbe(t *testing.T) {
	r := dialRaw(t, brokertest.Start(t))
	versions, metadata := kmsg.NewPtrApiVersionsRequest(), kmsg.NewPtrMetadataRequest()
	metadata.Topics = []kmsg.MetadataRequestTopic{}
	r.send(append(request(versions, 1), request(metadata, 2)...))
	for want := int32(1); want <= 2; want++ {
		id, answer := r.answer()
		if id != want {
			t.Fatalf("correlation %d, want %d", id, want)
		}
		resp := versions.ResponseKind()
		if want == 2 {
			resp = metadata.ResponseKind()
		}
		resp.SetVersion(0)
		if err := resp.ReadFrom(answer); err != nil {
			t.Errorf("%T: %v", resp, err)
		}
	}
}

func TestPROTO06FrameLength(t *testing.T) {
	b := brokertest.Start(t, brokertest.Set("socket.request.max.bytes", "1000000"))
	bystander := dial(t, b)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		for _, size := range []uint32{0x7fffffff, 0xffffffff, 0x80000000, 1_000_001} {
			r := dialRaw(t, b)
			r.send(binary.BigEndian.AppendUint32(nil, size))
			r.closed(fmt.Sprintf("length %x", size))
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("400 bad lengths had %d MiB allocated", grown>>20)
	}
	bystander.alive()
}

func TestPROTO07NotKafka(t *testing.T) {
	b := brokertest.Start(t)
	bystander := dial(t, b)
	r := dialRaw(t, b)
	r.send([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	r.closed("HTTP")

	r = dialRaw(t, b)
	if err := tls.Client(r.Conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context()); err == nil {
		t.Error("a TLS handshake succeeded on the plaintext port")
	}
	junk := make([]byte, 64<<10)
	for range 20 {
		_, _ = rand.Read(junk)
		junk[0] |= 0x80 // a length that cannot be
		r = dialRaw(t, b)
		_, _ = r.Write(junk) // it may be cut off before it is through
		r.closed("random bytes")
	}
	for range 500 {
		dialRaw(t, b)
	}
	bystander.alive()
	dial(t, b).alive()
}

func TestPROTO08AcksZeroPipelined(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	p.create("acks0", 1)
	p.write("acks0", records("first")) // which waits for a sync, so that the others need not
	r := dialRaw(t, b)
	versions, metadata := kmsg.NewPtrApiVersionsRequest(), kmsg.NewPtrMetadataRequest()
	var all []byte
	all = append(all, request(produceTo(9, 0, "acks0", records("a")), 0)...)
	all = append(all, request(versions, 1)...)
	all = append(all, request(produceTo(9, 0, "acks0", records("b")), 2)...)
	all = append(all, request(metadata, 3)...)
	r.send(all)
	for _, want := range []int32{1, 3} {
		if id, _ := r.answer(); id != want {
			t.Fatalf("correlation %d, want %d", id, want)
		}
	}
	if end := p.end("acks0", 0); end != 3 {
		t.Errorf("log end %d, want 3", end)
	}
}

func TestPROTO08AcksZeroError(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	p.create("acks0", 1)
	corrupt := records("x")
	corrupt[len(corrupt)-1] ^= 1
	for what, req := range map[string]*kmsg.ProduceRequest{
		"corrupt batch":     produceTo(9, 0, "acks0", corrupt),
		"unknown topic":     produceTo(9, 0, "nosuch", records("x")),
		"unknown partition": produceTo(9, 0, "acks0", records("x"), records("y")),
	} {
		r := dialRaw(t, b)
		r.send(append(request(req, 1), request(kmsg.NewPtrApiVersionsRequest(), 2)...))
		r.closed(what)
	}
	p.alive()
}

func TestPROTO09EmptyAndNull(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("there", 1)
	for version := int16(0); version <= 13; version++ {
		for _, null := range []bool{false, true} {
			if null && version == 0 {
				continue // an array that cannot be null
			}
			req := kmsg.NewPtrMetadataRequest()
			req.Version = version
			if !null {
				req.Topics = []kmsg.MetadataRequestTopic{}
			}
			resp := ask[*kmsg.MetadataResponse](p, req)
			what := fmt.Sprintf("v%d null=%t", version, null)
			if all := null || version == 0; all != (len(resp.Topics) == 1) {
				t.Errorf("%s: %d topics", what, len(resp.Topics))
			}
			if len(resp.Brokers) != 1 {
				t.Errorf("%s: %d brokers", what, len(resp.Brokers))
			}
			if version >= 1 && resp.ControllerID != 1 {
				t.Errorf("%s: controller %d", what, resp.ControllerID)
			}
			if version >= 2 && (resp.ClusterID == nil || *resp.ClusterID == "") {
				t.Errorf("%s: no cluster id", what)
			}
		}
	}
}

func TestPROTO10Duplicates(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	id := p.create("dup", 2)
	for what, asked := range map[string]kmsg.MetadataRequestTopic{
		"name": {Topic: kmsg.StringPtr("dup")}, "unknown name": {Topic: kmsg.StringPtr("nodup")}, "id": {TopicID: id},
	} {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = 12, []kmsg.MetadataRequestTopic{asked, asked}
		if n := len(ask[*kmsg.MetadataResponse](p, req).Topics); n != 1 {
			t.Errorf("metadata, %s twice: %d entries", what, n)
		}
	}

	list := kmsg.NewPtrListOffsetsRequest()
	list.Version = 7
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = "dup"
	for _, n := range []int32{0, 0, 1} {
		in := kmsg.NewListOffsetsRequestTopicPartition()
		in.Partition, in.Timestamp = n, -1
		topic.Partitions = append(topic.Partitions, in)
	}
	list.Topics = append(list.Topics, topic)
	got := ask[*kmsg.ListOffsetsResponse](p, list).Topics[0].Partitions
	if len(got) != 2 {
		t.Fatalf("list offsets: %d answers, want one a partition", len(got))
	}
	wantCode(t, "partition named twice", got[0].ErrorCode, kerr.InvalidRequest)
	wantCode(t, "the other one", got[1].ErrorCode, nil)

	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 5000
	for range 2 {
		c := kmsg.NewCreateTopicsRequestTopic()
		c.Topic, c.NumPartitions, c.ReplicationFactor = "twin", 1, 1
		create.Topics = append(create.Topics, c)
	}
	made := ask[*kmsg.CreateTopicsResponse](p, create).Topics
	if len(made) != 1 {
		t.Fatalf("create topics: %d results, want 1", len(made))
	}
	wantCode(t, "name twice", made[0].ErrorCode, kerr.InvalidRequest)
	if _, there := p.topic("twin"); there {
		t.Error("the topic was made")
	}

	if got := p.fetch(fetchOf(12, "dup", id, at{0, 0, 0}, at{0, 0, 0})); len(got) != 1 {
		t.Errorf("fetch, partition twice: %d answers", len(got))
	}
}

// topic asks for a topic by name, creating nothing.
func (p *peer) topic(name string) (kmsg.MetadataResponseTopic, bool) {
	p.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 12, false
	in := kmsg.NewMetadataRequestTopic()
	in.Topic = &name
	req.Topics = append(req.Topics, in)
	out := ask[*kmsg.MetadataResponse](p, req).Topics[0]
	return out, out.ErrorCode == 0
}

// kmsg reads a null byte field as nil, and an empty one as not nil.
func TestPROTO11EmptyRecords(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	id := p.create("empty", 1)
	for version := int16(4); version <= 18; version++ {
		for _, got := range p.fetch(fetchOf(version, "empty", id, at{0, 0, 0}, at{0, 5, 0}, at{7, 0, 0})) {
			if got.RecordBatches == nil || len(got.RecordBatches) != 0 {
				t.Errorf("v%d partition %d (%s): records %v", version, got.Partition, name(got.ErrorCode), got.RecordBatches)
			}
		}
	}
}

// Every request that is served is answered, also with nothing in it, in the
// layout of its own version.
func TestEveryVersionIsAnswered(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	versions := ask[*kmsg.ApiVersionsResponse](p, kmsg.NewPtrApiVersionsRequest())
	for _, k := range versions.ApiKeys {
		for version := max(k.MinVersion, map[int16]int16{wire.KeyProduce: 3}[k.ApiKey]); version <= k.MaxVersion; version++ {
			req := kmsg.RequestForKey(k.ApiKey)
			if d, ok := req.(interface{ Default() }); ok {
				d.Default()
			}
			req.SetVersion(version)
			if a, ok := req.(*kmsg.ProduceRequest); ok {
				a.Acks = 1
			}
			ask[kmsg.Response](p, req)
		}
	}
}

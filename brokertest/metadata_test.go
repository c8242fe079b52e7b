package brokertest_test

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// metadata asks for topics; nil asks for all.
func (p *peer) metadata(version int16, create bool, topics []kmsg.MetadataRequestTopic) *kmsg.MetadataResponse {
	p.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation, req.Topics = version, create, topics
	return ask[*kmsg.MetadataResponse](p, req)
}

func named(name string) []kmsg.MetadataRequestTopic {
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &name
	return []kmsg.MetadataRequestTopic{t}
}

// A client is sent to the listener that it came in on; port 0 is told as the
// port that was picked.
func TestMETA01Listeners(t *testing.T) {
	b := brokertest.Start(t,
		brokertest.Set("listeners", "PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:0"),
		brokertest.Set("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT"),
		brokertest.Set("inter.broker.listener.name", "PLAINTEXT"),
	)
	for _, listener := range []string{"PLAINTEXT", "OUTSIDE"} {
		addr := b.Broker().Addr(listener)
		c, err := wire.Dial(t.Context(), addr, wire.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		p := &peer{t, c}
		for version := int16(0); version <= 13; version++ {
			for _, told := range p.metadata(version, false, nil).Brokers {
				if got := net.JoinHostPort(told.Host, strconv.Itoa(int(told.Port))); got != addr {
					t.Errorf("v%d on %s at %s: told %s", version, listener, addr, got)
				}
			}
		}
		for _, told := range ask[*kmsg.DescribeClusterResponse](p, kmsg.NewPtrDescribeClusterRequest()).Brokers {
			if got := net.JoinHostPort(told.Host, strconv.Itoa(int(told.Port))); got != addr {
				t.Errorf("DescribeCluster on %s at %s: told %s", listener, addr, got)
			}
		}
	}
	if b.Broker().Addr("PLAINTEXT") == b.Broker().Addr("OUTSIDE") {
		t.Error("two listeners share an address")
	}
}

// An address that listens everywhere is nobody's address.
func TestMETA01NeverEverywhere(t *testing.T) {
	b := brokertest.Start(t,
		brokertest.Set("listeners", "PLAINTEXT://0.0.0.0:0"),
		brokertest.Set("advertised.listeners", "PLAINTEXT://localhost:0"),
	)
	_, port, err := net.SplitHostPort(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	c, err := wire.Dial(t.Context(), "127.0.0.1:"+port, wire.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for _, told := range (&peer{t, c}).metadata(12, false, nil).Brokers {
		if told.Host != "localhost" || strconv.Itoa(int(told.Port)) != port {
			t.Errorf("told %s:%d, want localhost:%s", told.Host, told.Port, port)
		}
	}
}

func TestMETA02AutoCreation(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		t.Run(fmt.Sprintf("auto.create.topics.enable=%t", allowed), func(t *testing.T) {
			p := dial(t, brokertest.Start(t, brokertest.Set("auto.create.topics.enable", strconv.FormatBool(allowed))))
			for version := int16(0); version <= 13; version++ {
				for _, wanted := range []bool{true, false} {
					topic := fmt.Sprintf("auto-v%d-%t", version, wanted)
					can := allowed && (wanted || version < 4) // before, there was no way to say no
					// Apache Kafka answers UNKNOWN_TOPIC_OR_PARTITION to the
					// request that creates, and the topic to the next one; this
					// waits for the topic, which saves every client a round.
					want := kerr.UnknownTopicOrPartition
					if can {
						want = nil
					}
					wantCode(t, topic, p.metadata(version, wanted, named(topic)).Topics[0].ErrorCode, want)
					if _, there := p.topic(topic); there != can {
						t.Errorf("%s: there=%t, want %t", topic, there, can)
					}
				}
			}
		})
	}
}

func TestMETA02NothingElseCreates(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.metadata(12, true, nil)
	p.fetch(fetchOf(12, "ghost", [16]byte{}, at{}))
	p.produce(produceTo(9, -1, "ghost", records("x")))
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version = 7
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = "ghost"
	topic.Partitions = append(topic.Partitions, kmsg.NewListOffsetsRequestTopicPartition())
	list.Topics = append(list.Topics, topic)
	out := ask[*kmsg.ListOffsetsResponse](p, list).Topics[0].Partitions[0]
	wantCode(t, "list offsets", out.ErrorCode, kerr.UnknownTopicOrPartition)
	p.deleteRecords(upTo(2, "ghost", -1))
	p.producers("ghost", 0)
	p.page(10, nil, "ghost")
	p.epochEnd(4, "ghost", -1, -1, 0)
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Version = 4
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, "ghost"
	configs.Resources = append(configs.Resources, resource)
	wantCode(t, "describe configs", ask[*kmsg.DescribeConfigsResponse](p, configs).Resources[0].ErrorCode, kerr.UnknownTopicOrPartition)
	if all := p.metadata(12, false, nil).Topics; len(all) != 0 {
		t.Errorf("%d topics came to be", len(all))
	}
	wantCode(t, "a bad name", p.metadata(12, true, named("bad name!")).Topics[0].ErrorCode, kerr.InvalidTopicException)
}

func TestMETA03TopicIDs(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	id := p.create("m3", 1)
	if id == ([16]byte{}) {
		t.Fatal("a topic without id")
	}
	byID := func(id [16]byte, name *string) []kmsg.MetadataRequestTopic {
		return []kmsg.MetadataRequestTopic{{TopicID: id, Topic: name}}
	}
	other := [16]byte{7, 7}
	for version := int16(10); version <= 13; version++ {
		if got := p.metadata(version, false, named("m3")).Topics[0]; got.TopicID != id || got.ErrorCode != 0 {
			t.Errorf("v%d by name: %x, %s", version, got.TopicID, name(got.ErrorCode))
		}
		for what, asked := range map[string][]kmsg.MetadataRequestTopic{
			"by id": byID(id, nil), "unknown id": byID(other, nil), "name and id": byID(id, kmsg.StringPtr("m3")),
			"name and another id": byID(other, kmsg.StringPtr("m3")), "neither": byID([16]byte{}, nil),
		} {
			what = fmt.Sprintf("v%d %s", version, what)
			resp := p.metadata(version, false, asked)
			got := resp.Topics[0]
			// Apache Kafka answers UNKNOWN_SERVER_ERROR to neither name nor id
			// from version 12 on; it is the client's mistake, and said to be one.
			if version < 12 || asked[0].Topic == nil && asked[0].TopicID == ([16]byte{}) {
				wantCode(t, what, got.ErrorCode, kerr.InvalidRequest)
				if len(resp.Brokers) != 0 || resp.ClusterID != nil || resp.ControllerID != -1 {
					t.Errorf("%s: a refusal tells of the cluster", what)
				}
				continue
			}
			if asked[0].TopicID == other {
				wantCode(t, what, got.ErrorCode, kerr.UnknownTopicID)
				if got.Topic != nil || got.TopicID != other {
					t.Errorf("%s: answered with name %v and id %x", what, got.Topic, got.TopicID)
				}
				continue
			}
			wantCode(t, what, got.ErrorCode, nil)
			if got.Topic == nil || *got.Topic != "m3" || got.TopicID != id {
				t.Errorf("%s: answered with name %v and id %x", what, got.Topic, got.TopicID)
			}
		}
	}

	b.Restart()
	p = dial(t, b)
	if got, _ := p.topic("m3"); got.TopicID != id {
		t.Errorf("after a restart the id is %x, was %x", got.TopicID, id)
	}
	p.remove("m3")
	wantCode(t, "id of a deleted topic", p.metadata(12, false, byID(id, nil)).Topics[0].ErrorCode, kerr.UnknownTopicID)
	again := p.create("m3", 1)
	if again == id {
		t.Error("the recreated topic has the old id")
	}
	wantCode(t, "old id", p.metadata(12, false, byID(id, nil)).Topics[0].ErrorCode, kerr.UnknownTopicID)
	wantCode(t, "new id", p.metadata(12, false, byID(again, nil)).Topics[0].ErrorCode, nil)
}

func TestMETA04ClusterAndBrokers(t *testing.T) {
	for _, rack := range []string{"", "r1"} {
		b := brokertest.Start(t, brokertest.Set("broker.rack", rack), brokertest.Set("node.id", "7"))
		var first string
		for range 2 {
			p := dial(t, b)
			for version := int16(2); version <= 13; version++ {
				m := p.metadata(version, false, nil)
				if m.ClusterID == nil || *m.ClusterID == "" {
					t.Fatalf("v%d: no cluster id", version)
				}
				if first == "" {
					first = *m.ClusterID
				}
				if *m.ClusterID != first || first != b.Broker().ClusterID() {
					t.Errorf("v%d: cluster id %s, was %s", version, *m.ClusterID, first)
				}
				if m.ControllerID != 7 || len(m.Brokers) != 1 || m.Brokers[0].NodeID != 7 {
					t.Errorf("v%d: controller %d, brokers %+v", version, m.ControllerID, m.Brokers)
				}
				if got := m.Brokers[0].Rack; (got == nil) != (rack == "") || got != nil && *got != rack {
					t.Errorf("v%d: rack %v, want %q", version, got, rack)
				}
			}
			b.Restart()
		}
	}
}

package main

import (
	"log"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// leaders gives the address of each partition's leader, as soon as all have one
// and all replicas are in sync: what comes before is not the load's to measure.
// A single broker is asked once; those of a cluster are asked themselves, too.
func leaders(addr, topic string, parts int) []string {
	c := mustDial(addr)
	defer c.c.Close()
	q := kmsg.NewPtrMetadataRequest()
	q.SetVersion(9)
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	q.Topics = append(q.Topics, t)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		a, err := call[*kmsg.MetadataResponse](c, q)
		if err != nil {
			log.Fatal("metadata: ", err)
		}
		out, whole := led(a, parts)
		if whole && (len(a.Brokers) == 1 || allLead(out, topic)) {
			return out
		}
		if time.Now().After(deadline) {
			log.Fatalf("not all of %d partitions of %s have a leader and full ISRs after a minute", parts, topic)
		}
	}
}

// allLead asks the leaders themselves: they may hear of it later than the broker
// that told.
func allLead(leaders []string, topic string) bool {
	for _, l := range byLeader(leaders) {
		q := kmsg.NewPtrListOffsetsRequest()
		q.SetVersion(5)
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for _, part := range l.parts {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = int32(part), -1 // the end
			t.Partitions = append(t.Partitions, p)
		}
		q.Topics = append(q.Topics, t)
		c := mustDial(l.addr)
		a, err := call[*kmsg.ListOffsetsResponse](c, q)
		c.c.Close()
		if err != nil {
			log.Fatal("list offsets: ", err)
		}
		for _, t := range a.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return false
				}
			}
		}
	}
	return true
}

// awaitBrokers asks until a cluster that starts has n brokers.
func awaitBrokers(addr string, n int) {
	c := dialUntil(addr, 2*time.Minute)
	defer c.c.Close()
	q := kmsg.NewPtrMetadataRequest()
	q.SetVersion(9)
	q.Topics = []kmsg.MetadataRequestTopic{} // none; nil means all
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		a, err := call[*kmsg.MetadataResponse](c, q)
		if err != nil {
			log.Fatal("metadata: ", err)
		}
		if len(a.Brokers) >= n {
			return
		}
		if time.Now().After(deadline) {
			log.Fatalf("%d of %d brokers are there after two minutes", len(a.Brokers), n)
		}
	}
}

// led reads the leaders of an answer about one topic, and says whether there
// is nothing left to wait for.
func led(a *kmsg.MetadataResponse, parts int) ([]string, bool) {
	at := map[int32]string{}
	for _, b := range a.Brokers {
		at[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	out := make([]string, parts)
	found := 0
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			if int(p.Partition) < parts && inSync(p) && at[p.Leader] != "" {
				out[p.Partition] = at[p.Leader]
				found++
			}
		}
	}
	return out, found == parts
}

// inSync is said of a partition that has a leader and all of its replicas.
func inSync(p kmsg.MetadataResponseTopicPartition) bool {
	return p.ErrorCode == 0 && p.Leader >= 0 && len(p.ISR) == len(p.Replicas)
}

// lead is a broker and the partitions that it leads.
type lead struct {
	addr  string
	parts []int
}

// byLeader sorts partitions by the broker that leads them, in the order of the
// first partition of each.
func byLeader(leaders []string) []lead {
	var out []lead
	for part, addr := range leaders {
		i := slices.IndexFunc(out, func(l lead) bool { return l.addr == addr })
		if i < 0 {
			i = len(out)
			out = append(out, lead{addr: addr})
		}
		out[i].parts = append(out[i].parts, part)
	}
	return out
}

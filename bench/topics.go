package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var seq atomic.Int64

// replicas is the replication factor of topics on the broker at addr.
func replicas(addr string) int {
	if addr == *ref && *refRF > 0 {
		return *refRF
	}
	return *rf
}

func makeTopic(ctx context.Context, addr string, parts int) string {
	if *topicFlag != "" {
		return *topicFlag
	}
	t := fmt.Sprintf("bench-%d-%d", os.Getpid(), seq.Add(1))
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()
	if replicas(addr) > 1 {
		awaitBrokers(addr, replicas(addr))
	}
	r, err := kadm.NewClient(cl).CreateTopics(ctx, int32(parts), int16(replicas(addr)), nil, t)
	if err == nil {
		err = r.Error()
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		log.Fatalf("create topic: %v", err)
	}
	time.Sleep(200 * time.Millisecond)
	if replicas(addr) > 1 { // what is in sync counts from the first record on
		leaders(addr, t, parts)
	}
	return t
}

func dropTopic(ctx context.Context, addr, t string) {
	if !*delTopic || *topicFlag != "" {
		return
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RetryTimeout(time.Second))
	if err != nil {
		return
	}
	defer cl.Close()
	ctx, c := context.WithTimeout(ctx, 2*time.Second)
	defer c()
	kadm.NewClient(cl).DeleteTopics(ctx, t)
}

func producer(addr, topic string, rr bool) *kgo.Client {
	a := kgo.AllISRAcks()
	o := []kgo.Opt{kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(*linger), kgo.ProducerBatchMaxBytes(int32(*batch)),
		kgo.ProducerBatchCompression(codec()), kgo.MaxBufferedRecords(*buffered), kgo.RecordDeliveryTimeout(30 * time.Second)}
	if *acks != -1 {
		a = kgo.LeaderAck()
		if *acks == 0 {
			a = kgo.NoAck()
		}
		o = append(o, kgo.DisableIdempotentWrite())
	}
	o = append(o, kgo.RequiredAcks(a))
	if rr {
		o = append(o, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	}
	cl, err := kgo.NewClient(o...)
	if err != nil {
		log.Fatal(err)
	}
	return cl
}

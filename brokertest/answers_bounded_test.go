package brokertest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
)

// A few bytes that ask for something long, again and again, are not answered
// with gigabytes.
func TestAnswersAreBounded(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	bound := func(what string, resp kmsg.Response, most int) {
		t.Helper()
		if n := len(resp.AppendTo(nil)); n > most {
			t.Errorf("%s: an answer of %d bytes", what, n)
		}
	}

	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Version, configs.IncludeDocumentation, configs.IncludeSynonyms = 4, true, true
	for range 1500 {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
		configs.Resources = append(configs.Resources, r)
	}
	described := ask[*kmsg.DescribeConfigsResponse](p, configs)
	bound("one broker's settings 1500 times", described, 150<<20)
	wantCode(t, "the first", described.Resources[0].ErrorCode, nil)
	wantCode(t, "the last", described.Resources[1499].ErrorCode, kerr.InvalidRequest)

	producers := kmsg.NewPtrDescribeProducersRequest()
	of := kmsg.NewDescribeProducersRequestTopic()
	of.Topic, of.Partitions = strings.Repeat("long", 10_000), make([]int32, 20_000)
	for n := range of.Partitions {
		of.Partitions[n] = int32(n)
	}
	producers.Topics = append(producers.Topics, of)
	told := ask[*kmsg.DescribeProducersResponse](p, producers)
	bound("producers of a long name", told, 1<<20)
	wantCode(t, "the last", told.Topics[0].Partitions[19_999].ErrorCode, kerr.InvalidTopicException)

	long := strings.Repeat("x", 40_000)
	got := p.alter(kmsg.ConfigResourceTypeBrokerLogger, "1", "root", &long, false)
	if got.ErrorMessage == nil || len(*got.ErrorMessage) > 1100 || !strings.HasPrefix(*got.ErrorMessage, "Cannot set the log level of root to xxx") {
		t.Error("a long level is repeated, or nothing is told")
	}
	wantCode(t, "a long name of a group", p.alter(kmsg.ConfigResourceTypeGroupConfig, long, "consumer.session.timeout.ms", text("46000"), false).ErrorCode, kerr.InvalidRequest)
	p.alive()
}

// A name as long as a request, and a million partitions of it, are looked at
// once each, not together.
func TestLongNamesOfManyPartitions(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	long, parts := strings.Repeat("long", 100_000), make([]int32, 200_000)
	for n := range parts {
		parts[n] = int32(n)
	}
	deletion := kmsg.NewPtrDeleteRecordsRequest()
	del := kmsg.NewDeleteRecordsRequestTopic()
	del.Topic = long
	for _, n := range parts {
		of := kmsg.NewDeleteRecordsRequestTopicPartition()
		of.Partition = n
		del.Partitions = append(del.Partitions, of)
	}
	deletion.Version, deletion.Topics = 2, append(deletion.Topics, del)
	move := kmsg.NewPtrAlterReplicaLogDirsRequest()
	dir := kmsg.NewAlterReplicaLogDirsRequestDir()
	of := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	of.Topic, of.Partitions = long, parts
	dir.Topics = append(dir.Topics, of)
	move.Version, move.Dirs = 2, append(move.Dirs, dir)
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	look := kmsg.NewDescribeLogDirsRequestTopic()
	look.Topic, look.Partitions = long, parts
	dirs.Version, dirs.Topics = 4, append(dirs.Topics, look)
	producers := kmsg.NewPtrDescribeProducersRequest()
	who := kmsg.NewDescribeProducersRequestTopic()
	who.Topic, who.Partitions = long, parts
	producers.Topics = append(producers.Topics, who)

	began := time.Now()
	deleted := ask[*kmsg.DeleteRecordsResponse](p, deletion).Topics[0].Partitions
	if len(deleted) != len(parts) {
		t.Errorf("deletion from %d partitions is answered", len(deleted))
	}
	wantCode(t, "deletion", deleted[0].ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "move", ask[*kmsg.AlterReplicaLogDirsResponse](p, move).Topics[0].Partitions[0].ErrorCode, kerr.InvalidTopicException)
	ask[*kmsg.DescribeLogDirsResponse](p, dirs)
	ask[*kmsg.DescribeProducersResponse](p, producers)
	if d := time.Since(began); d > 20*time.Second { // seconds each, where every partition hashes the name
		t.Errorf("the answers took %v", d)
	}
}

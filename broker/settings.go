package broker

import (
	"math"
	"time"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/storage"
)

// forPartition resolves what a topic's partitions go by.
func (s *settings) forPartition(img *meta.Image, topic string) (storage.Config, replica.Rules) {
	c := s.at(img)
	t := c.Topic(img.TopicConfig(topic))
	log, rules := storageConfig(t), batchRules(t, c.Text("barnabas.produce.validation") == "full")
	if api.IsInternal(topic) {
		// Limits are meant for clients; what coordinators write is bounded by
		// them, and must not fail after it was decided.
		rules.MaxMessageBytes = max(rules.MaxMessageBytes, 2*maxRecordBytes)
		rules.TimestampBeforeMaxMs, rules.TimestampAfterMaxMs = math.MaxInt64, math.MaxInt64
		log.SegmentBytes = max(log.SegmentBytes, 4*maxRecordBytes)
	}
	return log, replica.Rules{
		Batch:     rules,
		MinInSync: t.MinInsync,
		Lag:       c.Duration("replica.lag.time.max.ms"),
		Session:   c.Session() * 4 / 3, // with the third in which an image may be stale
		Internal:  api.IsInternal(topic),

		ThrottledLeaders: t.ThrottledLeaders, ThrottledFollowers: t.ThrottledFollowers,
	}
}

// unclean says whether a replica that may lack records is to lead a topic's
// partition when no other can.
func (s *settings) unclean(img *meta.Image, topic string) bool {
	return s.at(img).Topic(img.TopicConfig(topic)).UncleanElection
}

func storageConfig(t config.Topic) storage.Config {
	return storage.Config{
		SegmentBytes:       t.SegmentBytes,
		SegmentMs:          t.SegmentAge,
		SegmentJitter:      t.SegmentJitter,
		IndexBytes:         t.IndexBytes,
		IndexIntervalBytes: t.IndexIntervalBytes,
		RetentionBytes:     t.RetentionBytes,
		RetentionMs:        t.RetentionAge,
		FileDeleteDelay:    t.FileDeleteDelay,
		Delete:             t.Delete,
		Compact:            t.Compact,
		Durable:            t.Durable,
		Preallocate:        t.Preallocate,
		FlushMessages:      t.FlushMessages,
		FlushMs:            t.FlushInterval,
	}
}

func batchRules(t config.Topic, full bool) batch.Rules {
	return batch.Rules{
		MaxMessageBytes:      int(t.MaxMessageBytes),
		LogAppendTime:        t.LogAppendTime,
		TimestampBeforeMaxMs: limitMs(t.TimestampBefore),
		TimestampAfterMaxMs:  limitMs(t.TimestampAfter),
		Compact:              t.Compact,
		Encoding:             encoding(t),
		Full:                 full,
		PlainLimit:           t.PlainLimit,
	}
}

// limitMs is a bound in milliseconds; below 0 there is none.
func limitMs(d time.Duration) int64 {
	if d < 0 {
		return math.MaxInt64
	}
	return d.Milliseconds()
}

// encoding is the codec that a topic's batches are stored in; nil keeps the producer's.
func encoding(t config.Topic) *batch.Encoding {
	switch t.Compression {
	case config.Uncompressed:
		return &batch.Encoding{Codec: batch.None}
	case config.GzipCompression:
		return &batch.Encoding{Codec: batch.Gzip, Level: t.GzipLevel}
	case config.SnappyCompression:
		return &batch.Encoding{Codec: batch.Snappy}
	case config.LZ4Compression:
		return &batch.Encoding{Codec: batch.LZ4, Level: t.LZ4Level}
	case config.ZstdCompression:
		return &batch.Encoding{Codec: batch.Zstd, Level: t.ZstdLevel}
	default:
		return nil
	}
}

// Validate implements api.Settings.
func (s *settings) Validate(overrides map[string]*string) error {
	return s.now().ValidateTopic(overrides)
}

// Describe implements api.Settings.
func (s *settings) Describe(overrides map[string]string) []api.Setting {
	entries := s.now().DescribeTopic(overrides, nil)
	out := make([]api.Setting, len(entries))
	for i, e := range entries {
		out[i] = api.Setting{
			Name: e.Name, Value: e.Value, ReadOnly: e.ReadOnly, Sensitive: e.Sensitive, Source: int8(e.Source),
		}
	}
	return out
}

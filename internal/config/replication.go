package config

import "time"

// Replication is how this broker follows the leaders of its replicas, and how
// patient it is with those that follow it.
type Replication struct {
	Lag           time.Duration // replica.lag.time.max.ms
	FetchBytes    int32         // replica.fetch.max.bytes, of one partition
	AnswerBytes   int32         // replica.fetch.response.max.bytes
	MinBytes      int32         // replica.fetch.min.bytes
	Wait          time.Duration // replica.fetch.wait.max.ms
	Backoff       time.Duration // replica.fetch.backoff.ms
	Timeout       time.Duration // replica.socket.timeout.ms
	ReceiveBuffer int           // replica.socket.receive.buffer.bytes; -1: the system's
	RackAware     bool          // replica.selector.class is the one that looks at racks
	LeaderRate    int64         // leader.replication.throttled.rate, bytes a second
	FollowerRate  int64         // follower.replication.throttled.rate
}

const rackAware = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

func (c *Config) replication() Replication {
	return Replication{
		Lag:           c.Duration("replica.lag.time.max.ms"),
		FetchBytes:    int32(c.Int("replica.fetch.max.bytes")),
		AnswerBytes:   int32(c.Int("replica.fetch.response.max.bytes")),
		MinBytes:      int32(c.Int("replica.fetch.min.bytes")),
		Wait:          c.Duration("replica.fetch.wait.max.ms"),
		Backoff:       c.Duration("replica.fetch.backoff.ms"),
		Timeout:       c.Duration("replica.socket.timeout.ms"),
		ReceiveBuffer: c.chosen("replica.socket.receive.buffer.bytes"),
		RackAware:     c.Text("replica.selector.class") == rackAware,
		LeaderRate:    c.Int("leader.replication.throttled.rate"),
		FollowerRate:  c.Int("follower.replication.throttled.rate"),
	}
}

// Package telemetry decides about the metrics that clients push (KIP-714):
// which client is asked for what, and which of its requests are taken. It does
// what Apache Kafka 4.4 does, with the same errors.
//
// It is pure: the caller gives the time and locks. A Desk remembers a bounded
// number of client instances and is used by one goroutine at a time. What was
// pushed is opened and shown by telemetry/otlp.
package telemetry

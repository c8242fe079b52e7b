// Package otlp opens the metrics that clients push (KIP-714: OpenTelemetry's
// MetricsData, compressed) and shows them to Prometheus, each as a series of
//
//	barnabas_client_<name>{client_instance_id, client_id, client_software_name,
//	    client_software_version, <attributes of the resource and of the point>}
//
// where name is the metric's own without "org.apache.kafka.", with an
// underscore for every character that Prometheus does not allow. A sum that
// only grows is a counter whose name ends in _total; clients push what it grew
// by, which is added up here. Numbers are shown; histograms and summaries, which
// clients of Kafka do not send, are counted as dropped.
//
// Everything is bounded, since anybody who may connect may push: the bytes that
// a push opens to, the messages in it, the series of a client and of all, their
// text. A series goes when its client did not push it for a minute and for
// three intervals. A Store may be used by any number of goroutines; it opens one
// push at a time.
package otlp

package config

// Subscriptions to client metrics (KIP-714).
var clientMetricsKeys = []Key{
	{Name: "metrics", Type: List, Default: value(""), Mode: ClusterWide, State: Live,
		Doc: "Prefixes of the metrics that clients are asked for; * means all."},
	{Name: "interval.ms", Type: Int, Default: value("300000"), Mode: ClusterWide, State: Live,
		Doc: "How often clients push them, 100 to 3600000; what is longer than the default is the default, as in Apache Kafka."},
	{Name: "match", Type: List, Default: value(""), Mode: ClusterWide, State: Live,
		Doc: "Which clients are asked: attribute=pattern, separated by commas; patterns are RE2's, and match a whole attribute."},
}

package config

// Subscriptions to client metrics (KIP-714).
var clientMetricsKeys = []Key{
	{Name: "metrics", Type: List, Default: value(""), Mode: ClusterWide, State: Planned,
		Doc: "Prefixes of the metrics that clients are asked for; * means all."},
	{Name: "interval.ms", Type: Int, Default: value("300000"), Mode: ClusterWide, State: Planned,
		Doc: "How often clients push them."},
	{Name: "match", Type: List, Default: value(""), Mode: ClusterWide, State: Planned,
		Doc: "Which clients are asked: attribute=pattern, separated by commas."},
}

package config

// Metrics and telemetry.
var metricsKeys = []Key{
	{Name: "metrics.num.samples", Type: Int, Default: value("2"), Check: atLeast(1), State: Never, Reason: ownMetrics,
		Doc: "Samples of Kafka's own metrics."},
	{Name: "metrics.sample.window.ms", Type: Long, Default: value("30000"), Check: atLeast(1), State: Never, Reason: ownMetrics,
		Doc: "Window of Kafka's own metrics."},
	{Name: "metric.reporters", Type: List, Default: value("org.apache.kafka.common.metrics.JmxReporter"), Mode: ClusterWide, State: Never, Reason: ownMetrics,
		Doc: "Java classes that report metrics."},
	{Name: "metrics.recording.level", Type: String, Default: value("INFO"), Check: oneOf("INFO", "DEBUG", "TRACE"), State: Never, Reason: ownMetrics,
		Doc: "Level of Kafka's own metrics."},
	{Name: "kafka.metrics.reporters", Type: List, Default: value(""), State: Never, Reason: ownMetrics,
		Doc: "Java classes that report metrics."},
	{Name: "kafka.metrics.polling.interval.secs", Type: Int, Default: value("10"), Check: atLeast(1), State: Never, Reason: ownMetrics,
		Doc: "Interval of these classes."},
	{Name: "telemetry.max.bytes", Type: Int, Default: value("1048576"), Check: atLeast(1), State: Live,
		Doc: "Size of a client's pushed metrics at most (KIP-714)."},
}

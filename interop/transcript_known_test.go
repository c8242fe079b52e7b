//go:build interop

package interop

// knownTranscripts are the differences between what the tools print against
// Apache Kafka and against the broker, each with its reason. The order counts:
// a later one sees what an earlier one left.
var knownTranscripts = []knownTranscript{
	known("TopicCommand --describe", `min\.insync\.replicas=1,?`, "",
		"Apache Kafka stores min.insync.replicas as a setting of the cluster when it formats a directory, and shows it as an override of every topic"),
	known("TopicCommand --describe --topics-with-overrides", `^Topic: .* Configs:$`, "",
		"so it lists every topic as one with overrides"),
}

//go:build interop

package interop

// knownTranscripts are the differences between what the tools print against
// Apache Kafka and against the broker, each with its reason.
var knownTranscripts = []knownTranscript{}

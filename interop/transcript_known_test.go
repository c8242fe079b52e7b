//go:build interop

package interop

const notServed = "Sasl.*|.*Txn.*|.*Transactions|.*Acls|.*DelegationToken|.*ClientQuotas|.*ScramCredentials|" +
	".*Share.*|.*RaftVoter|StreamsGroup.*|UnregisterController|GetTelemetrySubscriptions|PushTelemetry"

// knownTranscripts are the differences between what the tools print against
// Apache Kafka and against the broker, each with its reason. The order counts:
// a later one sees what an earlier one left.
var knownTranscripts = []knownTranscript{
	known("TopicCommand --describe", `min\.insync\.replicas=1,?`, "",
		"Apache Kafka stores min.insync.replicas as a setting of the cluster when it formats a directory, and shows it as an override of every topic"),
	known("TopicCommand --describe --topics-with-overrides", `^Topic: .*\sConfigs:$`, "",
		"so it lists every topic as one with overrides"),
	known("ConfigCommand --describe", `DYNAMIC_DEFAULT_BROKER_CONFIG:min\.insync\.replicas=1(, )?`, "",
		"the setting of the cluster again"),
	known("ConfigCommand --describe --entity-type brokers", `^min\.insync\.replicas=1 sensitive=false synonyms=\{\}$`, "",
		"and again, as the only one that there is"),
	known("ConfigCommand --describe", `^barnabas\..*`, "", "settings of our own"),
	known("BrokerApiVersionsCommand", `^(`+notServed+`)\(\d+\): .*`, "",
		"transactions, access rules, SASL, quotas, share groups and streams groups are not served yet; telemetry always is, and there only with a plug-in"),
	known("MetadataQuorumCommand", `^ClusterId: .*`, "ClusterId: ID", "each has its own"),
	known("MetadataQuorumCommand", `^(LeaderEpoch|HighWatermark): +\d+`, "$1: N", "each counts in its own log"),
	known("MetadataQuorumCommand", `\{"id": 1(, "endpoints": \[.*\])?\}`, `{"id": 1}`, "the only member of a quorum listens for no other"),
	known("MetadataQuorumCommand", `^(\d+\s+A{22}\s+)\d+ *`, "${1}N", "the end of its own log"),
	known("ConsumerPerformance", `[0-9]+(\.[0-9]+)?`, "N", "how fast it went"),
	known("FeatureCommand describe", `Epoch: \d+`, "Epoch: N", "each counts the changes of its own metadata"),
	known("FeatureCommand describe", `^Feature: barnabas\.version .*`, "", "the version of our own metadata, beside that of Apache Kafka's"),
	known("FeatureCommand describe", `^Feature: (eligible\.leader\.replicas|kraft|share|streams|transaction)\.version .*`, "",
		"transactions, share groups and streams groups are not served yet; the metadata quorum is etcd's, and eligible leaders are always counted"),
	known("FeatureCommand upgrade --release-version", `.*`, "",
		"a release names features that are not served here, and the tool changes all of them or none"),
}

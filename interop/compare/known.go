//go:build interop

package main

import (
	"regexp"
	"slices"
	"strings"
)

// deviation is where Barnabas answers differently on purpose. It explains the
// lines of a case that match, or whose question does.
type deviation struct {
	in     string // case
	at     string // regular expression
	side   string // a or b: only lines that this side alone has; empty: both
	reason string
}

const (
	later      = "keys and features are advertised from the release that completes them"
	ownConfigs = ` Name="barnabas\.`
	storedMin  = "with eligible leader replicas Apache Kafka stores min.insync.replicas as a setting of the cluster"
)

// deviations are all that are intended. What is not in here is a defect.
var deviations = []deviation{
	{"ApiVersions", `^  - ApiKey=\d+ Min`, "a", later},
	{"ApiVersions", `^# bytes behind the correlation id `, "", later},
	{"ApiVersions", `^< ErrorCode=0 ThrottleMillis=0 FinalizedFeaturesEpoch=\d+ `, "", "the epoch of the features is a revision of the metadata"},
	{"ApiVersions", `^  - Name="(group|transaction|streams|share|eligible.leader.replicas|kraft).version" `, "", later},
	{"ApiVersions", `^  - Name="barnabas.version" `, "b", "a feature of our own"},
	{"PROTO-10-duplicates", `^> partition twice: Produce `, "", "of two batches for one partition Apache Kafka forgets the first; both are appended and answered"},
	{"PROD-02-stricter", `.`, "", "a batch with bytes behind it, or with offsets out of order, is refused"},
	{"PROD-02-malformed", `^> codec [57]: `, "", "a codec that does not exist is named so, and is not an unknown error"},
	{"PROD-02-compressed-garbage", `.`, "", "compressed bodies are stored without being opened, unless barnabas.produce.validation=full"},
	{"PROD-02-null-records", `.`, "", "Apache Kafka never answers; a refusal is better"},
	{"PROD-09-internal", `.`, "", "the internal topics exist from the release that has group coordination"},
	{"Produce-unknown", `^> negative timeout: `, "", "acks=all waits for the disk, and a time that is over before it begins is a time-out"},
	{"Produce-idempotent", `^> negative epoch: `, "", "a producer id with a negative epoch is refused before it is compared with anything"},
	{"Produce-idempotent", `^> older than five batches: `, "", "a batch that is certainly there, no matter how old, is a duplicate, and not out of order for ever"},
	{"FETCH-01-oversize", `partition limit 200|response limit 100`, "", "whole batches only: what cannot be used is not sent"},
	{"FETCH-01-oversize", `negative limits`, "", "a negative limit is one of nothing, and is not an unknown error"},
	{"FETCH-03-bounds", `^> at (0|10): `, "", "whole batches only: what cannot be used is not sent"},
	{"FETCH-03-log-start", `^> at 10: `, "", "whole batches only: what cannot be used is not sent"},
	{"ADM-12-delete-records", `^# timestamp -3: `, "", "the record with the largest timestamp is one that is there: not below the log start"},
	{"Fetch-versions", `^> isolation level 5: `, "", "an isolation level that does not exist is INVALID_REQUEST, and is not an unknown error"},
	{"META-02-auto-creation", `^> (allowed|two names, one bad|twice): `, "", "a topic that asking creates is returned at once"},
	{"META-03-topic-ids", `^> null name, zero id: `, "", "a topic without name and id is INVALID_REQUEST, and is not an unknown error"},
	{"META-03-topic-ids", `^> an id and a name: `, "b", "with an id in the request Apache Kafka forgets the names; each topic asked for is answered"},
	{"Metadata-versions", `^> known and unknown: Metadata v[0-3] `, "", "a topic that asking creates is returned at once"},
	{"META-06-pages", `^> an empty name among others: `, "", "the empty name is one that no topic can have, and no reason to describe none of the others"},
	{"DescribeProducers-errors", `^> partition twice: `, "a", "a partition that a request names twice is described once"},
	{"CreateTopics-versions", ownConfigs, "b", "keys of our own"},
	{"CreateTopics-versions", ` Name="min.insync.replicas" Value="1" `, "", storedMin},
	{"CreateTopics-configs", ownConfigs, "b", "keys of our own"},
	{"CreateTopics-configs", ` Name="min.insync.replicas" Value="1" `, "", storedMin},
	{"CreateTopics-errors", `e_f`, "", "of two names in one request that collide only the first is created"},
	{"Alter-topic", `^> too long: `, "", "a value that is too long is refused; Apache Kafka hangs up"},
	{"Alter-broker-refusals", `^> too long: `, "", "a value that is too long is refused; Apache Kafka hangs up"},
	{"Alter-topic-legacy", `^> twice a topic: `, "", "Apache Kafka never answers; a refusal is better"},
	{"Alter-resources", `^> a kind that is none: `, "", "a kind of change that does not exist is INVALID_REQUEST, and is not an unknown error"},
	{"Alter-broker", `^> min.insync.replicas of all, gone: `, "", "eligible leaders are void after every change, so it can be taken away"},
	{"Alter-broker-refusals", `^> (network )?threads (below|above) `, "", "keys of threads change nothing here, which the refusal says"},
	{"Alter-broker-refusals", `^> compaction lags: `, "", "what would not be taken at a start is refused"},
	{"Alter-broker-refusals", `Name="message.max.bytes" `, "", "a broker's id is read as a number; Apache Kafka keeps settings of 001 apart, and nobody reads them"},
	{"DescribeConfigs-keys", `^# (BROKER|TOPIC) barnabas\.`, "b", "keys of our own"},
	{"DescribeConfigs-keys", `^# BROKER (leader|follower)\.replication\.throttled|^# BROKER replica\.alter\.log\.dirs\.io|^# BROKER remote\.log\.manager\.task\.`, "b", "keys that Apache Kafka takes and does not list"},
	{"DescribeConfigs-resources", ` Name="node.id" Value="1" Source=DEFAULT_CONFIG`, "b", "node.id has a default here"},
	{"FindCoordinator", `^> transactional id: `, "", "there are no coordinators of transactions yet"},
	{"GRP-01-pending-member", `^> pending: DescribeGroups |State="(Dead|Empty)" ProtocolType=""`, "", "a group that waits for its first member is told at once; Apache Kafka tells it when what its shard wrote before is committed"},
	{"GRP-06-protocols", `^> (c, )?protocol without a name`, "", "the protocol of a generation is told as the members named it, be it by nothing"},
	{"GRP-11-offset-fetch-batched", `^> (unknown and nameless groups between|a group twice): `, "", "a group that a request names twice is answered once"},
	{"GRP-15-describe", `^> (one twice|unknown and nameless twice): `, "", "a group that a request names twice is answered once"},
	{"GRP-18-topic-deleted", `^> without offsets: `, "", "a group that only has offsets goes with the last of them"},
	{"DescribeConfigs-keys", `log\.initial\.task\.delay\.ms|consumer\.assignor\.offload\.enable`, "a", "keys of Apache Kafka alone, shown because the test sets them"},
	{"Alter-loggers", ` Name="root" `, "", "how much is logged is the installation's"},
	{"OffsetDelete", `^> the group: `, "", "a group that only has offsets goes with the last of them"},
	{"G848-downgrade", `^> a classic group: `, "", "the record of a group that goes down holds what each member may still use, not what it was to get"},
	{"Group-malformed", `^# (DescribeGroups|DeleteGroups) v0 body f{16}: `, "", "a list of minus one elements where none may be missing is read as an empty one"},
	{"G848-commits", `^> no member, null: `, "", "an epoch without a member is one of an unknown member, and is not an unknown error"},
	{"ListOffsets-by-time", `^# no timestamps, max: `, "", "no record has a timestamp, so none has the largest"},
	{"AlterReplicaLogDirs", `^# an empty one that moved: `, "", "Apache Kafka forgets the leader epoch when an empty log moves to another directory"},
	{"DescribeQuorum", `^#     CONTROLLER `, "a", "the only member of a quorum listens for no other"},
	{"ListOffsets-errors", `^> isolation level 9: `, "", "an isolation level that does not exist is INVALID_REQUEST, and is not an unknown error"},
}

// explain gives the reasons for the lines that have one, and the other lines.
func explain(name string, lines []line) (reasons []string, rest []line) {
	for _, l := range lines {
		i := slices.IndexFunc(deviations, func(d deviation) bool { return d.in == name && d.covers(l) })
		switch {
		case i < 0:
			rest = append(rest, l)
		case !slices.Contains(reasons, deviations[i].reason):
			reasons = append(reasons, deviations[i].reason)
		}
	}
	return reasons, rest
}

func (d deviation) covers(l line) bool {
	if strings.HasPrefix(l.text, "! case stopped") || d.side != "" && d.side != l.side {
		return false
	}
	at := regexp.MustCompile(d.at)
	return at.MatchString(l.text) || at.MatchString(l.question)
}

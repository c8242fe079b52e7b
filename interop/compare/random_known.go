//go:build interop

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// acceptedDifference is where Barnabas answers administrative requests
// differently from Apache Kafka on purpose. It covers lines of an answer.
type acceptedDifference struct {
	api    string // Frames is any damaged request, State what is there afterwards; empty: any
	ask    string // regular expression that the request matches
	line   string // regular expression that the differing line matches
	side   string // a or b: only lines that this side alone has; empty: both
	whole  bool   // one such line explains the whole answer
	what   string // for the reader of the document
	reason string
}

// accepted is all of them; what is not in here is a defect.
var accepted = []acceptedDifference{
	{"", "", ` Name="barnabas\.`, "b", false, "Keys that begin with `barnabas.` are listed among the others.", "They are our own."},
	{"", "", ` Name="min.insync.replicas" Value="[ +\d]+" .*Source=(3|5|DYNAMIC_DEFAULT_BROKER_CONFIG|DEFAULT_CONFIG)\b`, "", false, "`min.insync.replicas` comes from the defaults, not from a setting of the cluster.", storedMin},
	{"Metadata", `AllowAutoTopicCreation=true|Metadata v[0-3] `, "", "", false, "A topic that asking creates is returned at once, with its partitions.", "Apache Kafka says that it does not exist, and clients ask again."},
	{"DescribeGroups", "", "^ ", "a", false, "A group that a request names twice is answered once.", "Nothing is learned from the second answer."},
	{"ApiVersions", "", `^  - ApiKey=\d+ Min|^  - Name="(group|transaction|streams|share|eligible.leader.replicas|kraft).version" `, "", false, "Keys and features of later releases are missing.", later},
	{"ApiVersions", "", `^< ErrorCode=0 ThrottleMillis=0 FinalizedFeaturesEpoch=\d+ `, "", false, "The epoch of the features is another number.", "It is a revision of the metadata."},
	{"ApiVersions", "", `^  - Name="barnabas.version" `, "b", false, "There is a feature `barnabas.version`.", "It is our own."},
	{"Metadata", `TopicID=`, `^  - .* Topic="|^    `, "b", false, "A topic asked for by name is answered beside others asked for by id.", "Apache Kafka forgets the names."},
	{"Frames", "", `^< connection closed without an answer`, "a", true, "What is missing where nothing may be missing is read as empty.", "Apache Kafka hangs up; nothing is misunderstood."},
	{"Frames", `AllowAutoTopicCreation=|Metadata v[0-3]`, "", "", false, "A damaged Metadata request is answered as a whole one.", "See Metadata."},
	{"Frames", `^> IncrementalAlterConfigs .*(byte at|insert of)|^> IncrementalAlterConfigs [\s\S]* Op=(UNKNOWN|4|-1|127) `, `^  - ErrorCode=(-1|40|42|3|17):`, "", false, "A damaged request with an operation that does not exist is refused as a whole one.", "See IncrementalAlterConfigs."},
	{"DescribeTopicPartitions", `Cursor: .* Partition=2147483647`, "", "", false, "A cursor at the largest partition number leads on to the next topic.", "A sum of Apache Kafka's overflows."},
	{"Frames", `^> DescribeTopicPartitions`, `^< connection closed without an answer`, "b", true, "A mark of a cursor that is neither there nor not there is refused.", "It says nothing; Apache Kafka takes what is below nought for nothing."},
	{"Metadata", `  - Topic=null`, "", "", false, "A topic without name and id is INVALID_REQUEST for the whole request.", "Apache Kafka answers UNKNOWN_SERVER_ERROR, or forgets it."},
	{"DescribeConfigs", `GROUP_CONFIG`, ` Name="errors\.deadletterqueue\.`, "", false, "The keys of dead letters have no synonyms.", later},
	{"DescribeLogDirs", "", ` Size=\d+ `, "", false, "The size of a log of which records were deleted, or that moved, is another.", "Apache Kafka keeps the bytes below its beginning for a while."},
	{"DescribeConfigs", `BROKER_LOGGER`, ` Name="(org\.apache\.)?kafka\.|Source=DYNAMIC_BROKER_LOGGER_CONFIG|Configs:|ConfigSynonyms:`, "", false, "The loggers are others.", "They are parts of the broker, not classes."},
	{"AlterConfigs", "", `^  - ErrorCode=(0|40:INVALID_CONFIG) .*ResourceType=BROKER ResourceName=""`, "", false, "The settings of all brokers can be replaced by ones without `min.insync.replicas`.", storedMin},
	{"IncrementalAlterConfigs", `ResourceType=BROKER ResourceName=""[\s\S]*Name="min.insync.replicas" Op=DELETE`, `^  - ErrorCode=(0|40:INVALID_CONFIG) .*ResourceType=BROKER ResourceName=""`, "", false, "`min.insync.replicas` can be taken away from the settings of all brokers.", storedMin},
	{"", `AlterConfigs [\s\S]*Name="(background.threads|log.cleaner.io.buffer.size|num.io.threads|num.network.threads|num.replica.fetchers)"`, `^  - ErrorCode=(0|40:INVALID_CONFIG|42:INVALID_REQUEST) .*ResourceType=BROKER `, "", false, "Keys that have no effect here cannot be changed while the broker runs: INVALID_CONFIG, with the reason.", "A setting that is accepted and does nothing misleads."},
	{"", `GROUP_CONFIG[\s\S]*Name="consumer.assignor.offload.enable"`, "GROUP_CONFIG", "", false, "`consumer.assignor.offload.enable` is no setting of a group.", "Assignments are made aside for all groups or for none."},
	{"", `AlterConfigs [\s\S]*Name="log.local.retention.(ms|bytes)"`, `^  - ErrorCode=(0|42:INVALID_REQUEST) .*ResourceType=BROKER `, "", false, "Local retention is not held against retention.", later},
	{"", `AlterConfigs [\s\S]*Name="log.retention.ms" (Op=SET )?Value="-[2-9]`, `^  - ErrorCode=(0|42:INVALID_REQUEST) .*ResourceType=BROKER `, "", false, "`log.retention.ms` below -1 is refused.", "Apache Kafka takes it for -1."},
	{"GetTelemetrySubscriptions", "", ` RequestedMetrics=\[`, "", false, "The names of requested metrics come in alphabetical order.", "Apache Kafka's order is that of a hash."},
	{"DescribeTopicPartitions", `Topic=""`, "", "", false, "A topic without a name is refused for itself.", "Apache Kafka answers UNKNOWN_SERVER_ERROR for every topic of the request."},
	{"CreateTopics", `Topic="a\.b"[\s\S]*Topic="a_b"|Topic="a_b"[\s\S]*Topic="a\.b"`, `Topic="a[._]b"|^    `, "", false, "Of two names in one request that collide (`a.b` and `a_b`) only the first is created.", "Apache Kafka compares with what is there, and creates both."},
	{"DescribeProducers", "", "^ ", "a", false, "A partition that a request names twice is answered once.", "Its producers, told again and again, would be a flood."},
	{"DescribeProducers", "", `^    Partitions: null`, "b", false, "Of a topic that is named twice, the second row may be empty.", "Its partitions stand in the first."},
	{"", `CreateTopics v`, ` Value=" *\+?\d+ *" ReadOnly=false Source=[23] `, "", false, "A broker's number that was set as `+5`, or with blanks around it, is told as `5`.", "It is the same number."},
	{"ListOffsets", `IsolationLevel=9 `, "", "", false, "An isolation level that does not exist is INVALID_REQUEST.", "Apache Kafka answers UNKNOWN_SERVER_ERROR."},
	{"ListOffsets", ` Timestamp=-(2|4)\b`, ` ErrorCode=0 Timestamp=-1 Offset=\d+ LeaderEpoch=(-1|0)$`, "", false, "The beginning of an empty log that has moved to another directory has a leader epoch.", "Apache Kafka forgets the epoch when an empty log moves."},
	{"UpdateFeatures", `Feature="(transaction|share|streams|eligible.leader.replicas|kraft).version"`, "", "", false, "Features of later releases cannot be changed.", later},
	{"IncrementalAlterConfigs", ` Op=(UNKNOWN|4|-1|127) `, "", "", false, "An operation that does not exist is INVALID_REQUEST for every resource of the request.", "Apache Kafka answers UNKNOWN_SERVER_ERROR."},
	{"ListOffsets", ` Timestamp=-3\b`, ` ErrorCode=0 Timestamp=\S+ Offset=\d+ LeaderEpoch=`, "a", false, "The record with the largest timestamp is none that was deleted.", "Apache Kafka names one below the log's start for as long as its segment is there."},
	{"ListOffsets", ` Timestamp=-3\b`, ` ErrorCode=0 Timestamp=-1 Offset=-1 `, "b", false, "Where all records were deleted none has the largest timestamp.", "A record that cannot be read is none."},
}

func (d acceptedDifference) covers(api, question string, l line) bool {
	if api == "Frames" && strings.HasPrefix(question, "> "+d.api+" ") {
		api = d.api // a damaged request may be whole enough
	}
	if d.api != "" && d.api != api || d.side != "" && d.side != l.side {
		return false
	}
	return regexp.MustCompile(d.ask).MatchString(question) && regexp.MustCompile(d.line).MatchString(l.text)
}

// differencesPage is docs/admin-differences.md.
func differencesPage() string {
	var b strings.Builder
	b.WriteString(pageHead)
	var titles []string
	rows := map[string]string{}
	for _, d := range accepted {
		title := d.api
		switch title {
		case "":
			title = "Several requests"
		case "Frames":
			title = "Damaged requests"
		}
		if !slices.Contains(titles, title) {
			titles = append(titles, title)
		}
		if d.what != "" {
			rows[title] += fmt.Sprintf("| %s | %s |\n", d.what, sentence(d.reason))
		}
	}
	for _, title := range titles {
		fmt.Fprintf(&b, "\n## %s\n\n| answers | why |\n|---|---|\n%s", title, rows[title])
	}
	return b.String()
}

func sentence(text string) string {
	return strings.ToUpper(text[:1]) + strings.TrimRight(text[1:], ".") + "."
}

const pageHead = `# Administrative requests: differences from Apache Kafka 4.4.0

Generated from the list that the test of random administrative requests accepts (interop/compare); every other difference fails that test.
Topic ids, times, host names, ports, paths, disk sizes and the wording of error messages and documentation are not compared, nor are
the settings of brokers that their files set or that have other defaults (interop/compare/random_hide.go names them; configuration.md shows each default of Apache
Kafka's beside ours). What was chosen, and why, is told in
[differences.md](differences.md).
`

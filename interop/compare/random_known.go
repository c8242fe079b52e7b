//go:build interop

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// acceptedDifference is where Barnabas answers administrative requests
// differently from Apache Kafka on purpose. It covers lines of an answer.
type acceptedDifference struct {
	api    string // Frames is any damaged request, State what is there afterwards; empty: any
	ask    string // regular expression that the request matches
	line   string // regular expression that the differing line matches
	side   string // a or b: only lines that this side alone has; empty: both
	what   string // for the reader of the document
	reason string
}

// accepted is all of them; what is not in here is a defect.
var accepted = []acceptedDifference{
	{"", "", ` Name="barnabas\.`, "b", "Keys that begin with `barnabas.` are listed among the others.", "They are our own."},
	{"", "", ` Name="min.insync.replicas" Value="1" `, "", "`min.insync.replicas` comes from the defaults, not from a setting of the cluster.", storedMin},
	{"Metadata", `AllowAutoTopicCreation=true|Metadata v[0-3] `, "", "", "A topic that asking creates is returned at once, with its partitions.", "Apache Kafka says that it does not exist, and clients ask again."},
	{"DescribeGroups", "", "", "a", "A group that a request names twice is answered once.", "Nothing is learned from the second answer."},
	{"ApiVersions", "", `^  - ApiKey=\d+ Min|^  - Name="(group|transaction|streams|share|eligible.leader.replicas|kraft).version" `, "", "Keys and features of later releases are missing.", later},
	{"ApiVersions", "", `^< ErrorCode=0 ThrottleMillis=0 FinalizedFeaturesEpoch=\d+ `, "", "The epoch of the features is another number.", "It is a revision of the metadata."},
	{"ApiVersions", "", `^  - Name="barnabas.version" `, "b", "There is a feature `barnabas.version`.", "It is our own."},
	{"Metadata", `TopicID=`, `^  - .* Topic="|^    `, "b", "A topic asked for by name is answered beside others asked for by id.", "Apache Kafka forgets the names."},
	{"Frames", "", `^< connection closed without an answer`, "a", "What is missing where nothing may be missing is read as empty.", "Apache Kafka hangs up; nothing is misunderstood."},
	{"Frames", `AllowAutoTopicCreation=|Metadata v[0-3]`, "", "", "A damaged Metadata request is answered as a whole one.", "See there."},
	{"Frames", `^> IncrementalAlterConfigs .*byte at|^> IncrementalAlterConfigs [\s\S]* Op=(UNKNOWN|4|-1|127) `, `^  - ErrorCode=(-1|40|42|3|17):`, "", "A damaged request with an operation that does not exist is refused as a whole one.", "See IncrementalAlterConfigs."},
	{"DescribeTopicPartitions", `Cursor: .* Partition=2147483647`, "", "", "A cursor at the largest partition number leads on to the next topic.", "A sum of Apache Kafka's overflows."},
	{"Frames", `^> DescribeTopicPartitions`, `^< connection closed without an answer|^< ThrottleMillis`, "", "A mark of a cursor that is neither there nor not there is refused.", "It says nothing; Apache Kafka takes what is below nought for nothing."},
	{"Metadata", `  - Topic=null`, "", "", "A topic without name and id is INVALID_REQUEST for the whole request.", "Apache Kafka answers UNKNOWN_SERVER_ERROR, or forgets it."},
	{"DescribeConfigs", "", ` Name="streams.assignor.name" | Name="group.streams.assignors" |ConfigSynonyms:`, "", "`streams.assignor.name` has no value.", later},
	{"DescribeConfigs", "", ` Name="broker.id" `, "", "`broker.id` is not `node.id`.", "It is not set; Apache Kafka shows the value of the other."},
	{"DescribeTopicPartitions", `Topic=""`, "", "", "A topic without a name is refused for itself.", "Apache Kafka answers UNKNOWN_SERVER_ERROR for every topic of the request."},
	{"CreateTopics", `Topic="a\.b"[\s\S]*Topic="a_b"|Topic="a_b"[\s\S]*Topic="a\.b"`, `Topic="a[._]b"|^    `, "", "Of two names in one request that collide (`a.b` and `a_b`) only the first is created.", "Apache Kafka compares with what is there, and creates both."},
	{"DescribeProducers", "", "", "a", "A partition that a request names twice is answered once.", "Nothing is learned from the second answer."},
	{"ListOffsets", `IsolationLevel=9 `, `ErrorCode=(-1:UNKNOWN_SERVER_ERROR|42:INVALID_REQUEST|35:UNSUPPORTED_VERSION|3:UNKNOWN_TOPIC_OR_PARTITION) `, "", "An isolation level that does not exist is INVALID_REQUEST.", "Apache Kafka answers UNKNOWN_SERVER_ERROR."},
	{"UpdateFeatures", `Feature="(transaction|share|streams|eligible.leader.replicas|kraft).version"`, "", "", "Features of later releases cannot be changed.", later},
	{"IncrementalAlterConfigs", ` Op=(UNKNOWN|4|-1|127) `, "", "", "An operation that does not exist is INVALID_REQUEST for its resource alone.", "Apache Kafka answers UNKNOWN_SERVER_ERROR for every resource of the request."},
}

func (d acceptedDifference) covers(api, question string, l line) bool {
	if d.api != "" && d.api != api || d.side != "" && d.side != l.side {
		return false
	}
	return regexp.MustCompile(d.ask).MatchString(question) && regexp.MustCompile(d.line).MatchString(l.text)
}

// differencesPage is docs/admin-differences.md.
func differencesPage() string {
	var b strings.Builder
	b.WriteString(pageHead)
	api := "none yet"
	for _, d := range accepted {
		if d.api != api {
			api = d.api
			title := api
			if title == "" {
				title = "Several requests"
			}
			fmt.Fprintf(&b, "\n## %s\n\n| answers | why |\n|---|---|\n", title)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", d.what, sentence(d.reason))
	}
	return b.String()
}

func sentence(text string) string {
	return strings.ToUpper(text[:1]) + strings.TrimRight(text[1:], ".") + "."
}

const pageHead = `# Administrative requests: differences from Apache Kafka 4.4.0

Generated from the list that the test of random administrative requests accepts (interop/compare); every other difference fails that test.
Topic ids, times, host names, ports, paths, disk sizes and the wording of error messages and documentation are not compared.
`

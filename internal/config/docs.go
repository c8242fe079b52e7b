package config

import (
	"fmt"
	"io"
	"strings"
)

const docsHead = `# Configuration

<!-- Written by "barnabas config docs"; a test keeps it in step with the table in internal/config. -->

Names and value formats are Apache Kafka's: a ` + "`server.properties`" + ` of Apache Kafka works. Keys of our own begin with ` + "`barnabas.`" + `.
The order is: defaults, the file given by ` + "`--config`" + `, the environment (` + "`BARNABAS_LOG_RETENTION_HOURS=24`" + ` sets
` + "`log.retention.hours`" + `), ` + "`--set key=value`" + `; the later wins. An unknown key is a warning. A known key with a value that it
does not take stops the start with a sentence that names the key, the value and what is allowed.

*Change* tells how a value can be changed: with a restart (read-only), for one broker while it runs (per-broker), or also for all
(cluster-wide). *No effect yet* marks keys that are checked and kept and do nothing so far; setting one to another value than its
default is a warning. *No meaning here* marks keys that only a JVM or Apache Kafka's own internals have a use for.
`

// WriteDocs writes every key with its type, default and meaning, in Markdown.
func WriteDocs(w io.Writer) error {
	var sb strings.Builder
	sb.WriteString(docsHead)
	for _, t := range tables {
		fmt.Fprintf(&sb, "\n## %s\n\n| key | type | default | change | meaning |\n|---|---|---|---|---|\n", t.Title)
		for i := range t.Keys {
			if k := &t.Keys[i]; !k.Hidden {
				fmt.Fprintf(&sb, "| `%s` | %s | %s | %s | %s |\n", k.Name, k.typeText(), k.defaultText(), k.Mode, k.docText())
			}
		}
	}
	_, err := io.WriteString(w, sb.String())
	return err
}

func (k *Key) typeText() string {
	s := k.Type.String()
	if k.Check.Allowed != "" {
		s += ", " + k.Check.Allowed
	}
	return cell(s)
}

func (k *Key) defaultText() string {
	var s string
	switch {
	case len(k.Synonyms) > 0 && k.Scope != BrokerScope:
		s = "the broker's `" + k.Synonyms[0] + "`"
	case k.Default == nil:
		s = "unset"
	case *k.Default == "":
		s = "empty"
	default:
		s = "`" + *k.Default + "`"
	}
	if k.Kafka != "" {
		s += " (Apache Kafka: `" + k.Kafka + "`)"
	}
	return cell(s)
}

func (k *Key) docText() string {
	switch k.State {
	case Planned:
		return cell("*No effect yet.* " + k.Doc)
	case Never:
		return cell("*No meaning here.* " + k.Doc)
	}
	return cell(k.Doc)
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

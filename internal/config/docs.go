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

Settings that are changed while brokers run are kept in the cluster's metadata: they hold at once, and after a restart. The order is
Apache Kafka's: a topic's or a group's own value, then that of the one broker, that of all brokers, the broker's file (with the
environment and ` + "`--set`" + `), the default. ` + "`kafka-configs.sh --alter --entity-type brokers`" + ` with ` + "`--entity-name 1`" + ` sets one for broker 1, which
is to be asked itself; with ` + "`--entity-default`" + ` for all. What a broker's own keys refuse is INVALID_REQUEST, as there; a key that nobody
knows is kept, shown without its value, and does nothing. Keys of listeners (` + "`listeners`" + `, ` + "`listener.name.*`" + `) take a restart.
` + "`min.insync.replicas`" + ` is set for all brokers or for a topic, not for one broker. A stored setting that no longer fits the broker's
file or version is ignored with a warning. Levels of the log (` + "`--entity-type broker-loggers`" + `: ` + "`root`" + ` and ` + "`barnabas.<part>`" + `, the part that
stands in each line) are not kept: they last until the settings are read again (SIGHUP), or the broker stops. ` + "`barnabas config get`" + `, ` + "`set`" + `
and ` + "`unset`" + ` do all of this too.

*Change* tells how a value can be changed: with a restart (read-only), for one broker while it runs (per-broker), or also for all
(cluster-wide). *Effect* tells what a value does:

- *effective*: what its meaning says;
- *kept, no effect yet*: it is checked and kept for a feature that comes with a later version. Another value than the default is a
  warning at the start;
- *ignored*: there is nothing here that it could change, for the reason given. Another value than the default is a warning at the
  start, so that a file of Apache Kafka works; setting one while the broker runs is refused (INVALID_CONFIG);
- *refused*: somebody would rely on what does not happen. Another value than the default stops the start with a sentence that names
  key, value and reason; setting one while the broker runs is refused (INVALID_CONFIG).
`

// WriteDocs writes every key with its type, default, meaning and effect, in Markdown.
func WriteDocs(w io.Writer) error {
	var sb strings.Builder
	sb.WriteString(docsHead)
	for _, t := range tables {
		fmt.Fprintf(&sb, "\n## %s\n\n| key | allowed | default | change | effect | meaning |\n|---|---|---|---|---|---|\n", t.Title)
		for i := range t.Keys {
			if k := &t.Keys[i]; !k.Hidden {
				fmt.Fprintf(&sb, "| `%s` | %s | %s | %s | %s | %s |\n", k.Name, k.typeText(), k.defaultText(), k.Mode, k.effectText(), cell(k.Doc))
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

func (k *Key) effectText() string {
	if k.Reason == "" {
		return k.State.String()
	}
	return cell("*" + k.State.String() + "*: " + k.Reason)
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

package config

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTable checks every row by itself.
func TestTable(t *testing.T) {
	for _, table := range tables {
		seen := map[string]bool{}
		for i := range table.Keys {
			k := &table.Keys[i]
			if seen[k.Name] {
				t.Errorf("%s stands twice under %q", k.Name, table.Title)
			}
			seen[k.Name] = true
			if k.Default != nil {
				if v, err := k.parse(*k.Default); err != nil {
					t.Errorf("the default does not fit: %v", err)
				} else if format(v) != *k.Default {
					t.Errorf("%s: the default is written %q, and %q when it is described", k.Name, *k.Default, format(v))
				}
			}
			if !strings.HasSuffix(k.Doc, ".") || strings.Contains(k.Doc, "\n") {
				t.Errorf("%s: the meaning must be one line of whole sentences: %q", k.Name, k.Doc)
			}
			if reasoned := k.State == Never || k.State == Refused; reasoned != (k.Reason != "") {
				t.Errorf("%s is %s, for the reason %q", k.Name, k.State, k.Reason)
			}
			if k.Reason != "" && (strings.HasSuffix(k.Reason, ".") || strings.Contains(k.Reason, "\n")) {
				t.Errorf("%s: the reason must be the end of a sentence, without its full stop: %q", k.Name, k.Reason)
			}
			for _, s := range k.Synonyms {
				from, ok := Lookup(BrokerScope, s)
				if !ok {
					t.Errorf("%s: synonym %s is no key of a broker", k.Name, s)
				} else if (from.Type == Int || from.Type == Long) != (k.Type == Int || k.Type == Long) {
					t.Errorf("%s is a %s, its synonym %s a %s", k.Name, k.Type, s, from.Type)
				}
			}
		}
	}
}

var kafkaRange = regexp.MustCompile(`^\[(-?[0-9.]+),\.\.\.(?:,(-?[0-9.]+))?\]$`)

// TestAgainstKafka holds the table against what Apache Kafka says of itself.
func TestAgainstKafka(t *testing.T) {
	f, err := os.Open("testdata/kafka-4.4.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	scopes := map[string]Scope{"broker": BrokerScope, "topic": TopicScope, "group": GroupScope, "client-metrics": ClientMetricsScope}
	theirs := [4]map[string]bool{{}, {}, {}, {}}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		p := strings.Split(sc.Text(), "|")
		name, kind, def, limits, mode := p[1], p[2], p[3], p[4], p[5]
		theirs[scopes[p[0]]][name] = true
		k, ok := Lookup(scopes[p[0]], name)
		if !ok {
			t.Errorf("%s is missing in the scope %s", name, p[0])
			continue
		}
		if k.Type.String() != kind {
			t.Errorf("%s is a %s, in Apache Kafka a %s", name, k.Type, kind)
		}
		if k.Mode.String() != mode {
			t.Errorf("%s is %s, in Apache Kafka %s", name, k.Mode, mode)
		}
		compareDefault(t, k, def)
		if m := kafkaRange.FindStringSubmatch(limits); m != nil {
			compareLimit(t, k, m[1], -1)
			compareLimit(t, k, m[2], +1)
		}
	}
	for _, k := range Keys(TopicScope) {
		if !theirs[TopicScope][k.Name] && !strings.HasPrefix(k.Name, "barnabas.") {
			t.Errorf("%s is not a topic's key in Apache Kafka and must begin with barnabas.", k.Name)
		}
	}
	if n := len(theirs[BrokerScope]); n < 340 {
		t.Errorf("only %d keys of a broker were compared", n)
	}
}

func compareDefault(t *testing.T, k *Key, kafka string) {
	ours := "null"
	if k.Default != nil {
		ours = *k.Default
	}
	switch {
	case k.Kafka != "": // different on purpose; "required" is Kafka's word for none
		if k.Kafka != kafka && !(k.Kafka == "required" && kafka == "(required)") {
			t.Errorf("%s: the table says that Apache Kafka's default is %q; it is %q", k.Name, k.Kafka, kafka)
		}
	case ours != kafka:
		t.Errorf("%s: default %q, in Apache Kafka %q", k.Name, ours, kafka)
	}
}

// compareLimit checks that the limit is taken and what lies beyond is not.
func compareLimit(t *testing.T, k *Key, limit string, beyond int64) {
	if limit == "" {
		return
	}
	if _, err := k.parse(limit); err != nil {
		t.Errorf("Apache Kafka takes it: %v", err)
	}
	n, err := k.parse(limit)
	if err != nil {
		return
	}
	out := format(number(n) + float64(beyond))
	if v, ok := n.(int64); ok {
		out = format(v + beyond)
	}
	if _, err := k.parse(out); err == nil {
		t.Errorf("%s: %s is taken, beyond Apache Kafka's limit of %s", k.Name, out, limit)
	}
}

// TestDocsUpToDate: WRITE_DOCS=1 writes the file.
func TestDocsUpToDate(t *testing.T) {
	var want bytes.Buffer
	if err := WriteDocs(&want); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "configuration.md")
	if os.Getenv("WRITE_DOCS") != "" {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/configuration.md is not what the table says: run `bin/barnabas config docs > docs/configuration.md`")
	}
}

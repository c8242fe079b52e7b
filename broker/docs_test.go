package broker

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/api"
)

const begin, end = "<!-- A test writes this table: go test ./broker -run Documented -rewrite -->\n", "<!-- end -->\n"

// holds fails where the table in a page is another one.
func holds(t *testing.T, page, table string) {
	t.Helper()
	name := "../docs/" + page
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	old, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("docs/%s has no table for this test", page)
	}
	switch {
	case old == table:
	case flag.Lookup("rewrite").Value.String() == "true": // of datadriven, as everywhere
		if err := os.WriteFile(name, []byte(head+begin+table+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/%s is not what the broker has: go test ./broker -run Documented -rewrite", page)
	}
}

// docs/compatibility.md lists the requests that are answered, with their versions.
func TestRequestsDocumented(t *testing.T) {
	var out strings.Builder
	out.WriteString("| key | request | versions |\n|---|---|---|\n")
	for _, r := range api.New(api.Deps{}).Table().Served() {
		fmt.Fprintf(&out, "| %d | %s | %d to %d |\n", r.Key, kmsg.NameForKey(r.Key), r.Min, r.Max)
	}
	holds(t, "compatibility.md", out.String())
}

var description = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", .*variableLabels: \{([^}]*)\}`)

// docs/metrics.md lists everything of our own on /metrics.
func TestMetricsDocumented(t *testing.T) {
	b, err := New(Options{Set: []string{"log.dirs=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		b.reg.Describe(descs)
	}()
	lines := map[string]string{}
	for d := range descs {
		m := description.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("%s is not understood", d)
		}
		if strings.HasPrefix(m[1], "barnabas_") {
			lines[m[1]] = fmt.Sprintf("| `%s` | %s | %s |\n", m[1], strings.ReplaceAll(m[3], ",", ", "), strings.ReplaceAll(m[2], "|", `\|`))
		}
	}
	if len(lines) < 10 {
		t.Fatalf("only %d metrics", len(lines))
	}
	var out strings.Builder
	out.WriteString("| metric | labels | meaning |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		out.WriteString(lines[name])
	}
	holds(t, "metrics.md", out.String())
}

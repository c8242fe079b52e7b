//go:build interop

package interop

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The golden records of internal/group are what Apache Kafka's serializer
// writes today.
func TestGroupRecords(t *testing.T) {
	golden, err := os.ReadFile("../internal/group/testdata/records.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(slices.Collect(strings.Lines(string(golden))), func(line string) bool { return line[0] == '#' })
	if got := javaRun(t, "Records"); got != strings.Join(want, "") {
		t.Errorf("serialized now:\n%s", got)
	}
}

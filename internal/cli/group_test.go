package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestLag: the age of the oldest unread record comes from the record, whatever
// it is behind: a large batch, deleted records, the mark of a transaction.
func TestLag(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "read", "late", "large", "deleted", "marked", "open"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	ctx := t.Context()
	k := newClient(t, cluster, kgo.ProducerBatchMaxBytes(1<<20))
	adm := kadm.NewClient(k)
	hour := time.Now().Add(-time.Hour)
	for topic, times := range map[string][]time.Time{
		"read": {hour}, "late": {hour.Add(-time.Hour), hour}, "deleted": {hour.Add(-time.Hour), hour, hour.Add(time.Minute)}, "open": {hour},
	} {
		for _, at := range times {
			send(t, k, &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: at})
		}
	}
	send(t, k, &kgo.Record{Topic: "large", Value: bytes.Repeat([]byte("v"), 500<<10), Timestamp: hour})
	if _, err := adm.DeleteRecords(ctx, kadm.Offsets{"deleted": {0: {Topic: "deleted", At: 1}}}); err != nil {
		t.Fatal(err)
	}
	x := newClient(t, cluster, kgo.TransactionalID("x"))
	if err := x.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	send(t, x, &kgo.Record{Topic: "marked", Value: []byte("v"), Timestamp: hour})
	if err := x.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	var offsets kadm.Offsets
	for topic, at := range map[string]int64{"read": 1, "late": 1, "large": 0, "deleted": 0, "marked": 1} {
		offsets.Add(kadm.Offset{Topic: topic, At: at, LeaderEpoch: -1})
	}
	if err := adm.CommitAllOffsets(ctx, "g", offsets); err != nil {
		t.Fatal(err)
	}
	var got []describedGroup
	if err := json.Unmarshal(command(t, cluster, "group", "describe", "g", "--offsets", "-o", "json"), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]struct{ lag, least, most float64 }{
		"read": {0, 0, 0}, "late": {1, 3600, 3700}, "large": {1, 3600, 3700}, "deleted": {3, 3600, 3700}, "marked": {1, 0, 0},
	}
	if len(got) != 1 || len(got[0].Offsets) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for _, o := range got[0].Offsets {
		w := want[o.Topic]
		if o.Lag == nil || float64(*o.Lag) != w.lag || o.LagSeconds == nil || *o.LagSeconds < w.least || *o.LagSeconds > w.most {
			text, _ := json.Marshal(o)
			t.Errorf("%s, want %+v", text, w)
		}
	}
}

func newClient(t *testing.T, cluster *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	k, err := kgo.NewClient(append(opts, kgo.SeedBrokers(cluster.ListenAddrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func send(t *testing.T, k *kgo.Client, r *kgo.Record) {
	t.Helper()
	if err := k.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// command runs a command line, and returns what it printed.
func command(t *testing.T, cluster *kfake.Cluster, args ...string) []byte {
	t.Helper()
	var out, complaints bytes.Buffer
	app := App{In: strings.NewReader(""), Out: &out, Err: &complaints, Environ: []string{"BARNABAS_BOOTSTRAP=" + strings.Join(cluster.ListenAddrs(), ",")}}
	if code := app.Run(t.Context(), args); code != exitDone {
		t.Fatalf("%q: exit code %d: %s", args, code, &complaints)
	}
	return out.Bytes()
}

// failing is an output that takes only so many bytes.
type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// TestCommitsOnlyWhatWasPrinted: an output that fails stops the command, and
// what it did not take is not committed.
func TestCommitsOnlyWhatWasPrinted(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	k := newClient(t, cluster)
	send(t, k, &kgo.Record{Topic: "t", Value: []byte("one")})
	command(t, cluster, "consume", "t", "-g", "g", "-e")
	send(t, k, &kgo.Record{Topic: "t", Value: []byte("two")})
	var complaints bytes.Buffer
	app := App{In: strings.NewReader(""), Out: &failing{1}, Err: &complaints, Environ: []string{"BARNABAS_BOOTSTRAP=" + strings.Join(cluster.ListenAddrs(), ",")}}
	if code := app.Run(context.Background(), []string{"consume", "t", "-g", "g", "-e"}); code != exitFailed {
		t.Errorf("exit code %d (%s)", code, &complaints)
	}
	if got := string(command(t, cluster, "consume", "t", "-g", "g", "-e")); got != "two\n" {
		t.Errorf("then it printed %q", got)
	}
}

func TestParseScope(t *testing.T) {
	got, err := parseScope([]string{"b:2,0", "a", "b:1,2", "c:3", "c", "c:4"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.names(), []string{"a", "b", "c"}) || got["a"] != nil || !slices.Equal(got["b"], []int32{0, 1, 2}) || got["c"] != nil {
		t.Errorf("got %v", got)
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"PT0S": 0, "PT90S": 90 * time.Second, "PT1H30M": 90 * time.Minute, "P7D": 7 * 24 * time.Hour, "p1dt2h3m4.5s": 26*time.Hour + 3*time.Minute + 4500*time.Millisecond,
		"P":        -1,
		"PT":       -1,
		"P1DT":     -1,
		"1h":       -1,
		"P1Y":      -1,
		"PT-1S":    -1,
		"P200000D": -1, "P9999999999999999999D": -1,
	} {
		got, err := parseDuration(text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}

func TestParseDatetime(t *testing.T) {
	want := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, text := range []string{"2026-01-31T12:00:00.000", "2026-01-31T12:00:00", "2026-01-31T12:00", "2026-01-31T12:00:00Z", "2026-01-31T13:00:00.000+01:00", "2026-01-31T10:30:00-0130", "2026-01-31T13:00:00+01"} {
		if got, err := parseDatetime(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "noon", "2026-02-30T12:00:00", "12:00"} {
		if got, err := parseDatetime(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

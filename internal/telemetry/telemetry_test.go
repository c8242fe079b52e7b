package telemetry

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

var someone = Client{
	ID: ID{0: 7, 15: 9}, ClientID: "app-1", SoftwareName: "apache-kafka-java", SoftwareVersion: "4.4.0",
	Address: "10.0.0.1", Port: "4711",
}

func parse(t *testing.T, set ...string) Subscription {
	t.Helper()
	m := make(map[string]string)
	for i := 0; i < len(set); i += 2 {
		m[set[i]] = set[i+1]
	}
	s, err := Parse("s", m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMatches(t *testing.T) {
	for match, want := range map[string]bool{
		"":                                          true,
		"client_id=app-.*":                          true,
		"client_id=app":                             false, // a whole attribute
		"client_id=app-1|x":                         true,
		"client_id=x|app-1":                         true,
		" client_id = app-1 ":                       true,
		"client_id=x,client_id=app-1":               true, // the last counts
		"client_id=app-1,client_id=x":               false,
		"client_software_name=apache.*":             true,
		"client_software_version=4\\..*":            true,
		"client_source_address=10\\.0.*":            true,
		"client_source_port=4711":                   true,
		"client_source_port=47":                     false,
		"client_id=.*,client_source_port=":          false,
		"client_instance_id=" + someone.ID.String(): true,
	} {
		s, err := Parse("s", map[string]string{"match": match})
		if got := err == nil && s.Matches(&someone); got != want {
			t.Errorf("%q matches: %t (%v)", match, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, set := range []map[string]string{
		{"interval.ms": "99"}, {"interval.ms": "3600001"}, {"interval.ms": "soon"}, {"interval.ms": "99999999999"},
		{"match": "client_id"}, {"match": "client_id="}, {"match": "client_id=a=b"}, {"match": "colour=red"}, {"match": "client_id=("},
		{"match": "client_id=" + strings.Repeat("(", 100_000)}, {"match": "client_id=((((a{100}){100}){100}){100}"},
	} {
		if _, err := Parse("s", set); err == nil {
			t.Errorf("%.60v is taken", set)
		}
	}
}

// What several subscriptions ask for is joined, and its number says of what it is.
func TestAsked(t *testing.T) {
	a := parse(t, "metrics", "b.,a.", "interval.ms", "5000")
	b := parse(t, "metrics", "a.,c.", "interval.ms", "700")
	other := parse(t, "metrics", "x.", "interval.ms", "100", "match", "client_id=other")
	slow := parse(t, "metrics", "d.", "interval.ms", "3600000")
	all := parse(t, "metrics", "*")
	got := ask([]Subscription{a, b, other, slow}, &someone)
	if !slices.Equal(got.Metrics, []string{"a.", "b.", "c.", "d."}) || got.IntervalMs != 700 {
		t.Errorf("asked %+v", got)
	}
	if again := ask([]Subscription{slow, other, b, a}, &someone); again.ID != got.ID {
		t.Error("the order of subscriptions changes the number")
	}
	if every := ask([]Subscription{a, all}, &someone); !slices.Equal(every.Metrics, []string{"*"}) || every.ID == got.ID {
		t.Errorf("with all of them %+v", every)
	}
	if none := ask(nil, &someone); len(none.Metrics) != 0 || none.IntervalMs != defaultIntervalMs {
		t.Errorf("without subscriptions %+v", none)
	}
	if alone := ask([]Subscription{slow}, &someone); alone.IntervalMs != defaultIntervalMs {
		t.Errorf("a long interval became %d", alone.IntervalMs)
	}
	if subscriptionID(nil, 1, ID{15: 1}) == subscriptionID(nil, 1, ID{15: 2}) {
		t.Error("the number does not tell clients apart")
	}
}

func TestAdmission(t *testing.T) {
	d := NewDesk()
	d.Subscribe([]Subscription{parse(t, "metrics", "*", "interval.ms", "1000")})
	now := int64(1_000_000)
	get := func(what string, want error) Asked {
		t.Helper()
		a, _, err := d.Get(now, 1, someone)
		if err != want && !(want == nil && err == nil) {
			t.Fatalf("%s: %v, want %v", what, err, want)
		}
		return a
	}
	push := func(what string, p Push, want error) {
		t.Helper()
		if _, _, err := d.Push(now, 1, someone, p, 100); err != want {
			t.Fatalf("%s: %v, want %v", what, err, want)
		}
	}
	a := get("first", nil)
	get("again at once", kerr.ThrottlingQuotaExceeded)
	ok := Push{SubscriptionID: a.ID, Compression: 4, Bytes: 100}
	push("after asking", ok, nil)
	push("again at once", ok, kerr.ThrottlingQuotaExceeded)
	now += 999
	push("a moment too early", ok, kerr.ThrottlingQuotaExceeded)
	now++
	push("in time", ok, nil)
	now += 1000
	push("another subscription", Push{SubscriptionID: a.ID + 1}, kerr.UnknownSubscriptionID)
	get("to learn the right one", nil)
	push("which it is told to wait with", ok, kerr.ThrottlingQuotaExceeded)
	now += 1000
	push("codec 5", Push{SubscriptionID: a.ID, Compression: 5}, kerr.UnsupportedCompressionType)
	get("to learn the codecs", nil)
	now += 1000
	push("codec -1", Push{SubscriptionID: a.ID, Compression: -1}, kerr.UnsupportedCompressionType)
	now += 1000
	push("too large", Push{SubscriptionID: a.ID, Bytes: 101}, kerr.TelemetryTooLarge)
	get("after what it may mend otherwise", kerr.ThrottlingQuotaExceeded)
	last := ok
	last.Terminating = true
	push("the last, early", last, nil)
	push("after the last", ok, kerr.InvalidRequest)
	for _, id := range []ID{none, reserved} {
		if _, _, err := d.Push(now, 1, Client{ID: id}, ok, 100); err != kerr.InvalidRequest {
			t.Errorf("id %v: %v", id, err)
		}
	}
}

// New subscriptions are learnt by the answer to the next push, and at once.
func TestSubscribe(t *testing.T) {
	d := NewDesk()
	a, isNew, err := d.Get(1_000_000, 1, someone)
	if err != nil || !isNew || len(a.Metrics) != 0 {
		t.Fatalf("%+v, new %t, %v", a, isNew, err)
	}
	d.Subscribe([]Subscription{parse(t, "metrics", "a.")})
	if _, _, err := d.Push(1_000_001, 1, someone, Push{SubscriptionID: a.ID}, 1); err != kerr.UnknownSubscriptionID {
		t.Errorf("push by the old subscriptions: %v", err)
	}
	b, _, err := d.Get(1_000_002, 1, someone)
	if err != nil || b.ID == a.ID || !slices.Equal(b.Metrics, []string{"a."}) {
		t.Errorf("asked %+v, %v", b, err)
	}
}

func TestForgetting(t *testing.T) {
	d := NewDesk()
	now := int64(1_000_000)
	ask := func(id byte, conn uint64) (isNew bool) {
		t.Helper()
		_, isNew, _ = d.Get(now, conn, Client{ID: ID{14: 1, 15: id}})
		return isNew
	}
	if !ask(1, 1) || ask(1, 2) {
		t.Fatal("a client is not known again")
	}
	if d.HungUp(2); ask(1, 2) {
		t.Error("forgotten with a connection that was not its first")
	}
	if d.HungUp(1); !ask(1, 3) || d.Instances() != 1 {
		t.Error("not forgotten with its connection")
	}
	now += keepPushes*defaultIntervalMs - 1
	ask(2, 4)
	if now++; !ask(1, 3) {
		t.Error("not forgotten though it was silent")
	}
	now += 2 * keepPushes * defaultIntervalMs
	if ask(3, 5); d.Instances() != 1 || len(d.byConn) != 1 {
		t.Errorf("%d clients and %d connections are left", d.Instances(), len(d.byConn))
	}
	for i := range 3 * maxInstances {
		_, _, _ = d.Get(now, 9, Client{ID: ID{0: byte(i >> 16), 1: byte(i >> 8), 2: byte(i), 3: 1}})
	}
	if d.Instances() != maxInstances || len(d.byID) != maxInstances || len(d.byConn) > maxInstances {
		t.Errorf("%d clients are remembered", d.Instances())
	}
}

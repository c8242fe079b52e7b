package group

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
)

// rig is a machine with what its runtime would hold: a clock, timers, the log,
// and those who wait for replies. After each command of a script, a machine
// fed the log alone must have the same hard state.
type rig struct {
	t      *testing.T
	w      *metatest.World
	cfg    Config
	m      *Machine
	now    time.Time
	timers map[coord.TimerKey]time.Time
	log    []coord.Record
	metas  []coord.Meta
	who    map[coord.Token]string // who waits
	tokens coord.Token
	ids    int
	quiet  bool // records are not printed
	most   int  // bytes of records that one call brought
}

func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, w: metatest.New(), now: time.UnixMilli(1_000_000_000), timers: map[coord.TimerKey]time.Time{},
		who: map[coord.Token]string{}, cfg: testConfig(), quiet: true,
	}
	r.w.Register(1, "")
	r.m = New(r.cfg, r.w.Img)
	return r
}

// testConfig are Apache Kafka's defaults, without the initial delay.
func testConfig() Config {
	return Config{
		MinSession: 6 * time.Second, MaxSession: 30 * time.Minute, MaxSize: 1 << 30,
		OffsetMetadataMax: 4096, OffsetsRetention: 7 * 24 * time.Hour, OffsetsRetentionCheck: 10 * time.Minute,
		MaxRecordBytes: 1 << 20, ConsumerEnabled: true, ConsumerMaxSize: 1 << 30, ConsumerAssignors: []string{"uniform", "range"},
		ConsumerMigration: Migration{Upgrade: true, Downgrade: true}, RegexRefresh: 10 * time.Minute,
		ConsumerDefaults: Settings{Session: 45 * time.Second, Heartbeat: 5 * time.Second},
		ConsumerMin:      Settings{Session: 45 * time.Second, Heartbeat: 5 * time.Second},
		ConsumerMax:      Settings{Session: 60 * time.Second, Heartbeat: 15 * time.Second, AssignmentInterval: 15 * time.Second},
	}
}

// verbs of the scripts; those of classic groups, consumer groups and offsets
// add theirs in files of their own.
var verbs = map[string]func(*rig, metatest.Words) string{
	"set":          (*rig).set,
	"records":      func(r *rig, a metatest.Words) string { r.quiet = a.D.HasArg("off"); return "" },
	"topic":        (*rig).topic,
	"partitions":   (*rig).partitions,
	"delete-topic": (*rig).deleteTopic,
	"advance":      (*rig).advance,
	"timers":       (*rig).showTimers,
	"reload":       (*rig).reload,
	"state":        func(r *rig, _ metatest.Words) string { return dump(r.m) },
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		r := newRig(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			r.t = t
			verb := verbs[d.Cmd]
			if verb == nil {
				d.Fatalf(t, "unknown verb %q", d.Cmd)
			}
			out := verb(r, metatest.Words{D: d})
			r.check(d.Pos)
			return out
		})
	})
}

// check holds the live machine against one that is fed the log alone.
func (r *rig) check(pos string) {
	r.t.Helper()
	live, fed := dump(r.m), dump(r.fed())
	if live != fed {
		r.t.Fatalf("%s: hard state of the machine:\n%s\nand of one made of its records:\n%s", pos, live, fed)
	}
}

func (r *rig) fed() *Machine {
	m := New(r.cfg, r.w.Img)
	for i, rec := range r.log {
		if rec.Key == nil { // a marker
			m.ApplyMarker(r.metas[i].Producer, r.metas[i].Transactional)
			continue
		}
		rec.Body = nil
		if err := m.Apply(rec, r.metas[i]); err != nil {
			r.t.Fatal(err)
		}
	}
	return m
}

// reload replaces the machine by one that is fed the log, as a new coordinator would be.
func (r *rig) reload(metatest.Words) string {
	r.m = r.fed()
	clear(r.timers)
	clear(r.who)
	return r.took("", r.m.Loaded(r.now))
}

// do hands a command to the machine for somebody, and says what came out.
func (r *rig) do(who string, cmd coord.Command) string {
	r.tokens++
	r.who[r.tokens] = who
	return r.took(who, r.m.Step(r.now, r.tokens, cmd))
}

// tell is do for nobody.
func (r *rig) tell(cmd coord.Command) string { return r.took("", r.m.Step(r.now, 0, cmd)) }

// newID is the id that the next member without one gets.
func (r *rig) newID() string { r.ids++; return "m" + strconv.Itoa(r.ids) }

// took carries out what a call of the machine asked for.
func (r *rig) took(who string, out coord.Out) string {
	var b strings.Builder
	bytes := 0
	for _, rec := range out.Records {
		bytes += len(rec.Key) + len(rec.Value)
		r.log = append(r.log, coord.Record{Key: rec.Key, Value: rec.Value})
		meta := coord.Meta{Offset: int64(len(r.log)), Producer: coord.NoProducer}
		if out.Txn != nil {
			meta.Producer, meta.Transactional = *out.Txn, true
		}
		r.metas = append(r.metas, meta)
		if !r.quiet {
			fmt.Fprintf(&b, "+ %s\n", brief(rec.Body))
		}
	}
	r.most = max(r.most, bytes)
	for _, t := range out.Timers {
		if t.At.IsZero() {
			delete(r.timers, t.Key)
		} else {
			r.timers[t.Key] = t.At
		}
	}
	for _, p := range out.Replies {
		name, waits := r.who[p.To]
		if !waits {
			r.t.Fatalf("answered twice, or nobody: %s", brief(p.Body))
		}
		delete(r.who, p.To)
		fmt.Fprintf(&b, "%s: %s\n", name, brief(p.Body))
	}
	for _, e := range out.Effects {
		fmt.Fprintf(&b, "effect: %s\n", brief(e))
	}
	if who != "" && b.Len() == 0 {
		return "(waits)\n"
	}
	return b.String()
}

// set changes the machine's configuration by field: set MaxSize=2 InitialRebalanceDelay=3s.
func (r *rig) set(a metatest.Words) string {
	v := reflect.ValueOf(&r.cfg).Elem()
	for _, arg := range a.D.CmdArgs {
		f := v
		for _, name := range strings.Split(arg.Key, ".") {
			f = f.FieldByName(name)
		}
		switch s := strings.Join(arg.Vals, ","); f.Interface().(type) {
		case time.Duration:
			d, err := time.ParseDuration(s)
			if err != nil {
				r.t.Fatal(err)
			}
			f.SetInt(int64(d))
		case int:
			n, err := strconv.Atoi(s)
			if err != nil {
				r.t.Fatal(err)
			}
			f.SetInt(int64(n))
		case bool:
			f.SetBool(s == "true")
		case []string:
			f.Set(reflect.ValueOf(strings.Split(s, ",")))
		}
	}
	r.m.cfg = r.cfg
	return ""
}

func (r *rig) topic(a metatest.Words) string {
	if err := r.w.CreateTopic(a.Str("name", ""), int32(a.Int("parts", 1))); err != nil {
		return err.Error()
	}
	return r.image()
}

func (r *rig) partitions(a metatest.Words) string {
	if err := r.w.AddPartitions(a.Str("topic", ""), int32(a.Int("count", 0))); err != nil {
		return err.Error()
	}
	return r.image()
}

func (r *rig) deleteTopic(a metatest.Words) string {
	if err := r.w.DeleteTopic(a.Str("name", "")); err != nil {
		return err.Error()
	}
	return r.image()
}

func (r *rig) image() string { return r.tell(&NewImage{Image: r.w.Img, Delta: &r.w.Delta}) }

// advance lets time go by: advance 5s. Timers fire when they are due, in order.
func (r *rig) advance(a metatest.Words) string {
	d, err := time.ParseDuration(a.D.CmdArgs[0].Key)
	if err != nil {
		r.t.Fatal(err)
	}
	end := r.now.Add(d)
	var b strings.Builder
	start := r.now
	for n := 0; ; n++ {
		key, at, ok := r.next()
		if !ok || at.After(end) {
			break
		}
		if n == 100_000 {
			r.t.Fatalf("timers without an end: %s of %.20q %.20q goes off after %v", timerNames[key.Kind], key.ID, key.Sub, r.now.Sub(start))
		}
		if at.After(r.now) {
			r.now = at
		}
		delete(r.timers, key)
		if s := r.took("", r.m.Fire(r.now, key)); s != "" {
			fmt.Fprintf(&b, "after %v:\n%s", r.now.Sub(start), s)
		}
	}
	r.now = end
	return b.String()
}

func (r *rig) next() (key coord.TimerKey, at time.Time, ok bool) {
	for _, k := range r.sortedTimers() {
		return k, r.timers[k], true
	}
	return key, at, false
}

func (r *rig) sortedTimers() []coord.TimerKey {
	return slices.SortedFunc(maps.Keys(r.timers), func(a, b coord.TimerKey) int {
		return cmp.Or(r.timers[a].Compare(r.timers[b]), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Sub, b.Sub))
	})
}

var timerNames = []string{"", "session", "rebalance", "sync", "pending", "revocation", "join-member", "sync-member", "regex", "offsets", "topics"}

func (r *rig) showTimers(metatest.Words) string {
	var b strings.Builder
	for _, k := range r.sortedTimers() {
		fmt.Fprintf(&b, "%s %s %s in %v\n", timerNames[k.Kind], k.ID, k.Sub, r.timers[k].Sub(r.now))
	}
	return b.String()
}

// dumper prints hard state: what the records alone determine.
type dumper interface{ dump() string }

func dump(m *Machine) string {
	var b strings.Builder
	unsaid := 0
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[id]
		fmt.Fprintf(&b, "group %s\n", id)
		if d, ok := g.members.(dumper); ok {
			b.WriteString(d.dump())
		}
		b.WriteString(dumpOffsets(m, g))
		if c, ok := g.members.(*classic); ok {
			unsaid += c.unsaid
			for id := range c.pending {
				unsaid += weight(id, nil)
			}
		}
	}
	if unsaid != m.unsaid {
		panic(fmt.Sprintf("the shard's groups weigh %d, and it counts %d", unsaid, m.unsaid))
	}
	return b.String()
}

// brief prints a value on one line: fields that are not zero, error codes by
// name, bytes as text, ids as their first byte.
func brief(v any) string {
	var b strings.Builder
	printValue(&b, reflect.ValueOf(v), "")
	return b.String()
}

func printValue(b *strings.Builder, v reflect.Value, field string) {
	switch v.Kind() {
	case reflect.Invalid:
		b.WriteString("nil")
		return
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		printValue(b, v.Elem(), field)
		return
	case reflect.Struct:
		printStruct(b, v)
		return
	case reflect.Array:
		if v.Len() == len(kafka.UUID{}) {
			fmt.Fprintf(b, "#%d", v.Index(0).Uint())
			return
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			fmt.Fprintf(b, "%q", v.Bytes())
			return
		}
		b.WriteString("[")
		for i := range v.Len() {
			if i > 0 {
				b.WriteString(" ")
			}
			printValue(b, v.Index(i), field)
		}
		b.WriteString("]")
		return
	case reflect.String:
		if s := v.String(); s == "" || strings.ContainsAny(s, " \n[]{}:") {
			fmt.Fprintf(b, "%q", s)
			return
		}
	case reflect.Int16:
		if strings.HasPrefix(field, "Error") || strings.HasPrefix(field, "Code") || field == "" {
			if err := kerr.ErrorForCode(int16(v.Int())); err != nil {
				b.WriteString(err.(*kerr.Error).Message)
			} else {
				b.WriteString("ok")
			}
			return
		}
	}
	fmt.Fprintf(b, "%v", v)
}

func printStruct(b *strings.Builder, v reflect.Value) {
	t := v.Type()
	b.WriteString(t.Name() + "{")
	first := true
	for i := range t.NumField() {
		name, f := t.Field(i).Name, v.Field(i)
		if name == "Version" || name == "UnknownTags" || name == "ThrottleMillis" || f.IsZero() {
			continue
		}
		if !first {
			b.WriteString(" ")
		}
		first = false
		b.WriteString(name + ":")
		printValue(b, f, name)
	}
	b.WriteString("}")
}

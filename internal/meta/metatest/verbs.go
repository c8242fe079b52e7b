package metatest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// Verb carries out one command of a script and says what happened.
type Verb func(t *testing.T, w *World, d *datadriven.TestData) string

// Run runs every script of a directory, each in a world of its own. more adds
// verbs to those that are here.
func Run(t *testing.T, dir string, more map[string]Verb) {
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		w := New()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			verb := verbs[d.Cmd]
			if verb == nil {
				verb = more[d.Cmd]
			}
			if verb == nil {
				d.Fatalf(t, "unknown verb %q", d.Cmd)
			}
			if !d.HasArg("trace") {
				return verb(t, w, d)
			}
			var b strings.Builder
			w.Trace = func(t kv.Txn, r kv.TxnResult) {
				fmt.Fprintf(&b, "%s-- %v at %d\n", Txn(t), r.Succeeded, r.Rev)
			}
			out := verb(t, w, d)
			w.Trace = nil
			return b.String() + out
		})
	})
}

var verbs = map[string]Verb{
	"bootstrap": func(_ *testing.T, w *World, _ *datadriven.TestData) string {
		return w.done(w.Do(plan.Bootstrap(ClusterID, 1000)))
	},
	"broker":   register,
	"die":      die,
	"leaving":  leaving,
	"offline":  offline,
	"create":   create,
	"add":      add,
	"delete":   deleteTopic,
	"config":   configure,
	"isr":      changeISR,
	"assign":   assign,
	"move":     move,
	"resign":   resign,
	"giveup":   giveUp,
	"elect":    elect,
	"reassign": reassign,
	"holding":  holding,
	"out":      out,
	"campaign": campaign,
	"ids":      takeIDs,
	"feature":  feature,
	"put":      put,
	"image":    func(_ *testing.T, w *World, _ *datadriven.TestData) string { return Describe(w.Img) },
	"delta":    func(_ *testing.T, w *World, _ *datadriven.TestData) string { return DescribeDelta(w.Delta) },
}

// Words are a command's arguments; a missing one is its default.
type Words struct{ D *datadriven.TestData }

// Str reads an argument as it stands.
func (a Words) Str(key, or string) string {
	for _, arg := range a.D.CmdArgs {
		if arg.Key == key {
			return strings.Join(arg.Vals, ",")
		}
	}
	return or
}

// Int reads a number.
func (a Words) Int(key string, or int64) int64 {
	s := a.Str(key, "")
	if s == "" {
		return or
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", a.D.Pos, err))
	}
	return n
}

// Node reads a broker's id.
func (a Words) Node(key string) kafka.NodeID { return kafka.NodeID(a.Int(key, 1)) }

// list reads words that are separated by commas.
func (a Words) list(key string) []string {
	s := a.Str(key, "")
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func nodesOf(s, sep string) []kafka.NodeID {
	var out []kafka.NodeID
	for _, word := range strings.Split(s, sep) {
		if n, err := strconv.Atoi(word); err == nil {
			out = append(out, kafka.NodeID(n))
		}
	}
	return out
}

func dirsOf(words []string) []kafka.DirID {
	var out []kafka.DirID
	for _, s := range words {
		out = append(out, Dir(s))
	}
	return out
}

func failed(err error) string {
	if code := (*kerr.Error)(nil); errors.As(err, &code) {
		return code.Message + ": " + err.Error()
	}
	return err.Error()
}

func (w *World) done(r kv.TxnResult) string {
	if !r.Succeeded {
		return "refused by the store"
	}
	return fmt.Sprintf("done at %d", r.Rev)
}

func (w *World) epoch(n kafka.NodeID) int64 {
	if b, ok := w.Img.Broker(n); ok {
		return b.Epoch
	}
	return 0
}

func (w *World) partition(a Words) (meta.PartitionID, *meta.Partition) {
	t, ok := w.Img.Topic(a.Str("topic", ""))
	if !ok {
		return meta.PartitionID{}, &meta.Partition{}
	}
	p := t.Partitions[a.Int("p", 0)]
	return p.ID(), p
}

// RegisterBroker runs both steps of a registration under a lease of the
// broker's number.
func (w *World) RegisterBroker(b *meta.Broker) error {
	existing, _ := w.Img.Broker(b.ID)
	r, err := plan.Register(w.Img.Keys(), existing, b, int64(b.ID))
	if err != nil || r.Done {
		return err
	}
	if r.Remove != nil && !w.Do(*r.Remove).Succeeded {
		return plan.ErrStale
	}
	if !w.Do(r.Put).Succeeded {
		return plan.ErrStale
	}
	return nil
}

func register(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	b := &meta.Broker{
		ID: a.Node("id"), StartID: a.Str("start", fmt.Sprintf("s%d", w.Store.Rev)), Rack: a.Str("rack", ""),
		Dirs:      dirsOf(strings.Split(a.Str("dirs", "d"+a.Str("id", "1")), ",")),
		Listeners: []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "host", Port: int32(9000 + a.Int("id", 1))}},
	}
	if err := w.RegisterBroker(b); err != nil {
		return failed(err)
	}
	return fmt.Sprintf("epoch %d", w.epoch(b.ID))
}

func die(_ *testing.T, w *World, d *datadriven.TestData) string {
	ids := nodesOf(Words{D: d}.Str("id", "1"), ",")
	ch := kv.Change{}
	for _, n := range ids {
		one := w.Store.Revoke(int64(n))
		ch.Events = append(ch.Events, one.Events...)
		ch.Rev = max(ch.Rev, one.Rev)
	}
	w.See(ch)
	return fmt.Sprintf("at %d", w.Store.Rev)
}

func leaving(_ *testing.T, w *World, d *datadriven.TestData) string {
	n := Words{D: d}.Node("id")
	t, err := plan.SetLeaving(w.Img, n, w.epoch(n))
	if err != nil {
		return failed(err)
	}
	return w.done(w.Do(t))
}

func offline(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	t, err := plan.SetOffline(w.Img, a.Node("id"), a.Int("epoch", w.epoch(a.Node("id"))), dirsOf(a.list("dirs")))
	if err != nil {
		return failed(err)
	}
	return w.done(w.Do(t))
}

func (w *World) creator(a Words) plan.Creator {
	n := a.Node("by")
	return plan.Creator{Node: n, BrokerEpoch: w.epoch(n), Lease: int64(n), Token: w.NextID()}
}

// Make runs a creation: all of it, or only so many steps after the first.
func (w *World) Make(m *plan.Making, steps int) error {
	res := w.Do(m.First)
	if !res.Succeeded {
		_, _, err := m.Outcome(res)
		return err
	}
	for n := range min(m.Steps(), steps) {
		if r := w.Do(m.Step(n, res.Rev)); !r.Succeeded {
			_, _, err := m.Outcome(r)
			w.Do(m.Abandon(res.Rev))
			return err
		}
	}
	return nil
}

func made(w *World, a Words, m *plan.Making) string {
	steps := int(a.Int("steps", int64(m.Steps())))
	if err := w.Make(m, steps); err != nil {
		return failed(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "done at %d, %d of %d further steps\n", w.Store.Rev, steps, m.Steps())
	for n, p := range runs(m.Partitions) {
		if n == 12 {
			break
		}
		fmt.Fprintf(&b, "%s: %s\n", p.numbers(), State(p.first))
	}
	return b.String()
}

func create(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	r := plan.NewTopic{
		Name: a.Str("name", ""), ID: w.NextID(), Partitions: int32(a.Int("parts", -1)), Factor: int16(a.Int("rf", -1)),
		DefaultPartitions: 1, DefaultFactor: 1, Start: uint64(a.Int("start", 0)), Creator: w.creator(a),
	}
	for _, m := range a.list("manual") {
		p, nodes, _ := strings.Cut(m, ":")
		n, _ := strconv.Atoi(p)
		r.Manual = append(r.Manual, plan.ManualAssignment{Partition: int32(n), Replicas: nodesOf(nodes, "/")})
	}
	if c := a.list("config"); c != nil {
		r.Configs = pairs(c)
	}
	m, err := plan.CreateTopic(w.Img, r)
	if err != nil {
		return failed(err)
	}
	return made(w, a, m)
}

func pairs(words []string) map[string]string {
	out := map[string]string{}
	for _, s := range words {
		k, v, _ := strings.Cut(s, ":")
		out[k] = v
	}
	return out
}

func add(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	r := plan.MorePartitions{Topic: a.Str("topic", ""), Count: int32(a.Int("count", 0)), Creator: w.creator(a)}
	for _, m := range a.list("manual") {
		r.Manual = append(r.Manual, nodesOf(m, "/"))
	}
	m, err := plan.AddPartitions(w.Img, r)
	if err != nil {
		return failed(err)
	}
	return made(w, a, m)
}

func deleteTopic(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	var id kafka.TopicID
	if t, ok := w.Img.Topic(a.Str("topic", "")); ok {
		id = t.ID
	}
	t, err := plan.DeleteTopic(w.Img, id, a.Int("at", 1000))
	if err != nil {
		return failed(err)
	}
	return w.done(w.Do(t))
}

func configure(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	c := plan.ConfigChange{Set: pairs(a.list("set")), Remove: a.list("remove")}
	if topic := a.Str("topic", ""); topic != "" {
		t, ok, err := plan.ConfigureTopic(w.Img, topic, c)
		switch {
		case err != nil:
			return failed(err)
		case !ok:
			return "no change"
		}
		return w.done(w.Do(t))
	}
	if group := a.Str("group", ""); group != "" {
		t, ok := plan.ConfigureGroup(w.Img, group, c)
		if !ok {
			return "no change"
		}
		return w.done(w.Do(t))
	}
	if name := a.Str("metrics", ""); name != "" {
		t, ok := plan.ConfigureClientMetrics(w.Img, name, c)
		if !ok {
			return "no change"
		}
		return w.done(w.Do(t))
	}
	t, ok := plan.ConfigureBroker(w.Img, kafka.NodeID(a.Int("broker", -1)), c)
	if !ok {
		return "no change"
	}
	return w.done(w.Do(t))
}

func (w *World) change(c plan.Change) string {
	for _, b := range plan.Batches(w.Img.Keys(), nil, []plan.Change{c}) {
		if r := w.Do(b.Txn); !r.Succeeded {
			return w.done(r)
		}
	}
	return fmt.Sprintf("done at %d: %s", w.Store.Rev, State(c.Next))
}

func changeISR(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	id, p := w.partition(a)
	r := plan.ISRChange{
		Partition: id, Leader: kafka.NodeID(a.Int("by", int64(p.Leader))), LeaderBrokerEpoch: a.Int("broker-epoch", p.LeaderBrokerEpoch),
		LeaderEpoch: kafka.LeaderEpoch(a.Int("epoch", int64(p.LeaderEpoch))),
	}
	for _, n := range nodesOf(a.Str("to", ""), ",") {
		r.ISR = append(r.ISR, plan.Member{Node: n, BrokerEpoch: a.Int("member-epoch", w.epoch(n))})
	}
	c, err := plan.ChangeISR(w.Img, r)
	if err != nil {
		return failed(err)
	}
	return w.change(c)
}

func (w *World) batches(bs []plan.Batch) string {
	out := "nothing to do"
	for _, b := range bs {
		res := w.Do(b.Txn)
		out = w.done(res)
		for _, c := range b.Changes {
			out += "\n" + State(c.Next)
		}
	}
	return out
}

func assign(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	id, _ := w.partition(a)
	bs, err := plan.AssignDirs(w.Img, a.Node("id"), w.epoch(a.Node("id")),
		[]plan.Assignment{{Partition: id, Dir: Dir(a.Str("dir", "")), HasLog: d.HasArg("has-log")}})
	if err != nil {
		return failed(err)
	}
	return w.batches(bs)
}

func move(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	id, _ := w.partition(a)
	bs, err := plan.MoveDirs(w.Img, a.Node("id"), w.epoch(a.Node("id")), []plan.DirMove{{Partition: id, From: Dir(a.Str("from", "")), To: Dir(a.Str("to", ""))}})
	if err != nil {
		return failed(err)
	}
	return w.batches(bs)
}

func resign(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	id, _ := w.partition(a)
	return w.batches(plan.Resign(w.Img, a.Node("id"), []plan.Loss{{Partition: id, Doubtful: d.HasArg("doubtful"), LogMissing: d.HasArg("log-missing"), Anew: d.HasArg("anew")}}))
}

func giveUp(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	id, _ := w.partition(a)
	bs, err := plan.GiveUp(w.Img, a.Node("id"), w.epoch(a.Node("id")), []plan.Waiver{{Partition: id, Dir: Dir(a.Str("dir", ""))}})
	if err != nil {
		return failed(err)
	}
	return w.batches(bs)
}

func elect(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	how := plan.Preferred
	if d.HasArg("unclean") {
		how = plan.Unclean
	}
	c, err := plan.ElectLeader(w.Img, a.Str("topic", ""), int32(a.Int("p", 0)), how)
	if err != nil {
		return failed(err)
	}
	return w.change(c)
}

func campaign(_ *testing.T, w *World, d *datadriven.TestData) string {
	n := Words{D: d}.Node("id")
	ts, err := plan.Campaign(w.Img, n, w.epoch(n))
	if err != nil {
		return failed(err)
	}
	if len(ts) == 0 {
		id, at := w.Img.Controller()
		return fmt.Sprintf("broker %d is the controller, elected at %d", id, at)
	}
	for _, t := range ts {
		if r := w.Do(t); !r.Succeeded {
			return w.done(r)
		}
	}
	return fmt.Sprintf("elected at %d", w.Store.Rev)
}

func takeIDs(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	t, first, err := plan.TakeProducerIDs(w.Img.Keys(), w.Img.ProducerIDs(), a.Node("id"), a.Int("epoch", w.epoch(a.Node("id"))))
	if err != nil {
		return failed(err)
	}
	return fmt.Sprintf("%s: from %d", w.done(w.Do(t)), first)
}

func feature(_ *testing.T, w *World, d *datadriven.TestData) string {
	a := Words{D: d}
	t, ok := plan.SetFeatures(w.Img, map[string]int16{a.Str("name", ""): int16(a.Int("level", 0))})
	if !ok {
		return "no change"
	}
	return w.done(w.Do(t))
}

// put writes a key as if by hand: the rest of the prefix, and the input.
func put(_ *testing.T, w *World, d *datadriven.TestData) string {
	w.See(w.Store.Set(w.Img.Keys().Prefix()+Words{D: d}.Str("key", ""), d.Input))
	return DescribeDelta(w.Delta)
}

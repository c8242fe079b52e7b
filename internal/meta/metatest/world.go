// Package metatest is a metadata store in memory with an image kept beside it,
// and the verbs of the scripts that test meta, meta/plan and controller. After
// every transaction it checks that the image made of events equals the one
// made of a listing. It is for tests, and for one goroutine.
package metatest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// ClusterID of every world.
const ClusterID = "AAAAAAAAAAAAAAAAAAAAAQ"

// World is a store and its image.
type World struct {
	Store *Store
	Img   *meta.Image
	// Delta of the last change.
	Delta meta.Delta
	// Trace is told of every transaction that was carried out, when it is set.
	Trace func(kv.Txn, kv.TxnResult)

	ids byte
}

// New gives an empty world.
func New() *World { return &World{Store: NewStore(), Img: meta.Empty(ClusterID)} }

// Do carries a transaction out. It panics when the engine would refuse it, or
// when the image went astray: in a test both are the end.
func (w *World) Do(t kv.Txn) kv.TxnResult {
	res, ch, err := w.Store.Do(t)
	if err != nil {
		panic(err)
	}
	if w.Trace != nil {
		w.Trace(t, res)
	}
	w.See(ch)
	return res
}

// See gives the image a change; one of revision 0 is none.
func (w *World) See(ch kv.Change) {
	w.Delta = meta.Delta{}
	if ch.Rev == 0 {
		return
	}
	old := w.Img
	w.Img, w.Delta = old.Apply(ch)
	// With a value that cannot be read, the image of events has what was there
	// before, and that of a listing nothing.
	listed, errs := w.Listed()
	if got, want := Describe(w.Img), Describe(listed); got != want && len(errs) == 0 {
		panic(fmt.Sprintf("image of events:\n%s\nimage of listing:\n%s", got, want))
	}
	diff := meta.Diff(old, w.Img)
	diff.Errors = w.Delta.Errors
	if got, want := DescribeDelta(w.Delta), DescribeDelta(diff); got != want {
		panic(fmt.Sprintf("delta of events:\n%s\ndifference of images:\n%s", got, want))
	}
}

// Listed makes the image anew from a listing.
func (w *World) Listed() (*meta.Image, []error) {
	return meta.FromListing(ClusterID, w.Store.List(w.Img.Keys().Prefix()), w.Store.Rev)
}

// NextID gives an id that was not given before.
func (w *World) NextID() kafka.UUID {
	w.ids++
	return kafka.UUID{0: w.ids, 15: 0xff}
}

// Dir names a directory id by a short word, as the scripts do; "-" is the
// unassigned one and "lost" the lost one.
func Dir(word string) kafka.DirID {
	switch word {
	case "-", "":
		return kafka.DirUnassigned
	case "lost":
		return kafka.DirLost
	}
	d := kafka.DirID{14: 0xdd}
	copy(d[:14], word)
	return d
}

func dirWord(d kafka.DirID) string {
	switch {
	case d == kafka.DirUnassigned:
		return "-"
	case d == kafka.DirLost:
		return "lost"
	case d[14] == 0xdd:
		return strings.TrimRight(string(d[:14]), "\x00")
	}
	return d.String()
}

func replicas(rs []meta.Replica) string {
	var out []string
	for _, r := range rs {
		s := r.Node.String()
		if r.Dir != kafka.DirUnassigned {
			s += "@" + dirWord(r.Dir)
		}
		out = append(out, s)
	}
	return "[" + strings.Join(out, " ") + "]"
}

// State prints one partition.
func State(p *meta.Partition) string {
	s := fmt.Sprintf("leader %d", p.Leader)
	if p.Leader >= 0 {
		s += fmt.Sprintf(" (broker epoch %d)", p.LeaderBrokerEpoch)
	}
	s += fmt.Sprintf(" epoch %d isr %s of %s", p.LeaderEpoch, replicas(p.ISR), replicas(p.Replicas))
	if len(p.Adding) > 0 {
		s += fmt.Sprintf(" adding %v", p.Adding)
	}
	if len(p.Removing) > 0 {
		s += fmt.Sprintf(" removing %v", p.Removing)
	}
	if len(p.Eligible) > 0 {
		s += " eligible " + replicas(p.Eligible)
	}
	if p.LastKnownLeader >= 0 {
		s += fmt.Sprintf(" last leader %d", p.LastKnownLeader)
	}
	return s
}

func config(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, " ")
}

// Describe prints all that an image holds.
func Describe(img *meta.Image) string {
	var b strings.Builder
	line := func(f string, args ...any) { fmt.Fprintf(&b, f+"\n", args...) }
	line("revision %d", img.Revision())
	if c, ok := img.Cluster(); ok {
		line("cluster %s", c.ID)
	}
	if c, ok := img.ControllerHolder(); ok {
		line("controller %d (broker epoch %d) elected at %d", c.Node, c.BrokerEpoch, c.CreateRev)
	}
	line("controller epoch %d", img.ControllerEpoch())
	levels, epoch := img.Features()
	for _, f := range slices.Sorted(maps.Keys(levels)) {
		line("feature %s %d at %d", f, levels[f], epoch)
	}
	if ids := img.ProducerIDs(); ids.ModRev > 0 {
		line("producer ids from %d", ids.Next)
	}
	for _, r := range img.Brokers() {
		line("broker %s", BrokerLine(r))
	}
	for t := range img.Topics() {
		line("topic %s id %s at %d-%d%s", t.Name, t.ID, t.CreateRev, t.ModRev, prefixed(" ", config(img.TopicConfig(t.Name))))
		for _, r := range runs(t.Partitions) {
			line("  %s at %d: %s", r.numbers(), r.first.PartitionEpoch, State(r.first))
		}
		if other, ok := img.TopicByID(t.ID); !ok || other != t {
			line("  not found by its id")
		}
	}
	for _, r := range runs(slices.Collect(img.Aside())) {
		line("aside %s/%s at %d: %s", r.first.Topic, r.numbers(), r.first.PartitionEpoch, State(r.first))
	}
	for p := range img.Pendings() {
		line("pending %s %s %d-%d by %d/%d", p.Topic, p.Name, p.From, p.Count, p.Node, p.BrokerEpoch)
	}
	for t := range img.Tombstones() {
		line("deleted %s %s at %d ms", t.Topic, t.Name, t.DeletedAtMs)
	}
	for id := range img.ConfiguredGroups() {
		line("config of group %s %s", id, config(img.GroupConfig(id)))
	}
	for name := range img.ClientMetricsNames() {
		line("client metrics %s %s", name, config(img.ClientMetrics(name)))
	}
	if c := config(img.ClusterConfig()); c != "" {
		line("config of all %s", c)
	}
	for _, n := range img.NodesNamed() {
		var of []string
		for _, r := range runs(slices.Collect(img.PartitionsNaming(n))) {
			of = append(of, r.first.Topic.String()+"/"+r.numbers())
		}
		line("named %d by %s", n, strings.Join(of, " "))
	}
	return b.String()
}

// run is neighbours in the same state, written at the same revision.
type run struct {
	first *meta.Partition
	last  int32
}

func (r run) numbers() string {
	if r.first.Partition == r.last {
		return fmt.Sprint(r.last)
	}
	return fmt.Sprintf("%d-%d", r.first.Partition, r.last)
}

func runs(ps []*meta.Partition) []run {
	var out []run
	for _, p := range ps {
		if n := len(out) - 1; n >= 0 && out[n].first.Topic == p.Topic && out[n].last+1 == p.Partition &&
			out[n].first.PartitionEpoch == p.PartitionEpoch && State(out[n].first) == State(p) {
			out[n].last = p.Partition
			continue
		}
		out = append(out, run{p, p.Partition})
	}
	return out
}

// BrokerLine prints one registration.
func BrokerLine(b *meta.Broker) string {
	s := fmt.Sprintf("%d epoch %d", b.ID, b.Epoch)
	if b.ModRev != b.Epoch {
		s += fmt.Sprintf(" changed %d", b.ModRev)
	}
	s += " dirs"
	for _, d := range b.Dirs {
		s += " " + dirWord(d)
	}
	for _, d := range b.Offline {
		s += " offline " + dirWord(d)
	}
	if b.Leaving {
		s += " leaving"
	}
	return s + prefixed(" rack ", b.Rack)
}

func prefixed(with, s string) string {
	if s == "" {
		return ""
	}
	return with + s
}

// DescribeDelta prints a delta.
func DescribeDelta(d meta.Delta) string {
	var b strings.Builder
	line := func(f string, args ...any) { fmt.Fprintf(&b, f+"\n", args...) }
	for _, t := range d.Deleted {
		line("deleted topic %s %s", t.Name, t.ID)
	}
	for _, t := range d.Created {
		line("created topic %s %s", t.Name, t.ID)
	}
	for _, p := range d.Partitions {
		switch {
		case p.Old == nil:
			line("new %s-%d %s", p.Topic.Name, p.New.Partition, State(p.New))
		case p.New == nil:
			line("gone %s-%d", p.Topic.Name, p.Old.Partition)
		default:
			line("changed %s-%d %s", p.Topic.Name, p.New.Partition, State(p.New))
		}
	}
	for _, r := range d.BrokersDown {
		line("down %s", BrokerLine(r))
	}
	for _, r := range d.BrokersUp {
		line("up %s", BrokerLine(r))
	}
	for _, r := range d.BrokersChanged {
		line("rewritten %s", BrokerLine(r.New))
	}
	for _, c := range d.TopicConfigs {
		line("config of topic %s", c)
	}
	for _, c := range d.GroupConfigs {
		line("config of group %s", c)
	}
	for _, c := range d.ClientMetrics {
		line("client metrics %s", c)
	}
	for _, c := range d.BrokerConfigs {
		line("config of broker %d", c)
	}
	for _, w := range []struct {
		what string
		is   bool
	}{{"config of all brokers", d.ClusterConfig}, {"controller", d.Controller}, {"features", d.Features}} {
		if w.is {
			line("%s", w.what)
		}
	}
	for _, err := range d.Errors {
		line("error %v", err)
	}
	return b.String()
}

// Txn prints a transaction, keys without their prefix.
func Txn(t kv.Txn) string {
	var b strings.Builder
	short := func(k string) string { return strings.TrimPrefix(k, meta.KeysOf(ClusterID).Prefix()) }
	for _, c := range t.If {
		what := [...]string{"changed", "created", "version"}[c.Target]
		if c.Want == 0 {
			fmt.Fprintf(&b, "if   %s is absent\n", short(c.Key))
		} else {
			fmt.Fprintf(&b, "if   %s %s at %d\n", short(c.Key), what, c.Want)
		}
	}
	for n, ops := range [][]kv.Op{t.Then, t.Else} {
		for _, op := range ops {
			b.WriteString([...]string{"then ", "else "}[n])
			b.WriteString([...]string{"put ", "delete ", "get "}[op.Kind] + short(op.Key))
			if op.End != "" {
				b.WriteString("*")
			}
			if op.Lease != 0 {
				fmt.Fprintf(&b, " under lease %d", op.Lease)
			}
			if op.Kind == kv.Put {
				b.WriteString(" " + string(op.Value))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Register adds a broker with one directory, or brings it back.
func (w *World) Register(id kafka.NodeID, rack string) {
	err := w.RegisterBroker(&meta.Broker{
		ID: id, StartID: fmt.Sprintf("s%d", w.Store.Rev), Rack: rack, Dirs: dirsOf([]string{"d" + id.String()}),
		Listeners: []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "host", Port: int32(9000 + id)}},
	})
	if err != nil {
		panic(err)
	}
}

// CreateTopic makes a topic on the brokers that are there.
func (w *World) CreateTopic(name string, partitions int32) error {
	r := plan.NewTopic{
		Name: name, ID: w.NextID(), Partitions: partitions, Factor: 1, DefaultPartitions: 1, DefaultFactor: 1,
		Creator: w.creator(Words{D: &datadriven.TestData{}}),
	}
	m, err := plan.CreateTopic(w.Img, r)
	if err != nil {
		return err
	}
	return w.Make(m, m.Steps())
}

// AddPartitions raises the number of a topic's partitions to count.
func (w *World) AddPartitions(name string, count int32) error {
	m, err := plan.AddPartitions(w.Img, plan.MorePartitions{Topic: name, Count: count, Creator: w.creator(Words{D: &datadriven.TestData{}})})
	if err != nil {
		return err
	}
	return w.Make(m, m.Steps())
}

// DeleteTopic deletes a topic by name.
func (w *World) DeleteTopic(name string) error {
	t, ok := w.Img.Topic(name)
	if !ok {
		return fmt.Errorf("no topic %s", name)
	}
	txn, err := plan.DeleteTopic(w.Img, t.ID, 1000)
	if err == nil {
		w.Do(txn)
	}
	return err
}

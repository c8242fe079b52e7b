package plan_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

func oneBroker(t *testing.T) *metatest.World {
	t.Helper()
	w := metatest.New()
	if err := w.RegisterBroker(&meta.Broker{ID: 1, StartID: "s", Dirs: []kafka.DirID{metatest.Dir("a")}}); err != nil {
		t.Fatal(err)
	}
	return w
}

func making(t *testing.T, w *metatest.World, name string, partitions int32) *plan.Making {
	t.Helper()
	b, _ := w.Img.Broker(1)
	m, err := plan.CreateTopic(w.Img, plan.NewTopic{
		Name: name, ID: w.NextID(), Partitions: partitions, Factor: 1,
		Creator: plan.Creator{Node: 1, BrokerEpoch: b.Epoch, Lease: 1, Token: w.NextID()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// An answer that was lost is found out by sending the same transaction again.
func TestLostAnswers(t *testing.T) {
	w := oneBroker(t)
	small := making(t, w, "small", 3)
	w.Do(small.First)
	if done, _, err := small.Outcome(w.Do(small.First)); !done || err != nil {
		t.Errorf("a creation sent twice: done %v, %v", done, err)
	}

	large := making(t, w, "large", 200)
	at := w.Do(large.First).Rev
	done, rev, err := large.Outcome(w.Do(large.First))
	if done || err != nil || rev != at {
		t.Errorf("the first of many sent twice: done %v, pending at %d, not %d, %v", done, rev, at, err)
	}
	for n := range large.Steps() {
		w.Do(large.Step(n, rev))
		if n == large.Steps()-1 {
			break
		}
		if !w.Do(large.Step(n, rev)).Succeeded {
			t.Errorf("step %d cannot be sent twice", n)
		}
	}
	if done, _, err := large.Outcome(w.Do(large.Step(large.Steps()-1, rev))); !done || err != nil {
		t.Errorf("the last of many sent twice: done %v, %v", done, err)
	}
	if topic, ok := w.Img.Topic("large"); !ok || len(topic.Partitions) != 200 {
		t.Error("the topic is not there")
	}
}

// Whoever comes second is told why.
func TestLostRaces(t *testing.T) {
	w := oneBroker(t)
	first, second := making(t, w, "a.b", 1), making(t, w, "a.b", 1)
	colliding, slow := making(t, w, "a_b", 1), making(t, w, "a_b", 300)
	stale := making(t, w, "c", 1)
	at := w.Do(slow.First).Rev
	w.Do(first.First)
	for _, c := range []struct {
		what string
		m    *plan.Making
		txn  kv.Txn
		want *kerr.Error
	}{
		{"the same name", second, second.First, kerr.TopicAlreadyExists},
		{"a name like it", colliding, colliding.First, kerr.InvalidTopicException},
		{"a name like it, at the last step", slow, slow.Step(slow.Steps()-1, at), kerr.InvalidTopicException},
	} {
		res := w.Do(c.txn)
		done, _, err := c.m.Outcome(res)
		if res.Succeeded || done || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, done %v, %v", c.what, res.Succeeded, done, err)
		}
	}
	w.Do(slow.Abandon(at))
	for s := range w.Img.Aside() {
		t.Errorf("an abandoned creation left %s", s.ID())
	}

	// The leader's registration changed.
	b, _ := w.Img.Broker(1)
	leaving, err := plan.SetLeaving(w.Img, 1, b.Epoch)
	if err != nil {
		t.Fatal(err)
	}
	w.Do(leaving)
	if done, _, err := stale.Outcome(w.Do(stale.First)); done || !errors.Is(err, plan.ErrStale) {
		t.Errorf("an outrun creation: done %v, %v", done, err)
	}
}

// A creator whose pending key was collected, or whose topic was deleted while
// it added partitions, cannot go on.
func TestCollectedCreation(t *testing.T) {
	w := oneBroker(t)
	m := making(t, w, "t", 2)
	w.Do(m.First)
	b, _ := w.Img.Broker(1)
	more, err := plan.AddPartitions(w.Img, plan.MorePartitions{
		Topic: "t", Count: 400, Creator: plan.Creator{Node: 1, BrokerEpoch: b.Epoch, Lease: 1, Token: w.NextID()},
	})
	if err != nil {
		t.Fatal(err)
	}
	at := w.Do(more.First).Rev
	w.Do(more.Step(0, at))
	topic, _ := w.Img.Topic("t")
	del, err := plan.DeleteTopic(w.Img, topic.ID, 5)
	if err != nil {
		t.Fatal(err)
	}
	w.Do(del)
	for n := 1; n < more.Steps(); n++ {
		res := w.Do(more.Step(n, at))
		if _, _, err := more.Outcome(res); res.Succeeded || !errors.Is(err, plan.ErrStale) {
			t.Errorf("step %d after the deletion: %v, %v", n, res.Succeeded, err)
		}
	}
	if got := w.Store.List(w.Img.Keys().States(topic.ID)); len(got) != 0 {
		t.Errorf("%d states of a deleted topic", len(got))
	}
}

// The last step of a creation finds the first one's mark, and takes it away: one
// whose states the controller collected meanwhile never becomes a topic.
func TestLastStepOfACreation(t *testing.T) {
	w := oneBroker(t)
	kept, collected := making(t, w, "kept", 200), making(t, w, "collected", 200)
	last := kept.Steps() - 1
	at := w.Do(kept.First).Rev
	for n := range last + 1 {
		if !w.Do(kept.Step(n, at)).Succeeded {
			t.Fatalf("step %d failed", n)
		}
	}
	topic, made := w.Img.Topic("kept")
	if !made || len(topic.Partitions) != 200 {
		t.Fatalf("made: %v", made)
	}
	if _, there := w.Store.Get(w.Img.Keys().Pending(topic.ID)); there {
		t.Error("a topic that is made is still pending")
	}

	at = w.Do(collected.First).Rev
	for n := range last {
		w.Do(collected.Step(n, at))
	}
	w.Do(collected.Abandon(at)) // as the controller does
	res := w.Do(collected.Step(last, at))
	if _, _, err := collected.Outcome(res); res.Succeeded || !errors.Is(err, plan.ErrStale) {
		t.Errorf("the last step after all was collected: %v, %v", res.Succeeded, err)
	}
	if _, made := w.Img.Topic("collected"); made {
		t.Error("there is a topic without partitions")
	}
}

// Refusals carry the protocol's code and Apache Kafka's sentence alone.
func TestRefusal(t *testing.T) {
	err := plan.CheckName("a/b")
	var r *plan.Refusal
	if !errors.As(err, &r) || r.Code != kerr.InvalidTopicException || !errors.Is(err, kerr.InvalidTopicException) {
		t.Errorf("%v is no refusal with its code", err)
	}
	long := make([]byte, plan.MaxNameLen+1)
	for n := range long {
		long[n] = 'x'
	}
	if plan.CheckName(string(long)) == nil || plan.CheckName(string(long[1:])) != nil {
		t.Error("249 characters are allowed, 250 are not")
	}
	if err := plan.CheckName("ä"); err == nil {
		t.Error("a letter beyond ASCII is allowed")
	}
}

func TestProducerIDsRunOut(t *testing.T) {
	if _, _, err := plan.TakeProducerIDs(meta.KeysOf("c"), meta.ProducerIDs{Next: 1<<63 - 1000}, 1, 2); err == nil {
		t.Error("a block beyond the last id")
	}
}

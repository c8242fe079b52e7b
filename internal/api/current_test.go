package api

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// A broker whose image lacks a topic that a request changes looks whether it is
// behind before it says that there is none; of a topic that it has it knows.
func TestChangesOfATopicThatIsNew(t *testing.T) {
	name := "t"
	w := metatest.New()
	seen(t, w)
	lacks := w.Img
	if err := w.CreateTopic(name, 1); err != nil {
		t.Fatal(err)
	}
	topic, _ := w.Img.Topic(name)
	img := lacks
	caughtUp := make(chan struct{}, 1)
	a := New(Deps{
		Image: func() *meta.Image { return img }, Log: slog.New(slog.DiscardHandler),
		// What a handler does without all the rest is not meant here: the server
		// closes the connection of one that panics.
		CatchUp: func(context.Context) { caughtUp <- struct{}{}; panic("it looks") },
	})
	ask, stop := serve(t, a)
	defer stop()
	byName := kmsg.DeleteTopicsRequest{Version: 5, TopicNames: []string{name}}
	for _, req := range []kmsg.Request{
		&byName,
		&kmsg.DeleteTopicsRequest{Version: 6, Topics: []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}},
		&kmsg.DeleteTopicsRequest{Version: 6, Topics: []kmsg.DeleteTopicsRequestTopic{{TopicID: topic.ID}}},
		&kmsg.CreatePartitionsRequest{Version: 3, Topics: []kmsg.CreatePartitionsRequestTopic{{Topic: name}}},
		&kmsg.ElectLeadersRequest{Version: 2, Topics: []kmsg.ElectLeadersRequestTopic{{Topic: name}}},
		&kmsg.AlterPartitionAssignmentsRequest{Topics: []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: name}}},
		&kmsg.AlterConfigsRequest{Version: 2, Resources: []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name}}},
		&kmsg.IncrementalAlterConfigsRequest{Version: 1, Resources: []kmsg.IncrementalAlterConfigsRequestResource{
			{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name},
		}},
	} {
		for _, c := range []struct {
			img   *meta.Image
			looks bool
		}{{lacks, true}, {w.Img, false}} {
			img = c.img
			_, err := ask(req)
			looked := false
			select {
			case <-caughtUp:
				looked = true
			default:
			}
			if looked != c.looks {
				t.Errorf("%s of version %d: looked %v, want %v (%v)", kmsg.NameForKey(req.Key()), req.GetVersion(), looked, c.looks, err)
			}
		}
	}
}

// It looks once, for a second at most, and then says what it knows.
func TestChangesWaitForTheImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := metatest.New()
		seen(t, w)
		img, asked := w.Img, 0
		a := New(Deps{Image: func() *meta.Image { return img }, Log: slog.New(slog.DiscardHandler), CatchUp: func(ctx context.Context) {
			asked++
			<-ctx.Done()
		}})
		began := time.Now()
		req, resp := kmsg.NewPtrCreatePartitionsRequest(), kmsg.NewCreatePartitionsResponse()
		req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t"}}
		handled := 0
		h := current(a, extendedThere, func(context.Context, *server.Request, *kmsg.CreatePartitionsRequest, *kmsg.CreatePartitionsResponse) error {
			handled++
			return nil
		})
		if err := h(t.Context(), plainRequest(3), req, &resp); err != nil {
			t.Fatal(err)
		}
		if asked != 1 || handled != 1 || time.Since(began) != currentIn {
			t.Errorf("looked %d times, for %v, then handled %d times", asked, time.Since(began), handled)
		}
	})
}

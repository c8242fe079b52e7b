package group

import (
	"maps"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// simClient is a consumer with what it believes.
type simClient struct {
	*sim
	name     string
	id       string
	ids      int
	instance *string
	classic  bool
	running  bool
	pausedTo time.Time
	due      time.Time

	topics []string
	regex  string

	epoch    int32
	owned    parts // what it uses
	told     parts // what it is to use, once the rest is given up
	full     bool  // says everything the next time: it does not know what arrived
	acks     bool  // says what it owns the next time
	lastOK   time.Time
	firstTry time.Time // the first request since the last answer
	since    time.Time // when it may have been told to give up; zero: it has nothing to
	doneAt   time.Time // when it will have

	phase   simPhase // of a classic client
	retryAt time.Time
}

// trusts says whether the client may rely on what it owns: a session that may
// be over, or partitions that were to be given up by now, are not to be used.
func (c *simClient) trusts() bool {
	if !c.running || c.lastOK.IsZero() {
		return false
	}
	session := simSession
	if c.classic {
		session = simClassicSession
	}
	return c.now.Before(c.lastOK.Add(session)) && (c.since.IsZero() || c.now.Before(c.since.Add(simRebalance)))
}

// start makes a new process of it, unless there is one.
func (c *simClient) start() {
	if c.running {
		return
	}
	c.ids++
	*c = simClient{
		sim: c.sim, name: c.name, ids: c.ids, id: c.name + strconv.Itoa(c.ids), instance: c.instance,
		classic: c.mixed && c.rnd.IntN(2) == 0, running: true, owned: parts{}, full: true,
	}
	if c.instance == nil && c.rnd.IntN(4) == 0 {
		c.instance = kmsg.StringPtr("i" + c.name)
	}
	if c.classic {
		c.id = ""
	}
	c.subscribe()
	c.note("%s starts, classic %v, reads %v %s", c.id, c.classic, c.topics, c.regex)
}

func (c *simClient) subscribe() {
	c.topics, c.regex = nil, ""
	if !c.classic && c.rnd.IntN(4) == 0 {
		c.regex = "t."
		return
	}
	for i := range 4 {
		if c.rnd.IntN(2) == 0 {
			c.topics = append(c.topics, "t"+strconv.Itoa(i))
		}
	}
}

func (c *simClient) mishap() {
	switch n := c.rnd.IntN(12); {
	case !c.running:
		if n < 8 {
			c.start()
		}
	case n == 0:
		c.note("%s dies", c.id)
		c.running = false
	case n == 1:
		c.pausedTo = c.now.Add(time.Duration(c.rnd.IntN(90)) * time.Second)
		c.note("%s pauses until %s", c.id, c.pausedTo.Format("04:05"))
	case n == 2 && c.classic:
		c.quit()
	case n == 2 && c.epoch > 0:
		epoch := int32(-1)
		if c.instance != nil && c.rnd.IntN(2) == 0 {
			epoch = epochLeft
		}
		c.note("%s leaves with %d", c.id, epoch)
		c.running = false
		req := c.request(epoch)
		c.send(&ConsumerHeartbeat{Req: req}, func(any) {})
	case n == 3 && !c.classic:
		c.subscribe()
		c.note("%s reads %v %s", c.id, c.topics, c.regex)
		c.full = true
	case n == 4 && !c.classic && c.epoch > 1:
		// A process that came back from a copy of its memory.
		c.note("%s says an old epoch", c.id)
		req := c.request(c.epoch - 1 - int32(c.rnd.IntN(3)))
		if req.MemberEpoch > 0 {
			c.send(&ConsumerHeartbeat{Req: req}, func(any) {})
		}
	}
}

func (c *simClient) act() {
	if !c.running || c.now.Before(c.pausedTo) {
		return
	}
	if !c.trusts() && !c.lastOK.IsZero() {
		c.abandon("its time is over")
	}
	if c.classic {
		c.actClassic()
		return
	}
	if !c.since.IsZero() && !c.now.Before(c.doneAt) {
		c.note("%s gave up", c.id)
		c.owned, c.since, c.acks = maps.Clone(c.told), time.Time{}, true
	}
	if !c.now.Before(c.due) || c.acks {
		c.beat()
	}
}

func (c *simClient) abandon(why string) {
	c.note("%s abandons all: %s", c.id, why)
	c.owned, c.told, c.epoch, c.full, c.acks, c.since, c.lastOK = parts{}, nil, 0, true, false, time.Time{}, time.Time{}
	c.firstTry, c.phase = time.Time{}, simJoins
}

func (c *simClient) request(epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.MemberEpoch = 1, "g", c.id, c.instance, epoch
	return req
}

func (c *simClient) beat() {
	req := c.request(c.epoch)
	if c.full || c.acks {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for p := range c.owned {
			t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			t.TopicID, t.Partitions = p.topic, []int32{p.partition}
			req.Topics = append(req.Topics, t)
		}
	}
	if c.full {
		req.RebalanceTimeoutMillis = int32(simRebalance.Milliseconds())
		req.SubscribedTopicNames, req.SubscribedTopicRegex = append([]string{}, c.topics...), &c.regex
	}
	if c.firstTry.IsZero() {
		c.firstTry = c.now
	}
	c.due = c.now.Add(simBeat)
	c.full, c.acks = true, false // unless an answer comes
	if c.epoch == 0 {
		c.note("%s joins", c.id)
	}
	sent, process := c.now, c.ids
	c.send(&ConsumerHeartbeat{Req: req}, func(body any) {
		if c.ids == process && c.running {
			c.answered(sent, body.(*kmsg.ConsumerGroupHeartbeatResponse))
		}
	})
}

func (c *simClient) answered(sent time.Time, resp *kmsg.ConsumerGroupHeartbeatResponse) {
	switch resp.ErrorCode {
	case 0:
	case kerr.UnreleasedInstanceID.Code:
		return
	case kerr.FencedInstanceID.Code:
		c.fatal("%s was fenced by its instance id, and there is no other", c.id)
	default:
		c.abandon(kerr.ErrorForCode(resp.ErrorCode).(*kerr.Error).Message)
		return
	}
	if resp.MemberEpoch < c.epoch || resp.HeartbeatIntervalMillis == 0 {
		c.fatal("%s is told epoch %d after %d, interval %d", c.id, resp.MemberEpoch, c.epoch, resp.HeartbeatIntervalMillis)
	}
	first := c.firstTry
	c.epoch, c.full, c.lastOK, c.firstTry = resp.MemberEpoch, false, sent, time.Time{}
	if resp.Assignment == nil {
		return
	}
	c.told = parts{}
	for _, t := range resp.Assignment.Topics {
		for _, p := range t.Partitions {
			c.told[part{t.TopicID, p}] = true
		}
	}
	c.note("%s is told %s at %d", c.id, brief(resp.Assignment.Topics), c.epoch)
	gone := false
	for p := range c.owned {
		gone = gone || !c.told[p]
	}
	switch {
	case !gone:
		c.owned, c.since, c.acks = maps.Clone(c.told), time.Time{}, true
	case c.since.IsZero():
		c.since = first
		delay := time.Duration(c.rnd.IntN(25)) * time.Second
		if c.rnd.IntN(6) == 0 {
			delay = 100 * time.Second // too late
		}
		if c.calm {
			delay = time.Second
		}
		c.doneAt = c.now.Add(delay)
	}
}

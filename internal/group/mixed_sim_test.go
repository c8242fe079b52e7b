package group

import (
	"maps"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The classic clients of the simulation are eager: they give up everything
// before they join. So a group may go from one protocol to the other at any time.

const simClassicSession = 30 * time.Second

type simPhase uint8

const (
	simJoins simPhase = iota // has to
	simJoining
	simSyncs
	simSyncing
	simMember
)

func (c *simClient) actClassic() {
	if c.phase == simJoining || c.phase == simSyncing {
		// An answer that may have been lost is waited for for a while.
		if c.now.Before(c.retryAt) {
			return
		}
		c.phase = simJoins
	}
	switch c.phase {
	case simJoins:
		c.join()
	case simMember:
		if !c.now.Before(c.due) {
			c.beatClassic()
		}
	}
}

// reply wraps what a client does with an answer: only if it is still the same
// process, and waits for it.
func (c *simClient) reply(phase simPhase, then func(sent time.Time, body any)) func(any) {
	sent, process, waited := c.now, c.ids, c.retryAt
	return func(body any) {
		if c.ids == process && c.running && c.phase == phase && c.retryAt.Equal(waited) {
			then(sent, body)
		}
	}
}

func (c *simClient) join() {
	c.owned, c.since = parts{}, time.Time{}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.ProtocolType = 9, "g", c.id, c.instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(simClassicSession.Milliseconds()), int32(simRebalance.Milliseconds())
	p := kmsg.NewJoinGroupRequestProtocol()
	sub := kmsg.NewConsumerMemberMetadata()
	sub.Version, sub.Topics = 1, c.topics
	p.Name, p.Metadata = "range", sub.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	c.note("%s %s joins", c.name, c.id)
	c.phase, c.retryAt = simJoining, c.now.Add(simRebalance+20*time.Second)
	c.ids++ // ids handed out are never used twice
	c.send(&JoinGroup{Req: req, NewMemberID: c.name + strconv.Itoa(c.ids)}, c.reply(simJoining, c.joined))
}

func (c *simClient) joined(_ time.Time, body any) {
	resp := body.(*kmsg.JoinGroupResponse)
	switch resp.ErrorCode {
	case 0:
	case kerr.MemberIDRequired.Code:
		c.id, c.phase = resp.MemberID, simJoins
		return
	case kerr.RebalanceInProgress.Code:
		c.phase = simJoins
		return
	default:
		c.note("%s may not join: %s", c.id, brief(resp))
		c.id, c.phase = "", simJoins
		return
	}
	c.id, c.epoch = resp.MemberID, resp.Generation
	c.note("%s joined generation %d", c.id, c.epoch)
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 5, "g", c.id, c.instance, c.epoch
	req.ProtocolType, req.Protocol = resp.ProtocolType, resp.Protocol
	if resp.LeaderID == c.id {
		req.GroupAssignment = c.assign(resp.Members)
	}
	c.phase, c.retryAt = simSyncing, c.now.Add(simRebalance+20*time.Second)
	c.send(&SyncGroup{Req: req}, c.reply(simSyncing, c.synced))
}

// assign deals the partitions of each topic to those who read it.
func (c *simClient) assign(members []kmsg.JoinGroupResponseMember) (out []kmsg.SyncGroupRequestGroupAssignment) {
	by := map[string]map[string][]int32{}
	for t := range c.w.Img.Topics() {
		var readers []string
		for _, m := range members {
			if topics, _ := subscription(m.ProtocolMetadata); contains(topics, t.Name) {
				readers = append(readers, m.MemberID)
			}
		}
		for i := range t.Partitions {
			if len(readers) > 0 {
				id := readers[i%len(readers)]
				if by[id] == nil {
					by[id] = map[string][]int32{}
				}
				by[id][t.Name] = append(by[id][t.Name], int32(i))
			}
		}
	}
	for _, m := range members {
		a := kmsg.NewConsumerMemberAssignment()
		for name, partitions := range by[m.MemberID] {
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: name, Partitions: partitions})
		}
		g := kmsg.NewSyncGroupRequestGroupAssignment()
		g.MemberID, g.MemberAssignment = m.MemberID, a.AppendTo(nil)
		out = append(out, g)
	}
	return out
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

func (c *simClient) synced(sent time.Time, body any) {
	resp := body.(*kmsg.SyncGroupResponse)
	if resp.ErrorCode != 0 {
		c.lost(resp.ErrorCode)
		return
	}
	a := kmsg.NewConsumerMemberAssignment()
	if len(resp.MemberAssignment) > 0 {
		if err := a.ReadFrom(resp.MemberAssignment); err != nil {
			c.fatal("%v", err)
		}
	}
	c.told = parts{}
	for _, at := range a.Topics {
		if t, ok := c.w.Img.Topic(at.Topic); ok {
			for _, p := range at.Partitions {
				c.told[part{t.ID, p}] = true
			}
		}
	}
	c.note("%s is assigned %s at %d", c.id, brief(a.Topics), c.epoch)
	c.owned, c.phase, c.lastOK, c.due = maps.Clone(c.told), simMember, sent, c.now.Add(simBeat)
}

func (c *simClient) beatClassic() {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 4, "g", c.id, c.instance, c.epoch
	c.due = c.now.Add(simBeat)
	c.send(&Heartbeat{Req: req}, c.reply(simMember, func(sent time.Time, body any) {
		if code := body.(*kmsg.HeartbeatResponse).ErrorCode; code != 0 {
			c.lost(code)
			return
		}
		c.lastOK = sent
	}))
}

// lost is an error: the client gives up what it has, and joins anew, as another if it
// has to.
func (c *simClient) lost(code int16) {
	err := kerr.ErrorForCode(code).(*kerr.Error)
	id := c.id
	c.abandon(err.Message)
	if err == kerr.RebalanceInProgress {
		c.id = id
	} else {
		c.id = ""
	}
}

// lookAgain is what the leader of a classic group does when topics changed: it
// joins again. A static member may read others than it did before.
func (c *simClient) lookAgain() {
	if c.classic && c.phase == simMember {
		c.lost(kerr.RebalanceInProgress.Code)
	}
}

func (c *simClient) quit() {
	if c.phase != simMember {
		return
	}
	c.note("%s leaves", c.id)
	c.running = false
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, "g"
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = c.id, c.instance
	req.Members = append(req.Members, m)
	c.send(&LeaveGroup{Req: req}, func(any) {})
}

//go:build interop

package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func offsetFetchCases() []testCase {
	return []testCase{
		{"GRP-11-offset-fetch", grp11},
		{"GRP-11-offset-fetch-batched", grp11batched},
	}
}

// fetchOffsetsReq asks for partition 0 of topics, or without any for
// everything, in the form of the version.
func fetchOffsetsReq(version int16, group string, topics ...string) *kmsg.OffsetFetchRequest {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Version, r.Group = version, group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	for _, name := range topics {
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = name, []int32{0}
		r.Topics = append(r.Topics, t)
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = name, []int32{0}
		g.Topics = append(g.Topics, gt)
	}
	r.Groups = []kmsg.OffsetFetchRequestGroup{g}
	return r
}

// until waits for what happens in the broker's own time.
func (s *session) until(what string, done func() bool) {
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.note("%s: not within 20 s", what)
			return
		}
	}
	s.note("%s: in the end", what)
}

func grp11(s *session) {
	s.create("of", 3)
	t := s.topic("of")
	g := s.group("of")
	s.ask("two committed", commitReq(7, g, "", -1, t, offsetPart{0, 3}, offsetPart{2, 5}))
	for v := int16(1); v <= 7; v++ {
		one := fetchOffsetsReq(v, g, t)
		one.Topics[0].Partitions = []int32{0, 1, 2, 3, -1, 0}
		s.ask("there, not there, twice", one)
		one.RequireStable = true
		s.ask("stable ones", one)
		s.ask("unknown topic", fetchOffsetsReq(v, g, s.topic("nosuch"), t))
		s.ask("topic twice", fetchOffsetsReq(v, g, t, t))
		s.ask("names that cannot be", fetchOffsetsReq(v, g, "bad name!", ""))
		s.ask("unknown group", fetchOffsetsReq(v, s.group("nosuch"), t))
		s.ask("no group", fetchOffsetsReq(v, "", t))
		none := fetchOffsetsReq(v, g)
		none.Topics = []kmsg.OffsetFetchRequestTopic{}
		s.ask("no topics", none)
		bare := fetchOffsetsReq(v, g, t)
		bare.Topics[0].Partitions = []int32{}
		s.ask("no partitions", bare)
		if v >= 2 {
			s.ask("everything", fetchOffsetsReq(v, g))
			s.ask("everything of an unknown group", fetchOffsetsReq(v, s.group("nosuch")))
			s.ask("everything of no group", fetchOffsetsReq(v, ""))
		}
	}
}

func grp11batched(s *session) {
	id := s.create("ofb", 2)
	t := s.topic("ofb")
	one, two := s.group("ofb1"), s.group("ofb2")
	s.ask("commit", commitReq(7, one, "", -1, t, offsetPart{0, 3}))
	s.ask("commit", commitReq(7, two, "", -1, t, offsetPart{1, 4}))
	for v := int16(8); v <= 10; v++ {
		of := func(group string, all bool) kmsg.OffsetFetchRequestGroup {
			g := fetchOffsetsReq(v, group, t).Groups[0]
			g.Topics[0].TopicID = id
			g.Topics[0].Partitions = []int32{0, 1, 7}
			if all {
				g.Topics = nil
			}
			return g
		}
		with := func(groups ...kmsg.OffsetFetchRequestGroup) *kmsg.OffsetFetchRequest {
			r := kmsg.NewPtrOffsetFetchRequest()
			r.Version, r.Groups = v, append([]kmsg.OffsetFetchRequestGroup{}, groups...)
			return r
		}
		s.ask("two groups", with(of(one, false), of(two, true)))
		s.ask("unknown and nameless groups between", with(of(one, true), of(s.group("nosuch"), true), of("", true), of(s.group("nosuch"), false), of("", false)))
		s.ask("no groups", with())
		twice := with(of(one, true), of(one, false))
		s.ask("a group twice", twice)
		unknown := of(one, false)
		unknown.Topics[0].Topic, unknown.Topics[0].TopicID = s.topic("nosuch"), [16]byte{3, 3}
		s.ask("unknown topic", with(unknown))
		unknown.Topics[0].Topic, unknown.Topics[0].TopicID = "", [16]byte{}
		s.ask("topic without a name", with(unknown))
		empty := of(one, false)
		empty.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
		s.ask("no topics", with(empty))
		if v < 9 {
			continue
		}
		for _, m := range []struct {
			member *string
			epoch  int32
		}{{nil, -1}, {nil, 0}, {kmsg.StringPtr("who"), -1}, {kmsg.StringPtr("who"), 1}, {kmsg.StringPtr(""), -1}, {kmsg.StringPtr(""), 3}} {
			g, n := of(one, false), of(s.group("nosuch"), false)
			g.MemberID, g.MemberEpoch, n.MemberID, n.MemberEpoch = m.member, m.epoch, m.member, m.epoch
			s.ask(fmt.Sprintf("of a group without members, by %v", s.dump(struct{ Member *string }{m.member})), with(g, n))
		}
	}
	stable := fetchOffsetsReq(9, one, t)
	stable.RequireStable = true
	s.ask("stable ones", stable)
}

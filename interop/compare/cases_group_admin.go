//go:build interop

package main

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func groupAdminCases() []testCase {
	return []testCase{
		{"ListGroups-filters", listFilters},
		{"GRP-15-describe", grp15},
		{"GRP-14-delete", grp14},
		{"GRP-16-offsets-alone", grp16},
	}
}

// describe asks for a classic group's description.
func (s *session) describe(label, group string) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = 5, []string{group}
	s.ask(label, req)
}

// list asks for all groups, and shows those of this case alone.
func (s *session) list(label string, version int16, states, types []string) {
	req := kmsg.NewPtrListGroupsRequest()
	req.Version, req.StatesFilter, req.TypesFilter = version, append([]string{}, states...), append([]string{}, types...)
	s.out.WriteString("\n> " + label + ": ListGroups v" + string(rune('0'+version)) + " " + s.dump(req))
	resp, err := s.c().Do(req)
	if err != nil {
		s.hangUp()
		s.out.WriteString("< " + answerError(err) + "\n")
		return
	}
	r := resp.(*kmsg.ListGroupsResponse)
	r.Groups = slices.DeleteFunc(r.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return !strings.HasSuffix(g.Group, s.suffix) })
	s.out.WriteString("< " + s.dumpAnswer(r))
}

// zoo makes groups of every kind and state, and returns their ids.
func (s *session) zoo() []string {
	s.known("zoo", 2)
	t := s.topic("zoo")
	var ids []string
	id := func(base string) string {
		ids = append(ids, s.group(base))
		return ids[len(ids)-1]
	}
	s.do(commitReq(7, id("z-offsets"), "", -1, t, offsetPart{0, 1}))
	s.alone(id("z-stable"))
	p := s.peer("p", id("z-completing"), "range")
	p.join()
	p.answer()
	e := s.alone(id("z-empty"))
	e.ask("leave", e.leaveReq())
	c := s.peer("c", id("z-connect"), "range")
	join := c.joinReq()
	join.ProtocolType = "connect"
	c.ask("join", join)
	join.MemberID = c.id
	c.ask("join", join)
	m := s.consumer("m", id("z-consumer"), t)
	m.beat("join", nil)
	n := s.consumer("n", id("z-consumer-empty"), t)
	n.beat("join", nil)
	n.leave(-1)
	return append(ids, s.group("z-nosuch"), "")
}

func listFilters(s *session) {
	s.zoo()
	for v := int16(0); v <= 5; v++ {
		s.list("all", v, nil, nil)
	}
	for _, v := range []int16{4, 5} {
		for _, states := range [][]string{
			{"Stable"}, {"stable"}, {"STABLE", "Empty"}, {"Empty"}, {"CompletingRebalance"}, {"PreparingRebalance"}, {"Dead"}, {"nonsense"}, {""}, {"Unknown"},
			{"nonsense", "Stable"}, {"Assigning"}, {"Reconciling"}, {" Stable"}, {"Stable", "Stable"},
		} {
			s.list("states", v, states, nil)
		}
	}
	for _, types := range [][]string{{"classic"}, {"Classic"}, {"CONSUMER"}, {"consumer", "classic"}, {"share"}, {"streams"}, {"nonsense"}, {""}, {"nonsense", "consumer"}, {"unknown"}} {
		s.list("types", 5, nil, types)
		s.list("types and states", 5, []string{"stable"}, types)
	}
}

func grp15(s *session) {
	ids := s.zoo()
	for v := int16(0); v <= 6; v++ {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Version, req.Groups, req.IncludeAuthorizedOperations = v, ids, true
		s.ask("every kind", req)
		req.Groups = []string{}
		s.ask("none", req)
		req.Groups = []string{ids[1], ids[1]}
		s.ask("one twice", req)
		req.Groups = []string{ids[7], ids[7], ids[8], ids[8]}
		s.ask("unknown and nameless twice", req)
	}
	for v := int16(0); v <= 1; v++ {
		req := kmsg.NewPtrConsumerGroupDescribeRequest()
		req.Version, req.Groups, req.IncludeAuthorizedOperations = v, ids, true
		s.ask("every kind", req)
		req.Groups, req.IncludeAuthorizedOperations = []string{}, false
		s.ask("none", req)
		req.Groups = []string{ids[5], ids[5]}
		s.ask("one twice", req)
	}
}

func grp14(s *session) {
	ids := s.zoo()
	s.do(commitReq(7, "", "", -1, s.topic("zoo"), offsetPart{0, 1}))
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Version, req.Groups = 3, ids
	s.ask("every kind", req)
	s.list("left", 5, nil, nil)
	for v := int16(0); v <= 3; v++ {
		req.Version, req.Groups = v, ids
		s.ask("again", req)
		req.Groups = []string{}
		s.ask("none", req)
		req.Groups = []string{s.group("z-stable"), s.group("z-stable"), s.group("z-nosuch"), s.group("z-nosuch")}
		s.ask("twice", req)
	}
	s.ask("offsets went with the group", fetchOffsetsReq(7, s.group("z-offsets")))
	s.deleteTopic("zoo")
	s.list("left without the topic", 5, nil, nil)
}

// grp16 has a group that begins as committed offsets.
func grp16(s *session) {
	s.create("c16", 1)
	t := s.topic("c16")
	g := s.group("c16")
	s.ask("commit", commitReq(7, g, "", -1, t, offsetPart{0, 7}))
	for v := int16(0); v <= 5; v++ {
		s.list("offsets alone", v, nil, nil)
	}
	s.describe("offsets alone", g)
	a := s.alone(g)
	s.ask("the offset is still there", fetchOffsetsReq(7, g))
	a.ask("leave", a.leaveReq())
	s.describe("empty again", g)
	s.ask("the offset is still there", fetchOffsetsReq(7, g))
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Version, del.Groups = 3, []string{g}
	s.ask("delete", del)
	s.ask("the offset is gone", fetchOffsetsReq(7, g))
	s.ask("delete again", del)
	del.Version = 0
	s.ask("delete again", del)
	b := s.peer("b", g, "sticky")
	b.join()
	b.answer()
}

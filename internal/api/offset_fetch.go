package api

// OffsetFetch, key 9, versions 1-10.
//
//	v2   topics may be null: all that the group has; errors of the group stand on top
//	v5   leader epochs
//	v7   only offsets that no open transaction may still change (KIP-447)
//	v8   several groups (KIP-709)
//	v9   member id and epoch of the consumer protocol are checked (KIP-848)
//	v10  topics by id
//
// A group, topic or partition without a committed offset is not an error: the
// offset is -1.

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) offsetFetch(ctx context.Context, r *server.Request, req *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse) error {
	if req.Version >= 8 {
		told := make(map[string]bool, len(req.Groups))
		for i := range req.Groups {
			if g := &req.Groups[i]; !told[g.Group] { // each once, as those that are described
				told[g.Group] = true
				resp.Groups = append(resp.Groups, a.fetchGroup(ctx, r, req, g))
			}
		}
		return nil
	}
	asked := kmsg.NewOffsetFetchRequestGroup()
	asked.Group = req.Group
	if req.Topics != nil {
		asked.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(req.Topics))
		for i, t := range req.Topics {
			asked.Topics[i] = kmsg.NewOffsetFetchRequestGroupTopic()
			asked.Topics[i].Topic, asked.Topics[i].Partitions = t.Topic, t.Partitions
		}
	}
	found := a.fetchGroup(ctx, r, req, &asked)
	if req.Version >= 2 {
		resp.ErrorCode = found.ErrorCode
	} else if found.ErrorCode != 0 {
		found.Topics = refuseOffsets(&asked, found.ErrorCode)
	}
	for _, t := range found.Topics {
		out := kmsg.NewOffsetFetchResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			to := kmsg.NewOffsetFetchResponseTopicPartition()
			to.Partition, to.Offset, to.LeaderEpoch, to.Metadata, to.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			out.Partitions = append(out.Partitions, to)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return nil
}

// leaveOutRepeated has each partition of a long request answered once: the answer has the note
// that was left with an offset, which may be a thousand times as long as what asks for it.
func leaveOutRepeated(topics []kmsg.OffsetFetchRequestGroupTopic) {
	const long = 1000
	n := 0
	for i := range topics {
		n += len(topics[i].Partitions)
	}
	if n < long {
		return
	}
	type key struct {
		topic     string
		id        [16]byte
		partition int32
	}
	seen := make(map[key]bool)
	for i := range topics {
		t := &topics[i]
		t.Partitions = slices.DeleteFunc(t.Partitions, func(p int32) bool {
			k := key{t.Topic, t.TopicID, p}
			again := seen[k]
			seen[k] = true
			return again
		})
	}
}

// refuseOffsets answers every partition with one error.
func refuseOffsets(asked *kmsg.OffsetFetchRequestGroup, code int16) []kmsg.OffsetFetchResponseGroupTopic {
	var out []kmsg.OffsetFetchResponseGroupTopic
	for i := range asked.Topics {
		out = append(out, refuseTopic(&asked.Topics[i], code))
	}
	return out
}

func refuseTopic(t *kmsg.OffsetFetchRequestGroupTopic, code int16) kmsg.OffsetFetchResponseGroupTopic {
	out := kmsg.NewOffsetFetchResponseGroupTopic()
	out.Topic, out.TopicID = t.Topic, t.TopicID
	for _, n := range t.Partitions {
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = n, -1, -1, new(string), code
		out.Partitions = append(out.Partitions, p)
	}
	return out
}

func (a *API) fetchGroup(ctx context.Context, r *server.Request, req *kmsg.OffsetFetchRequest, asked *kmsg.OffsetFetchRequestGroup) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = asked.Group
	if err := a.mayDescribe(r, asked.Group); err != nil {
		out.ErrorCode = a.code(err)
		return out
	}
	cmd := &group.FetchOffsets{Group: asked.Group, MemberEpoch: -1, RequireStable: req.RequireStable}
	if req.Version >= 9 {
		cmd.Member, cmd.MemberEpoch = asked.MemberID, asked.MemberEpoch
	}
	leaveOutRepeated(asked.Topics)
	img := a.Image()
	if unknown(img) {
		out.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return out
	}
	var rows []int // where each of the command's topics is answered
	if asked.Topics != nil {
		cmd.Topics = []group.FetchTopic{}
		for i := range asked.Topics {
			in := &asked.Topics[i]
			t, err := a.fetchTopic(r, img, req.Version, in)
			if err != nil {
				out.Topics = append(out.Topics, refuseTopic(in, a.code(err)))
				continue
			}
			t.Partitions = in.Partitions
			cmd.Topics = append(cmd.Topics, t)
			rows = append(rows, len(out.Topics))
			out.Topics = append(out.Topics, kmsg.OffsetFetchResponseGroupTopic{})
		}
	}
	reply, err := a.Groups.Do(ctx, asked.Group, cmd)
	if err == nil {
		err = kerr.ErrorForCode(reply.(*group.OffsetsFetched).Code)
	}
	if err != nil {
		out.Topics, out.ErrorCode = nil, a.code(err)
		return out
	}
	found := reply.(*group.OffsetsFetched).Topics
	if asked.Topics != nil {
		for i, row := range rows {
			out.Topics[row] = fetched(&found[i], asked.Topics[row].TopicID)
		}
		return out
	}
	for i := range found {
		t, there := img.Topic(found[i].Name)
		switch {
		case !a.allow(r, acl.Describe, acl.Topic, found[i].Name):
		case there:
			out.Topics = append(out.Topics, fetched(&found[i], t.ID))
		case req.Version < 10: // a topic that is gone has no id to answer
			out.Topics = append(out.Topics, fetched(&found[i], [16]byte{}))
		}
	}
	return out
}

// fetchTopic is a topic of the command. By name it need not exist.
func (a *API) fetchTopic(r *server.Request, img *meta.Image, version int16, in *kmsg.OffsetFetchRequestGroupTopic) (group.FetchTopic, error) {
	name := in.Topic
	if version >= 10 {
		t, err := a.resolve(img, true, "", in.TopicID)
		if err != nil {
			return group.FetchTopic{}, err
		}
		name = t.Name
	}
	if !a.allow(r, acl.Describe, acl.Topic, name) {
		return group.FetchTopic{}, kerr.TopicAuthorizationFailed
	}
	return group.FetchTopic{Name: name, ID: in.TopicID}, nil
}

func fetched(t *group.FetchedTopic, id [16]byte) kmsg.OffsetFetchResponseGroupTopic {
	out := kmsg.NewOffsetFetchResponseGroupTopic()
	out.Topic, out.TopicID = t.Name, id
	out.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		in, p := &t.Partitions[i], &out.Partitions[i]
		*p = kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = in.Partition, in.Offset, in.LeaderEpoch, &in.Metadata, in.Code
	}
	return out
}

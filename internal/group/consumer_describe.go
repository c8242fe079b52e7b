package group

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// ConsumerGroupDescribe v0-1. Version 1 says which protocol a member speaks.

func (s *step) describeConsumerGroup(to coord.Token, c *DescribeConsumerGroup) {
	out := kmsg.NewConsumerGroupDescribeResponseGroup()
	out.Group = c.Group
	g, cons := s.lookup(c.Group), s.consumerIn(c.Group)
	if cons == nil {
		out.ErrorCode = kerr.GroupIDNotFound.Code
		message := fmt.Sprintf("Group %s not found.", c.Group)
		if g != nil {
			message = fmt.Sprintf("Group %s is not a consumer group.", c.Group)
		}
		out.ErrorMessage = &message
		s.reply(to, &out)
		return
	}
	out.State, out.Epoch, out.AssignmentEpoch = cons.state(), cons.epoch, cons.made.Epoch
	out.AssignorName = s.assignorOf(cons)
	for _, id := range cons.ids() {
		out.Members = append(out.Members, s.describeMember(cons, cons.members[id]))
	}
	s.reply(to, &out)
}

func (c *consumer) ids() []string { return slices.Sorted(maps.Keys(c.members)) }

func (s *step) describeMember(c *consumer, m *consumerMember) kmsg.ConsumerGroupDescribeResponseGroupMember {
	out := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	out.MemberID, out.InstanceID, out.RackID = m.id, m.meta.Instance, m.meta.Rack
	out.MemberEpoch, out.ClientID, out.ClientHost = m.cur.Epoch, m.meta.ClientID, m.meta.Host
	out.SubscribedTopics, out.SubscribedTopicRegex = m.meta.Topics, m.meta.Regex
	out.MemberType = 1
	if m.classic() {
		out.MemberType = 0
	}
	out.Assignment.TopicPartitions = s.named(m.uses())
	out.TargetAssignment.TopicPartitions = s.named(targetOf(c.targets[m.id]).Topics)
	return out
}

// named gives partitions of topics that exist with the topics' names.
func (s *step) named(list []topicPartitions) []kmsg.AssignmentTopicPartition {
	var out []kmsg.AssignmentTopicPartition
	for _, t := range list {
		if topic, ok := s.image.TopicByID(t.Topic); ok {
			p := kmsg.NewAssignmentTopicPartition()
			p.TopicID, p.Topic, p.Partitions = t.Topic, topic.Name, t.Partitions
			out = append(out, p)
		}
	}
	return out
}

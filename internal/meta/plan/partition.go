package plan

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// Election is how a leader may be chosen.
type Election int8

// The elections, in the words of Apache Kafka.
const (
	Online    Election = iota // keep a leader that can go on, else take one who has everything
	Preferred                 // the first replica, when it is in sync
	Unclean                   // as Online, else any replica that is there: may lose records
)

// Settle brings a partition in line with the registrations of the image:
// members that are gone leave the ISR, except that the last one stays; a
// partition whose leader's incarnation is gone gets another leader out of the
// ISR, or out of the eligible replicas when no member of the ISR is there, or
// -1; who is leaving, or to be removed, gives leadership up to others. Its place
// in the ISR is its leader's to take (Outgoing). Leader epoch + 1 whenever the
// leader's incarnation changes, also when the same broker leads again (safety
// 2). A reassignment whose target alone is in sync is completed. ok is false
// when there is nothing to do.
func Settle(img *meta.Image, t *meta.Topic, p *meta.Partition, how Election) (c Change, ok bool) {
	return newSettling(img, t, p).settle(how)
}

// settling makes the next state of a partition: next begins as p, or as what
// somebody wants it to be, and is then brought in line.
type settling struct {
	img      *meta.Image
	t        *meta.Topic
	p, next  *meta.Partition
	eligible []meta.Replica
	unclean  bool
	more     []kv.Cmp // what is assumed beside the state and its leader
}

func newSettling(img *meta.Image, t *meta.Topic, p *meta.Partition) *settling {
	return &settling{img: img, t: t, p: p, next: p.Clone(), eligible: eligible(img, t, p)}
}

func (s *settling) settle(how Election) (Change, bool) {
	s.dropGone()
	s.complete()
	s.next.Leader = s.elect(how)
	s.complete() // the eligible one that was elected may be all of the target
	s.epochs()
	if s.unchanged() {
		return Change{}, false
	}
	s.next.Eligible = nil
	if !s.unclean {
		s.next.Eligible = remainEligible(s.p, s.next, s.eligible, MinInsync(s.img, s.t, s.next))
	}
	s.next.ControllerEpoch = s.img.ControllerEpoch()
	return Change{Next: s.next, If: append(assumed(s.img, s.t, s.p, s.next), s.more...)}, true
}

func (s *settling) unchanged() bool {
	return s.next.Leader == s.p.Leader && s.next.LeaderBrokerEpoch == s.p.LeaderBrokerEpoch &&
		slices.Equal(s.next.ISR, s.p.ISR) && slices.Equal(s.next.Replicas, s.p.Replicas) &&
		slices.Equal(s.next.Adding, s.p.Adding) && slices.Equal(s.next.Removing, s.p.Removing)
}

// there says whether the broker is registered and serves that directory.
func (s *settling) there(r meta.Replica) bool {
	b, ok := s.img.Broker(r.Node)
	return ok && b.Serves(r.Dir)
}

func (s *settling) canLead(r meta.Replica) bool { return canLead(s.img, r) }

func canLead(img *meta.Image, r meta.Replica) bool {
	b, ok := img.Broker(r.Node)
	return ok && b.Serves(r.Dir) && !b.Leaving
}

// dropGone takes members that are gone out of the ISR. When all are gone all
// stay: each of them has every committed record, so whoever returns first can
// lead.
func (s *settling) dropGone() {
	keep := slices.DeleteFunc(slices.Clone(s.next.ISR), func(r meta.Replica) bool { return !s.there(r) })
	if len(keep) > 0 {
		s.next.ISR = keep
	}
}

func (s *settling) elect(how Election) kafka.NodeID {
	if how == Preferred {
		first := s.next.Replicas[0].Node
		if r, ok := s.next.InSync(first); ok && s.canLead(r) {
			return first
		}
	}
	removed := removable(s.img, s.next)
	current, stays := s.next.InSync(s.p.Leader)
	stays = stays && s.there(current) && incumbent(s.img, s.p)
	if stays && s.canLead(current) && !slices.Contains(removed, s.p.Leader) {
		return s.p.Leader
	}
	for _, r := range s.next.Replicas {
		if member, ok := s.next.InSync(r.Node); ok && s.canLead(member) && !slices.Contains(removed, r.Node) {
			return r.Node
		}
	}
	if stays {
		return s.p.Leader // leaving, and nobody else can lead
	}
	if slices.ContainsFunc(s.next.ISR, s.there) {
		return kafka.NoNode // its last member is leaving: what is eligible may be behind it
	}
	// Nothing was committed while the ISR was below min.insync.replicas, so an
	// eligible replica has everything (KIP-966, safety 8).
	for _, r := range s.eligible {
		if _, ok := s.next.Replica(r.Node); ok && s.canLead(r) {
			s.next.ISR = []meta.Replica{r}
			return r.Node
		}
	}
	if how == Unclean {
		return s.electAnyone()
	}
	return kafka.NoNode
}

// electAnyone takes a replica that is there, whatever it has; where none is, one
// that lost its log for good, and begins it anew.
func (s *settling) electAnyone() kafka.NodeID {
	for _, r := range s.next.Replicas {
		if was, _ := s.p.InSync(r.Node); s.canLead(r) && was.Dir != kafka.DirLost {
			s.next.ISR, s.unclean = []meta.Replica{r}, true
			return r.Node
		}
	}
	for _, r := range s.next.Replicas {
		if b, ok := s.img.Broker(r.Node); ok && !b.Leaving && len(b.Offline) == 0 {
			unname(s.next.Replicas, r.Node)
			s.next.ISR, s.unclean = []meta.Replica{{Node: r.Node}}, true
			return r.Node
		}
	}
	return kafka.NoNode
}

// incumbent says whether the leader's incarnation is the one that was elected.
func incumbent(img *meta.Image, p *meta.Partition) bool {
	b, ok := img.Broker(p.Leader)
	return ok && b.Epoch == p.LeaderBrokerEpoch
}

func (s *settling) epochs() {
	s.next.LeaderBrokerEpoch = 0
	if b, ok := s.img.Broker(s.next.Leader); ok {
		s.next.LeaderBrokerEpoch = b.Epoch
	}
	if s.next.Leader != s.p.Leader || s.next.LeaderBrokerEpoch != s.p.LeaderBrokerEpoch {
		s.next.LeaderEpoch++
	}
	switch {
	case s.next.Leader >= 0:
		s.next.LastKnownLeader = kafka.NoNode
	case s.p.Leader >= 0:
		s.next.LastKnownLeader = s.p.Leader
	}
}

// MinInsync is min.insync.replicas of a partition as far as eligible leaders
// are concerned: the topic's override, else the cluster's dynamic default,
// else 1, and never more than there are replicas, without those that are being
// added: so it is never above what the leader asks for (safety 8, 30). What a broker has in its own
// file does not count (KIP-966): it may differ between brokers.
func MinInsync(img *meta.Image, t *meta.Topic, p *meta.Partition) int {
	const key = "min.insync.replicas"
	v, ok := img.TopicConfig(t.Name)[key]
	if !ok {
		v = img.ClusterConfig()[key]
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		n = 1
	}
	return min(n, p.Counted())
}

// eligible are the eligible leaders that may be trusted. A change of
// configuration after the state was written voids them: min.insync.replicas
// may have been lower meanwhile, and the high watermark have moved on.
func eligible(img *meta.Image, t *meta.Topic, p *meta.Partition) []meta.Replica {
	if max(img.TopicOverrides(t.Name).ModRev, img.ClusterOverrides().ModRev) > p.PartitionEpoch {
		return nil
	}
	return p.Eligible
}

// remainEligible are the eligible leaders beside a new ISR: those that were
// and those that leave the ISR, while it is below min.insync.replicas.
func remainEligible(p, next *meta.Partition, eligible []meta.Replica, minInsync int) []meta.Replica {
	if len(next.ISR) >= minInsync {
		return nil
	}
	var out []meta.Replica
	for _, r := range next.Replicas {
		for _, was := range slices.Concat(p.ISR, eligible) {
			if _, in := next.InSync(was.Node); was.Node == r.Node && !in && was.Dir != kafka.DirLost {
				out = append(out, was)
				break
			}
		}
	}
	return out
}

// assumed are the compares of a state's change: its revision, the leader's
// registration (safety 2), and the configuration that eligible leaders rest on.
func assumed(img *meta.Image, t *meta.Topic, p, next *meta.Partition) []kv.Cmp {
	keys := img.Keys()
	out := []kv.Cmp{kv.ModIs(keys.State(p.Topic, p.Partition), p.PartitionEpoch)}
	if b, ok := img.Broker(next.Leader); ok {
		out = append(out, kv.ModIs(keys.Broker(b.ID), b.ModRev))
	}
	if len(next.Eligible) > 0 {
		out = append(out,
			kv.ModIs(keys.TopicConfig(t.Name), img.TopicOverrides(t.Name).ModRev),
			kv.ModIs(keys.ClusterConfig(), img.ClusterOverrides().ModRev))
	}
	return out
}

func without(rs []meta.Replica, node kafka.NodeID) []meta.Replica {
	return slices.DeleteFunc(slices.Clone(rs), func(r meta.Replica) bool { return r.Node == node })
}

// ElectLeader plans an election that somebody asked for (KIP-460). how is
// Preferred or Unclean. Refusals: UNKNOWN_TOPIC_OR_PARTITION,
// ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE,
// ELIGIBLE_LEADERS_NOT_AVAILABLE.
func ElectLeader(img *meta.Image, topic string, partition int32, how Election) (Change, error) {
	t, ok := img.Topic(topic)
	if !ok {
		return Change{}, refuse(kerr.UnknownTopicOrPartition, "No such topic as %s", topic)
	}
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return Change{}, refuse(kerr.UnknownTopicOrPartition, "No such partition as %s-%d", topic, partition)
	}
	p := t.Partitions[partition]
	if incumbent(img, p) && (how == Unclean || p.Leader == p.Replicas[0].Node) {
		return Change{}, refuse(kerr.ElectionNotNeeded, "Leader election not needed for topic partition.")
	}
	c, ok := Settle(img, t, p, how)
	switch {
	case how == Preferred && (!ok || c.Next.Leader != p.Replicas[0].Node):
		return Change{}, refuse(kerr.PreferredLeaderNotAvailable, "The preferred leader was not available.")
	case how == Unclean && (!ok || c.Next.Leader < 0):
		return Change{}, refuse(kerr.EligibleLeadersNotAvailable, "Eligible topic partition leaders are not available.")
	}
	return c, nil
}

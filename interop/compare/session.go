//go:build interop

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

// session runs one case against one broker and keeps the transcript.
type session struct {
	addr     string
	suffix   string   // makes topic names new on a broker that was asked before
	messages bool     // keep the wording of error messages
	sorted   bool     // sort lists while dumping
	further  []string // fields to sort by besides
	step     string   // tells ids that topics of one name had one after the other
	altered  bool     // settings were changed, and perhaps not seen yet
	out      bytes.Buffer

	recompressed bool // the broker compressed: what sizes come out is its own affair
	conn         *raw.Conn
	peers        []*raw.Conn // of the members, to be closed with the session
	ids          map[[16]byte]string
	members      map[string]string // ids that the broker gave, and their names here
	aliases      map[string]string
	counts       map[string]int
	fixedPIDs    map[int64]bool // producer ids that the case itself chose
}

func newSession(addr, suffix string, messages bool) *session {
	return &session{
		addr: addr, suffix: suffix, messages: messages,
		ids: map[[16]byte]string{}, members: map[string]string{}, aliases: map[string]string{}, counts: map[string]int{}, fixedPIDs: map[int64]bool{},
	}
}

// failure ends a case early; the transcript up to it stands.
type failure struct{ error }

func (s *session) fail(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

// topic is the name of base on this run.
func (s *session) topic(base string) string { return base + s.suffix }

// badText is what stands for bytes that are no text; how many of them make one
// is the decoder's affair.
var badText = regexp.MustCompile("\ufffd+")

// plain takes the run's suffix and the broker's member ids out of a text.
func (s *session) plain(x string) string {
	for id, name := range s.members {
		x = strings.ReplaceAll(x, id, name)
	}
	x = badText.ReplaceAllString(strings.ToValidUTF8(strings.ReplaceAll(x, s.suffix, ""), "\ufffd"), "\ufffd")
	return strings.ReplaceAll(x, s.addr, "<addr>")
}

func (s *session) alias(kind string, x int64) string {
	key := fmt.Sprint(kind, x)
	if a, ok := s.aliases[key]; ok {
		return a
	}
	s.counts[kind]++
	a := fmt.Sprintf("<%s%d>", kind, s.counts[kind])
	s.aliases[key] = a
	return a
}

func (s *session) note(format string, args ...any) {
	fmt.Fprintf(&s.out, "# "+format+"\n", args...)
}

// c is the session's connection, made anew after a hang-up.
func (s *session) c() *raw.Conn {
	if s.conn == nil {
		c, err := raw.Dial(s.addr)
		if err != nil {
			s.fail("dial: %v", err)
		}
		s.conn = c
	}
	return s.conn
}

func (s *session) hangUp() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// close hangs up all connections.
func (s *session) close() {
	s.hangUp()
	for _, c := range s.peers {
		c.Close()
	}
}

// ask sends req, writes question and answer down, and returns the answer, or
// nil when the broker hung up or the answer could not be read.
func (s *session) ask(label string, req kmsg.Request) kmsg.Response {
	switch req.(type) {
	case *kmsg.AlterConfigsRequest, *kmsg.IncrementalAlterConfigsRequest:
		s.altered = true
	case *kmsg.DescribeConfigsRequest:
		if s.altered {
			s.shown()
		}
	}
	fmt.Fprintf(&s.out, "\n> %s: %s v%d ", label, kmsg.NameForKey(req.Key()), req.GetVersion())
	s.out.WriteString(s.dump(req))
	resp, err := s.c().Do(req)
	if err != nil {
		s.hangUp()
		s.out.WriteString("< " + answerError(err) + "\n")
		return nil
	}
	s.learn(resp)
	s.out.WriteString("< " + s.dumpAnswer(resp))
	return resp
}

func answerError(err error) string {
	if errors.Is(err, io.EOF) {
		return "connection closed without an answer"
	}
	return "no answer: " + err.Error()
}

// do is ask without the transcript, for setting up; it fails the case when
// there is no answer.
func (s *session) do(req kmsg.Request) kmsg.Response {
	resp, err := s.c().Do(req)
	if err != nil {
		s.hangUp()
		s.fail("%s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	s.learn(resp)
	return resp
}

// learn gives names to the topic ids and member ids of an answer.
func (s *session) learn(resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			s.learnID(t.TopicID, t.Topic)
		}
	case *kmsg.MetadataResponse:
		for _, t := range r.Topics {
			if t.Topic != nil && t.ErrorCode == 0 {
				s.learnID(t.TopicID, *t.Topic)
			}
		}
	case *kmsg.JoinGroupResponse:
		s.learnMember(r.MemberID)
		// Instances whose own answer is still to come.
		others := slices.Clone(r.Members)
		slices.SortFunc(others, func(a, b kmsg.JoinGroupResponseMember) int { return strings.Compare(a.MemberID, b.MemberID) })
		for _, m := range others {
			if m.InstanceID != nil {
				s.learnMember(m.MemberID)
			}
		}
	case *kmsg.DescribeConfigsResponse: // in no order
		for _, of := range r.Resources {
			slices.SortFunc(of.Configs, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int { return strings.Compare(a.Name, b.Name) })
		}
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if r.MemberID != nil {
			s.learnMember(*r.MemberID)
		}
	}
}

// memberID is an id as a broker makes them: a UUID, in base 64 or not, which
// may stand behind what the member is called by.
var memberID = regexp.MustCompile(`^(?:.*-)?[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$|^(?:.*-)?[A-Za-z0-9_-]{22}$`)

// learnMember names an id that the broker made; one of the case's own stays.
func (s *session) learnMember(id string) {
	if !memberID.MatchString(id) || s.members[id] != "" {
		return
	}
	s.counts["member"]++
	s.members[id] = fmt.Sprintf("<member%d>", s.counts["member"])
}

func (s *session) learnID(id [16]byte, topic string) {
	if id == ([16]byte{}) {
		return
	}
	if _, ok := s.ids[id]; ok {
		return
	}
	name := s.plain(topic)
	if s.step != "" {
		s.ids[id] = name + "@" + s.step
		return
	}
	s.counts["id "+name]++
	if n := s.counts["id "+name]; n > 1 {
		name = fmt.Sprintf("%s#%d", name, n)
	}
	s.ids[id] = name
}

// create makes a topic (configs alternate key and value), waits until it has
// leaders, and returns its id. Its records are kept, however old they say they
// are: a check of retention may come at any time.
func (s *session) create(base string, partitions int32, configs ...string) [16]byte {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	req.TimeoutMillis = 10000
	t := newTopic(s.topic(base), partitions, 1, append([]string{"retention.ms", "-1"}, configs...)...)
	req.Topics = append(req.Topics, t)
	r := s.do(req).(*kmsg.CreateTopicsResponse)
	if r.Topics[0].ErrorCode != 0 {
		s.fail("create %s: %s", base, errName(r.Topics[0].ErrorCode))
	}
	s.awaitLeaders(base, partitions)
	return r.Topics[0].TopicID
}

func newTopic(name string, partitions int32, rf int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, rf
	for i := 0; i+1 < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], kmsg.StringPtr(configs[i+1])
		t.Configs = append(t.Configs, c)
	}
	return t
}

func (s *session) awaitLeaders(base string, partitions int32) {
	for deadline := time.Now().Add(15 * time.Second); ; {
		r := s.do(metadata(9, false, s.topic(base))).(*kmsg.MetadataResponse)
		n := 0
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 && p.Leader >= 0 && s.leads(base, p.Partition) {
					n++
				}
			}
		}
		if n == int(partitions) {
			return
		}
		if time.Now().After(deadline) {
			s.fail("topic %s: %d of %d partitions have a leader", base, n, partitions)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// leads tells whether the broker itself knows that it leads the partition.
func (s *session) leads(base string, p int32) bool {
	r := s.do(listOffsets(4, s.topic(base), offsetAsk{p, -1, -1})).(*kmsg.ListOffsetsResponse)
	return r.Topics[0].Partitions[0].ErrorCode == 0
}

func metadata(version int16, autoCreate bool, topics ...string) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Version = version
	r.AllowAutoTopicCreation = autoCreate
	r.Topics = []kmsg.MetadataRequestTopic{}
	for _, t := range topics {
		mt := kmsg.NewMetadataRequestTopic()
		mt.Topic = kmsg.StringPtr(t)
		r.Topics = append(r.Topics, mt)
	}
	return r
}

// part is one partition of a produce request.
type part struct {
	p    int32
	data []byte
}

func produce(version, acks int16, topic string, id [16]byte, parts ...part) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis = version, acks, 10000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, id
	for _, p := range parts {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p.p, p.data
		t.Partitions = append(t.Partitions, rp)
	}
	r.Topics = append(r.Topics, t)
	return r
}

// fetchAsk is one partition of a fetch request.
type fetchAsk struct {
	p      int32
	offset int64
	max    int32 // 0 is 1 MiB
}

func fetch(version int16, topic string, id [16]byte, asks ...fetchAsk) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.MaxWaitMillis, r.MinBytes, r.MaxBytes = version, 0, 1, 50<<20
	r.SessionEpoch = -1
	if len(asks) > 0 {
		r.Topics = append(r.Topics, fetchTopic(topic, id, asks...))
	}
	return r
}

func fetchTopic(topic string, id [16]byte, asks ...fetchAsk) kmsg.FetchRequestTopic {
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, id
	for _, a := range asks {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = a.p, a.offset, a.max
		if a.max == 0 {
			p.PartitionMaxBytes = 1 << 20
		}
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

// offsetAsk is one partition of a ListOffsets request.
type offsetAsk struct {
	p         int32
	timestamp int64
	epoch     int32 // current leader epoch
}

func listOffsets(version int16, topic string, asks ...offsetAsk) *kmsg.ListOffsetsRequest {
	r := kmsg.NewPtrListOffsetsRequest()
	r.Version = version
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, a := range asks {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = a.p, a.timestamp, a.epoch
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = append(r.Topics, t)
	return r
}

// put produces batches that must be accepted.
func (s *session) put(base string, p int32, batches ...[]byte) {
	for _, b := range batches {
		r := s.do(produce(9, -1, s.topic(base), [16]byte{}, part{p, b})).(*kmsg.ProduceResponse)
		if code := r.Topics[0].Partitions[0].ErrorCode; code != 0 {
			s.fail("produce to %s-%d: %s", base, p, errName(code))
		}
	}
}

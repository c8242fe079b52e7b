//go:build interop

package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

// side is one of the two brokers of a random run.
type side struct {
	*session
	keys     map[int16]bool // that it advertises
	dirs     []string       // log directories
	barriers int
	born     map[string][]int // in which steps both brokers learned an id of a topic
}

// configResource names a thing that has configuration.
type configResource struct {
	kind kmsg.ConfigResourceType
	name string
}

// barrierTopic has its configuration changed to learn how far a broker is.
const barrierTopic = "barrier"

func newSide(addr string) (*side, error) {
	s := &side{session: newSession(addr, "", false), keys: map[int16]bool{}}
	s.further = []string{"ResourceType", "ResourceName", "Type", "Name", "Dir", "Key", "Feature", "ProducerID"}
	return s, s.try(func() error {
		v := s.do(apiVersions(3, "interop", "1.0")).(*kmsg.ApiVersionsResponse)
		for _, k := range v.ApiKeys {
			s.keys[k.ApiKey] = true
		}
		if s.keys[35] {
			req := kmsg.NewPtrDescribeLogDirsRequest()
			req.Version = 4
			for _, d := range s.do(req).(*kmsg.DescribeLogDirsResponse).Dirs {
				s.dirs = append(s.dirs, d.Dir)
			}
			slices.Sort(s.dirs)
			for i, d := range s.dirs {
				s.members[d] = fmt.Sprintf("<dir%d>", i)
			}
		}
		return s.offsetsTopic()
	})
}

// try turns a case's failure into an error.
func (s *side) try(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			var ok bool
			if err, ok = r.(failure); !ok {
				panic(r)
			}
		}
	}()
	return f()
}

// offsetsTopic waits for the topic of groups, which only comes when asked for.
func (s *side) offsetsTopic() error {
	return s.await("the offsets topic", func() bool {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorKeys = 4, []string{"any"}
		r := s.do(req).(*kmsg.FindCoordinatorResponse)
		if r.Coordinators[0].ErrorCode != 0 {
			return false
		}
		d := kmsg.NewPtrDescribeGroupsRequest()
		d.Groups = groupNames
		for _, g := range s.do(d).(*kmsg.DescribeGroupsResponse).Groups {
			if g.ErrorCode != 0 {
				return false
			}
		}
		return true
	})
}

// await polls for what a broker does in its own time.
func (s *side) await(what string, f func() bool) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if f() {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: waited 30 s in vain", what)
		}
	}
}

// clean takes everything away that is not the broker's own.
func (s *side) clean() error {
	all := metadata(12, false)
	all.Topics = nil
	var names []string
	for _, t := range s.do(all).(*kmsg.MetadataResponse).Topics {
		if !t.IsInternal {
			names = append(names, *t.Topic)
		}
	}
	s.deleteTopics(names...)
	list := kmsg.NewPtrListGroupsRequest()
	drop := kmsg.NewPtrDeleteGroupsRequest()
	for _, g := range s.do(list).(*kmsg.ListGroupsResponse).Groups {
		drop.Groups = append(drop.Groups, g.Group)
	}
	s.do(drop)
	things := []configResource{{kmsg.ConfigResourceTypeBroker, ""}, {kmsg.ConfigResourceTypeBroker, "1"}, {kmsg.ConfigResourceTypeBrokerLogger, "1"}}
	if s.keys[74] {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.Version = 1
		for _, c := range s.do(req).(*kmsg.ListConfigResourcesResponse).ConfigResources {
			if kind := kmsg.ConfigResourceType(c.Type); kind == kmsg.ConfigResourceTypeClientMetrics || kind == kmsg.ConfigResourceTypeGroupConfig {
				things = append(things, configResource{kind, c.Name})
			}
		}
	}
	if err := s.resetConfigs(things...); err != nil {
		return err
	}
	err := s.await("deletion", func() bool {
		all := metadata(12, false)
		all.Topics = nil
		return !slices.ContainsFunc(s.do(all).(*kmsg.MetadataResponse).Topics, func(t kmsg.MetadataResponseTopic) bool { return !t.IsInternal })
	})
	if err != nil {
		return err
	}
	clear(s.ids)
	s.create(barrierTopic, 1)
	return nil
}

func (s *side) deleteTopics(names ...string) {
	if len(names) == 0 {
		return
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 5, 30000, names
	s.do(req)
}

// resetConfigs deletes what is set dynamically.
func (s *side) resetConfigs(of ...configResource) error {
	for _, c := range of {
		ask := kmsg.NewPtrDescribeConfigsRequest()
		ask.Version = 4
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = c.kind, c.name
		ask.Resources = append(ask.Resources, r)
		alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
		alter.Version = 1
		a := kmsg.NewIncrementalAlterConfigsRequestResource()
		a.ResourceType, a.ResourceName = c.kind, c.name
		for _, e := range s.do(ask).(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
			if int8(e.Source) != dynamicSource(c) || c.name == "" && e.Name == "min.insync.replicas" {
				continue // the last is for ever with eligible leader replicas
			}
			x := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			x.Name, x.Op = e.Name, kmsg.IncrementalAlterConfigOpDelete
			a.Configs = append(a.Configs, x)
		}
		if len(a.Configs) == 0 {
			continue
		}
		alter.Resources = append(alter.Resources, a)
		s.do(alter)
	}
	return nil
}

// dynamicSource is what DescribeConfigs calls the settings that can be
// deleted from a resource.
func dynamicSource(c configResource) int8 {
	switch c.kind {
	case kmsg.ConfigResourceTypeTopic:
		return 1
	case kmsg.ConfigResourceTypeBroker:
		if c.name == "" {
			return 3
		}
		return 2
	case kmsg.ConfigResourceTypeBrokerLogger:
		return 6
	case kmsg.ConfigResourceTypeClientMetrics:
		return 7
	}
	return 8
}

// barrier changes the configuration of a topic and waits until the broker
// shows it: all that was changed before has come into effect then, for changes
// are applied one after the other.
func (s *side) barrier() error {
	s.barriers++
	want := fmt.Sprint(1000 + s.barriers%1000)
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.Version = 1
	a := kmsg.NewIncrementalAlterConfigsRequestResource()
	a.ResourceType, a.ResourceName = kmsg.ConfigResourceTypeTopic, barrierTopic
	x := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	x.Name, x.Value = "flush.messages", &want
	a.Configs = append(a.Configs, x)
	alter.Resources = append(alter.Resources, a)
	if code := s.do(alter).(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode; code != 0 {
		return fmt.Errorf("barrier: %w", kerr.ErrorForCode(code))
	}
	ask := kmsg.NewPtrDescribeConfigsRequest()
	ask.Version = 4
	d := kmsg.NewDescribeConfigsRequestResource()
	d.ResourceType, d.ResourceName, d.ConfigNames = kmsg.ConfigResourceTypeTopic, barrierTopic, []string{x.Name}
	ask.Resources = append(ask.Resources, d)
	return s.await("barrier", func() bool {
		r := s.do(ask).(*kmsg.DescribeConfigsResponse).Resources[0]
		return len(r.Configs) == 1 && r.Configs[0].Value != nil && *r.Configs[0].Value == want
	})
}

// digest is what a broker holds: topics, leaders, and where logs begin and
// end. Each line begins with the name of the topic and a tab.
func (s *side) digest() (string, error) {
	all := metadata(12, false)
	all.Topics = nil
	m := s.do(all).(*kmsg.MetadataResponse)
	s.learn(m)
	lines := map[string]string{}
	var asks [2]*kmsg.ListOffsetsRequest
	for i, ts := range []int64{-2, -1} {
		asks[i] = kmsg.NewPtrListOffsetsRequest()
		asks[i].Version = 7
		for _, t := range m.Topics {
			if t.IsInternal {
				continue
			}
			one := listOffsets(7, *t.Topic).Topics[0]
			for _, p := range t.Partitions {
				q := kmsg.NewListOffsetsRequestTopicPartition()
				q.Partition, q.Timestamp = p.Partition, ts
				one.Partitions = append(one.Partitions, q)
			}
			asks[i].Topics = append(asks[i].Topics, one)
			lines[*t.Topic] = fmt.Sprintf("error %s, %d partitions", errName(t.ErrorCode), len(t.Partitions))
		}
	}
	for _, ask := range asks {
		for _, t := range s.do(ask).(*kmsg.ListOffsetsResponse).Topics {
			slices.SortFunc(t.Partitions, func(a, b kmsg.ListOffsetsResponseTopicPartition) int { return int(a.Partition - b.Partition) })
			for _, p := range t.Partitions {
				lines[t.Topic] += fmt.Sprintf(" %d:%s:%d", p.Partition, errName(p.ErrorCode), p.Offset)
			}
		}
	}
	var out []string
	for name, text := range lines {
		out = append(out, name+"\t"+text)
	}
	slices.Sort(out)
	return strings.Join(out, "\n"), nil
}

// topicID is the broker's id of a topic that was learned in a step.
func (s *side) topicID(name string, step int) ([16]byte, bool) {
	for id, n := range s.ids {
		if n == fmt.Sprintf("%s@%d", name, step) {
			return id, true
		}
	}
	return [16]byte{}, false
}

// own puts the broker's own ids and directories into a request.
func (s *side) own(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			s.own(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				s.own(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			s.own(v.Index(i))
		}
	case reflect.String:
		for i, d := range s.dirs {
			if v.String() == fmt.Sprintf("<dir%d>", i) {
				v.SetString(d)
			}
		}
	case reflect.Array:
		id, ok := v.Interface().([16]byte)
		if !ok {
			return
		}
		if name, back, ok := placeholder(id); ok {
			if steps := s.born[name]; back < len(steps) {
				id, _ := s.topicID(name, steps[len(steps)-1-back])
				v.Set(reflect.ValueOf(id))
			}
		}
	}
}

// askPlain sends a request as it is, and gives question and answer as text.
func (s *side) askPlain(req kmsg.Request) string {
	s.own(reflect.ValueOf(req))
	head := fmt.Sprintf("> %s v%d %s", kmsg.NameForKey(req.Key()), req.GetVersion(), s.dump(req))
	resp, err := s.c().Do(req)
	if err != nil {
		s.hangUp()
		return head + "< " + answerError(err) + "\n"
	}
	return head + "< " + s.answer(resp)
}

// answer is an answer as text, without what only concerns the broker.
func (s *side) answer(resp kmsg.Response) string {
	s.learn(resp)
	s.hide(resp)
	return s.dumpAnswer(resp)
}

// redial is a connection of its own for a request that may end it.
func (s *side) redial() *raw.Conn {
	c, err := raw.Dial(s.addr)
	if err != nil {
		s.fail("dial: %v", err)
	}
	return c
}

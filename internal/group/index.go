package group

import (
	"maps"
	"slices"
)

// topicIndex lists, by topic name, the groups that are to hear of a change to
// it: consumer groups that read it, whether or not it exists. It is made of
// records alone, but for what it remembers of the metadata.
type topicIndex struct {
	names map[string]*indexedTopic
	// created is the revision of the last image that brought a new topic:
	// regular expressions looked at before may match it.
	created int64
}

type indexedTopic struct {
	groups map[string]struct{}
	hash   uint64 // of the topic's metadata, where hashed
	hashed bool
}

func (x *topicIndex) add(topic, group string) {
	t := x.names[topic]
	if t == nil {
		if x.names == nil {
			x.names = map[string]*indexedTopic{}
		}
		t = &indexedTopic{groups: map[string]struct{}{}}
		x.names[topic] = t
	}
	t.groups[group] = struct{}{}
}

func (x *topicIndex) remove(topic, group string) {
	if t := x.names[topic]; t != nil {
		delete(t.groups, group)
		if len(t.groups) == 0 {
			delete(x.names, topic)
		}
	}
}

// changed forgets what is known of a topic, and gives the groups that read it.
func (x *topicIndex) changed(topic string) []string {
	t := x.names[topic]
	if t == nil {
		return nil
	}
	t.hashed = false
	return slices.Sorted(maps.Keys(t.groups))
}

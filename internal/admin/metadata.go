package admin

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
)

// Metadata answers GET /metadata/PATH from an image: the cluster's state by
// the paths, and in the shapes, that operators know from ZooKeeper. It is a
// view for people: the keys of the store itself are those of meta.Keys. A path
// with others below it answers their names.
func Metadata(image func() *meta.Image) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		img := image()
		if img == nil {
			http.Error(w, "the metadata is not there yet", http.StatusServiceUnavailable)
			return
		}
		path := strings.Trim(strings.TrimPrefix(r.URL.Path, "/metadata"), "/")
		v, ok := node(img, path)
		if !ok {
			http.Error(w, "there is no /"+path, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(v) // who hung up does not want it
	})
}

// children are the names below a path.
type children struct {
	Children []string `json:"children"`
}

// node is what stands at a path, without the slashes around it.
func node(img *meta.Image, path string) (any, bool) {
	if path == "" {
		return children{[]string{"brokers", "cluster", "config", "controller", "controller_epoch", "features"}}, true
	}
	switch p := strings.Split(path, "/"); p[0] {
	case "brokers":
		return brokersNode(img, p[1:])
	case "cluster":
		return leaf(p, map[string]any{"version": "1", "id": img.ClusterID()})
	case "controller":
		id, _ := img.Controller()
		if id == kafka.NoNode {
			return nil, false
		}
		return leaf(p, map[string]any{"version": 1, "brokerid": id})
	case "controller_epoch":
		return leaf(p, img.ControllerEpoch())
	case "features":
		levels, epoch := img.Features()
		return leaf(p, map[string]any{"epoch": epoch, "levels": levels})
	case "config":
		return configNode(img, p[1:])
	}
	return nil, false
}

func leaf(path []string, v any) (any, bool) { return v, len(path) == 1 }

func brokersNode(img *meta.Image, p []string) (any, bool) {
	switch {
	case len(p) == 0:
		return children{[]string{"ids", "topics"}}, true
	case p[0] == "ids":
		return registration(img, p[1:])
	case p[0] == "topics":
		return topicNode(img, p[1:])
	}
	return nil, false
}

func registration(img *meta.Image, p []string) (any, bool) {
	if len(p) == 0 {
		out := children{[]string{}}
		for _, b := range img.Brokers() {
			out.Children = append(out.Children, b.ID.String())
		}
		return out, true
	}
	b, ok := img.Broker(parseNode(p[0]))
	if !ok || len(p) > 1 {
		return nil, false
	}
	endpoints := []string{}
	for _, l := range b.Listeners {
		endpoints = append(endpoints, l.Name+"://"+l.Host+":"+strconv.Itoa(int(l.Port)))
	}
	return map[string]any{"version": 5, "endpoints": endpoints, "rack": b.Rack, "epoch": b.Epoch, "start_id": b.StartID, "leaving": b.Leaving,
		"directories": b.Dirs, "offline_directories": b.Offline, "features": b.Features}, true
}

func parseNode(s string) kafka.NodeID {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return kafka.NoNode
	}
	return kafka.NodeID(n)
}

func topicNode(img *meta.Image, p []string) (any, bool) {
	if len(p) == 0 {
		out := children{[]string{}}
		for t := range img.Topics() {
			out.Children = append(out.Children, t.Name)
		}
		return out, true
	}
	t, ok := img.Topic(p[0])
	if !ok || len(p) > 4 || len(p) > 1 && p[1] != "partitions" {
		return nil, false
	}
	switch len(p) {
	case 1:
		return assignment(t), true
	case 2:
		out := children{[]string{}}
		for i := range t.Partitions {
			out.Children = append(out.Children, strconv.Itoa(i))
		}
		return out, true
	}
	n, err := strconv.Atoi(p[2])
	if err != nil || n < 0 || n >= len(t.Partitions) || t.Partitions[n] == nil {
		return nil, false
	}
	if len(p) == 3 {
		return children{[]string{"state"}}, true
	}
	return state(t.Partitions[n]), p[3] == "state"
}

// assignment is a topic: the replicas of each partition.
func assignment(t *meta.Topic) any {
	replicas, adding, removing := map[string][]kafka.NodeID{}, map[string][]kafka.NodeID{}, map[string][]kafka.NodeID{}
	for i, p := range t.Partitions {
		if p == nil {
			continue
		}
		name := strconv.Itoa(i)
		replicas[name] = nodes(p.Replicas)
		if len(p.Adding) > 0 {
			adding[name] = p.Adding
		}
		if len(p.Removing) > 0 {
			removing[name] = p.Removing
		}
	}
	return map[string]any{"version": 3, "topic_id": t.ID, "partitions": replicas, "adding_replicas": adding, "removing_replicas": removing}
}

// state is one partition's state. The first five fields are those that stood
// in ZooKeeper; the rest is what Barnabas needs beside them.
func state(p *meta.Partition) any {
	return struct {
		Version           int               `json:"version"`
		Leader            kafka.NodeID      `json:"leader"`
		LeaderEpoch       kafka.LeaderEpoch `json:"leader_epoch"`
		ISR               []kafka.NodeID    `json:"isr"`
		ControllerEpoch   int32             `json:"controller_epoch"`
		Replicas          []kafka.NodeID    `json:"replicas"`
		Directories       []kafka.DirID     `json:"directories"`
		LeaderBrokerEpoch int64             `json:"leader_broker_epoch"`
		Eligible          []kafka.NodeID    `json:"eligible_leaders"`
		LastKnownLeader   kafka.NodeID      `json:"last_known_leader"`
		PartitionEpoch    int64             `json:"partition_epoch"`
	}{1, p.Leader, p.LeaderEpoch, nodes(p.ISR), p.ControllerEpoch, nodes(p.Replicas), dirs(p.Replicas), p.LeaderBrokerEpoch, nodes(p.Eligible),
		p.LastKnownLeader, p.PartitionEpoch}
}

func nodes(rs []meta.Replica) []kafka.NodeID {
	out := []kafka.NodeID{}
	for _, r := range rs {
		out = append(out, r.Node)
	}
	return out
}

func dirs(rs []meta.Replica) []kafka.DirID {
	out := []kafka.DirID{}
	for _, r := range rs {
		out = append(out, r.Dir)
	}
	return out
}

// configNode is what was set; secrets never are.
func configNode(img *meta.Image, p []string) (any, bool) {
	shown := func(set map[string]string) any {
		kept := maps.Clone(set)
		if kept == nil {
			kept = map[string]string{}
		}
		for _, k := range slices.Collect(maps.Keys(kept)) {
			if secret(k) {
				kept[k] = "[hidden]"
			}
		}
		return map[string]any{"version": 1, "config": kept}
	}
	switch {
	case len(p) == 0:
		return children{[]string{"brokers", "groups", "topics"}}, true
	case p[0] == "groups" && len(p) == 1:
		return children{slices.Collect(img.ConfiguredGroups())}, true
	case p[0] == "groups" && len(p) == 2:
		return shown(img.GroupConfig(p[1])), true
	case p[0] == "topics" && len(p) == 2:
		_, ok := img.Topic(p[1])
		return shown(img.TopicConfig(p[1])), ok
	case p[0] == "brokers" && len(p) == 2 && p[1] == "default":
		return shown(img.ClusterConfig()), true
	case p[0] == "brokers" && len(p) == 2:
		id := parseNode(p[1])
		return shown(img.BrokerConfig(id)), id != kafka.NoNode
	case len(p) == 1 && (p[0] == "topics" || p[0] == "brokers"):
		kind := map[string]string{"topics": "topics", "brokers": "ids"}[p[0]]
		return brokersNode(img, []string{kind})
	}
	return nil, false
}

// secret tells whether a key's value must not be shown: keys that the table
// does not know are not shown either.
func secret(key string) bool {
	for _, scope := range []config.Scope{config.BrokerScope, config.TopicScope, config.GroupScope} {
		if k, ok := config.Lookup(scope, key); ok {
			return k.Sensitive()
		}
	}
	return true
}

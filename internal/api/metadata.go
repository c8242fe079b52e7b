package api

// Metadata, key 3, versions 0-13.
//
//	v0   an empty list of topics asks for all of them; from v1 on a null list
//	     does, and an empty one asks for none
//	v4   the client says whether asking may create (before, it always may)
//	v8   authorized operations of topics, and until v10 of the cluster
//	v10  topic ids in answers; v12 in requests too. An id, or a null name, at
//	     v10-11 is INVALID_REQUEST
//	v13  an error of the whole answer
//
// Where Apache Kafka answers the request that creates a topic with an error
// that makes the client ask again, this waits for the topic.

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// notAsked is what authorized operations are when the client did not ask.
const notAsked = math.MinInt32

func (a *API) metadata(ctx context.Context, r *server.Request, req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) error {
	if err := checkMetadata(req); err != nil {
		return a.refuseMetadata(req, resp, err)
	}
	all := req.Topics == nil
	if req.Version == 0 {
		all = len(req.Topics) == 0
	}
	if !all {
		a.autoCreate(ctx, r, req)
	}
	img := a.Image() // after creation: it holds what was created
	switch {
	case all && unknown(img):
		r.Disconnect() // there is no error for all topics
	case all:
		for t := range img.Topics() {
			if a.allow(r, acl.Describe, acl.Topic, t.Name) {
				resp.Topics = append(resp.Topics, a.describe(img, r, req, t))
			}
		}
	default:
		a.describeNamed(img, r, req, resp)
	}
	a.describeCluster(img, r, req, resp)
	return nil
}

func checkMetadata(req *kmsg.MetadataRequest) error {
	if req.Version < 10 {
		return nil
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		switch {
		case req.Version < 12 && (t.TopicID != [16]byte{} || t.Topic == nil):
			return kerr.InvalidRequest
		case t.Topic == nil && t.TopicID == [16]byte{}:
			return kerr.InvalidRequest
		}
	}
	return nil
}

// refuseMetadata answers every topic of a request with one error.
func (a *API) refuseMetadata(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse, err error) error {
	for i := range req.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID, t.ErrorCode = req.Topics[i].Topic, req.Topics[i].TopicID, a.code(err)
		if t.Topic == nil {
			t.Topic = new(string)
		}
		t.AuthorizedOperations = notAsked
		resp.Topics = append(resp.Topics, t)
	}
	resp.ControllerID = -1
	resp.AuthorizedOperations = notAsked
	if req.Version >= 13 {
		resp.ErrorCode = a.code(err)
	}
	return nil
}

// autoCreate makes the named topics that are missing, where both the broker
// and the client allow it. Errors are left to describeNamed, which will find
// the topic or not.
func (a *API) autoCreate(ctx context.Context, r *server.Request, req *kmsg.MetadataRequest) {
	if !a.Limits.AutoCreate || req.Version >= 4 && !req.AllowAutoTopicCreation {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, a.Limits.RequestTimeout)
	defer cancel()
	img := a.Image()
	if unknown(img) {
		return // what is missing is not known yet: describeNamed has them come again
	}
	for i := range req.Topics {
		name := req.Topics[i].Topic
		if name == nil {
			continue
		}
		if _, there := img.Topic(*name); there || plan.CheckName(*name) != nil {
			continue
		}
		if !a.allow(r, acl.Create, acl.Cluster, acl.ClusterName) && !a.allow(r, acl.Create, acl.Topic, *name) {
			continue
		}
		_, err := a.Cluster.CreateTopic(ctx, a.newTopic(*name), false)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			a.Log.Warn("topic was not created on demand", "topic", *name, "err", err)
		}
	}
}

func (a *API) describeNamed(img *meta.Image, r *server.Request, req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	seen := make(map[string]bool, len(req.Topics))
	for i := range req.Topics {
		asked := &req.Topics[i]
		byID := asked.TopicID != [16]byte{} // an id counts before a name
		name, key := "", string(asked.TopicID[:])
		if !byID {
			name = *asked.Topic
			key = name
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		t, err := a.resolve(img, byID, name, asked.TopicID)
		switch {
		case err == nil && a.allow(r, acl.Describe, acl.Topic, t.Name):
			resp.Topics = append(resp.Topics, a.describe(img, r, req, t))
			continue
		case unknown(img):
			err = kerr.LeaderNotAvailable // the metadata are not there yet
		case byID:
			err = kerr.UnknownTopicID // also for one whose name stays hidden
		case !a.allow(r, acl.Describe, acl.Topic, name):
			err = kerr.TopicAuthorizationFailed
		default:
			if bad := plan.CheckName(name); bad != nil {
				err = bad
			}
		}
		out := kmsg.NewMetadataResponseTopic()
		out.Topic, out.TopicID, out.ErrorCode = asked.Topic, asked.TopicID, a.code(err)
		if out.Topic == nil && req.Version < 12 { // not nullable
			out.Topic = new(string)
		}
		out.IsInternal = IsInternal(name)
		out.AuthorizedOperations = notAsked
		if byID {
			out.Topic = nil
		} else if req.IncludeTopicAuthorizedOperations {
			out.AuthorizedOperations = acl.For(img).Authorized(r.Principal, acl.Topic, name)
		}
		resp.Topics = append(resp.Topics, out)
	}
}

func (a *API) describe(img *meta.Image, r *server.Request, req *kmsg.MetadataRequest, t *meta.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &t.Name, t.ID, IsInternal(t.Name)
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i, s := range t.Partitions {
		out.Partitions[i] = describePartition(img, r, s)
	}
	out.AuthorizedOperations = notAsked
	if req.IncludeTopicAuthorizedOperations {
		out.AuthorizedOperations = acl.For(img).Authorized(r.Principal, acl.Topic, t.Name)
	}
	return out
}

func describePartition(img *meta.Image, r *server.Request, s *meta.Partition) kmsg.MetadataResponseTopicPartition {
	out := kmsg.NewMetadataResponseTopicPartition()
	out.Partition = s.Partition
	out.Leader, out.LeaderEpoch = int32(s.Leader), int32(s.LeaderEpoch)
	out.Replicas = make([]int32, 0, len(s.Replicas))
	out.ISR = make([]int32, 0, len(s.ISR))
	out.OfflineReplicas = []int32{}
	for _, rep := range s.Replicas {
		out.Replicas = append(out.Replicas, int32(rep.Node))
		if b, ok := img.Broker(rep.Node); !ok || slices.Contains(b.Offline, rep.Dir) {
			out.OfflineReplicas = append(out.OfflineReplicas, int32(rep.Node))
		}
	}
	for _, rep := range s.ISR {
		out.ISR = append(out.ISR, int32(rep.Node))
	}
	leader, alive := img.Broker(s.Leader)
	switch {
	case !alive:
		out.Leader = -1
		out.ErrorCode = kerr.LeaderNotAvailable.Code
	default:
		if _, _, ok := address(leader, r.Conn.Listener); !ok {
			out.Leader = -1
			out.ErrorCode = kerr.ListenerNotFound.Code
			if r.Version == 0 {
				out.ErrorCode = kerr.LeaderNotAvailable.Code
			}
		}
	}
	return out
}

func (a *API) describeCluster(img *meta.Image, r *server.Request, req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	if id := img.ClusterID(); id != "" {
		resp.ClusterID = &id
	}
	resp.ControllerID = -1
	controller, _ := img.Controller()
	for _, b := range a.reachable(img, r.Conn.Listener) {
		host, port, _ := address(b, r.Conn.Listener)
		out := kmsg.NewMetadataResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack = int32(b.ID), host, port, rack(b)
		resp.Brokers = append(resp.Brokers, out)
		if b.ID == controller {
			resp.ControllerID = int32(b.ID)
		}
	}
	resp.AuthorizedOperations = notAsked
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = acl.For(img).Authorized(r.Principal, acl.Cluster, acl.ClusterName)
	}
}

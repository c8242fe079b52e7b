package api

// DescribeConfigs, key 32, versions 1-4.
//
//	v1   where a value comes from, and what it would be otherwise (KIP-226)
//	v3   types and documentation (KIP-569)

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) describeConfigs(_ context.Context, r *server.Request, req *kmsg.DescribeConfigsRequest, resp *kmsg.DescribeConfigsResponse) error {
	img := a.Image()
	for i := range req.Resources {
		in := &req.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		entries, err := a.configOf(img, r, in)
		if err != nil {
			out.ErrorCode, out.ErrorMessage = a.code(err), message(err)
		}
		for _, e := range entries {
			out.Configs = append(out.Configs, described(req, e))
		}
		resp.Resources = append(resp.Resources, out)
	}
	return nil
}

// configOf reads the settings of one resource.
func (a *API) configOf(img *meta.Image, r *server.Request, in *kmsg.DescribeConfigsRequestResource) ([]config.Entry, error) {
	kind, name := in.ResourceType, in.ResourceName
	if !a.mayConfig(r, acl.DescribeConfigs, kind, name) {
		return nil, a.deniedConfig(kind)
	}
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		if err := plan.CheckName(name); err != nil {
			return nil, err
		}
		if _, err := a.resolve(img, false, name, kafka.TopicID{}); err != nil {
			return nil, err
		}
		return a.Settings.DescribeTopic(img.TopicConfig(name), in.ConfigNames), nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if name == "" {
			return nil, refusal(kerr.InvalidRequest, "Group name must not be empty")
		}
		return a.Settings.DescribeGroup(img.GroupConfig(name), in.ConfigNames), nil
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return nil, nil // no default of all brokers can be set
		}
		id, err := strconv.Atoi(name)
		if err != nil {
			return nil, refusal(kerr.InvalidRequest, "Broker id must be an integer, but it is: "+name)
		}
		if id != int(a.Self) {
			return nil, refusal(kerr.InvalidRequest, fmt.Sprintf("Unexpected broker id, expected %d or empty string, but received %s", a.Self, name))
		}
		return a.Settings.DescribeBroker(in.ConfigNames), nil
	}
	return nil, unsupportedResource(kind)
}

func unsupportedResource(kind kmsg.ConfigResourceType) error {
	return refusal(kerr.InvalidRequest, fmt.Sprintf("Unsupported resource type: %v", kind))
}

// mayConfig: who may see or change the settings of a resource.
func (a *API) mayConfig(r *server.Request, op acl.Operation, kind kmsg.ConfigResourceType, name string) bool {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return a.allow(r, op, acl.Topic, name)
	case kmsg.ConfigResourceTypeGroupConfig:
		return a.allow(r, op, acl.Group, name)
	}
	return a.allow(r, op, acl.Cluster, acl.ClusterName)
}

func (a *API) deniedConfig(kind kmsg.ConfigResourceType) error {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return kerr.TopicAuthorizationFailed
	case kmsg.ConfigResourceTypeGroupConfig:
		return kerr.GroupAuthorizationFailed
	}
	return kerr.ClusterAuthorizationFailed
}

func described(req *kmsg.DescribeConfigsRequest, e config.Entry) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.ReadOnly, out.IsSensitive = e.Name, e.Value, e.ReadOnly, e.Sensitive
	out.IsDefault, out.Source = e.IsDefault(), kmsg.ConfigSource(e.Source)
	if req.Version >= 3 {
		out.ConfigType = kmsg.ConfigType(e.Type)
	}
	if req.IncludeSynonyms {
		for _, s := range e.Synonyms {
			to := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			to.Name, to.Value, to.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
			out.ConfigSynonyms = append(out.ConfigSynonyms, to)
		}
	}
	if req.IncludeDocumentation {
		out.Documentation = &e.Doc
	}
	return out
}

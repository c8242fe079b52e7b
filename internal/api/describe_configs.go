package api

// DescribeConfigs, key 32, versions 1-4.
//
//	v1   where a value comes from, and what it would be otherwise (KIP-226)
//	v3   types and documentation (KIP-569)
//
// A resource that is named twice is answered twice. An answer takes so much
// memory at most: with their documentation the settings of one broker take
// 200 kB, and asking for them a few bytes.

import (
	"context"
	"fmt"
	"slices"
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

// maxDescribed bounds the bytes of one answer, about: without documentation
// 20000 topics are within it.
const maxDescribed = 128 << 20

func (a *API) describeConfigs(_ context.Context, r *server.Request, req *kmsg.DescribeConfigsRequest, resp *kmsg.DescribeConfigsResponse) error {
	img := a.Image()
	malformed := slices.ContainsFunc(req.Resources, func(in kmsg.DescribeConfigsRequestResource) bool {
		return !slices.Contains(listedTypes, in.ResourceType)
	})
	left := maxDescribed
	for i := range req.Resources {
		in := &req.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		out.ErrorMessage = kmsg.StringPtr("")
		var entries []config.Entry
		err := error(kerr.InvalidRequest) // of all, for one type that there is not
		if !malformed && left > 0 {
			entries, err = a.configOf(img, r, in)
		}
		for _, e := range entries {
			c := described(req, e)
			left -= weight(&c)
			out.Configs = append(out.Configs, c)
		}
		if left <= 0 && !malformed {
			out.Configs, err = nil, refusal(kerr.InvalidRequest, "The answer would be too long: ask for fewer resources at a time.")
		}
		if err != nil {
			out.ErrorCode = a.code(err)
			if out.ErrorCode != kerr.UnknownTopicOrPartition.Code {
				out.ErrorMessage = message(err)
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	return nil
}

// weight is what a setting takes in an answer, and its parts in memory.
func weight(c *kmsg.DescribeConfigsResponseResourceConfig) int {
	text := func(s *string) int {
		if s == nil {
			return 0
		}
		return len(*s)
	}
	n := 100 + len(c.Name) + text(c.Value) + text(c.Documentation)
	for i := range c.ConfigSynonyms {
		n += 50 + len(c.ConfigSynonyms[i].Name) + text(c.ConfigSynonyms[i].Value)
	}
	return n
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
	case kmsg.ConfigResourceTypeClientMetrics:
		if name == "" {
			return nil, refusal(kerr.InvalidRequest, "Client metrics subscription name must not be empty")
		}
		return a.Dynamic.DescribeClientMetrics(img.ClientMetrics(name), in.ConfigNames), nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		if name == "" {
			return nil, refusal(kerr.InvalidRequest, "Broker id must not be empty")
		}
		if err := a.isSelf(name, ""); err != nil {
			return nil, err
		}
		return a.describeLoggers(in.ConfigNames), nil
	}
	if name == "" {
		return a.Dynamic.DescribeCluster(in.ConfigNames), nil
	}
	if err := a.isSelf(name, " or empty string,"); err != nil {
		return nil, err
	}
	return a.Settings.DescribeBroker(in.ConfigNames), nil
}

// isSelf refuses to tell of another broker; or says what else could be asked.
func (a *API) isSelf(name, or string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return refusal(kerr.InvalidRequest, "Broker id must be an integer, but it is: "+name)
	}
	if id != int64(a.Self) {
		return refusal(kerr.InvalidRequest, fmt.Sprintf("Unexpected broker id, expected %d%s but received %s", a.Self, or, name))
	}
	return nil
}

// wanted: no names are all.
func wanted(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }

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
	switch {
	case e.Source == config.DynamicLogger:
		out.Documentation = kmsg.StringPtr("")
	case req.IncludeDocumentation && e.Type != 0: // nobody knows what an unknown key does
		out.Documentation = &e.Doc
	}
	return out
}

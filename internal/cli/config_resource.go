package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// resource is what has a configuration: topic/NAME, broker/ID, broker/ for the
// default of all brokers, group/NAME, client-metrics/NAME or logger/ID.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

var resourceKinds = map[string]kmsg.ConfigResourceType{
	"topic":          kmsg.ConfigResourceTypeTopic,
	"broker":         kmsg.ConfigResourceTypeBroker,
	"group":          kmsg.ConfigResourceTypeGroupConfig,
	"client-metrics": kmsg.ConfigResourceTypeClientMetrics,
	"logger":         kmsg.ConfigResourceTypeBrokerLogger,
}

const resourceForms = "topic/NAME, broker/ID, broker/ for the default of all brokers, group/NAME, client-metrics/NAME or logger/ID"

func parseResource(s string) (resource, error) {
	word, name, ok := strings.Cut(s, "/")
	kind, known := resourceKinds[word]
	if !ok || !known {
		return resource{}, usagef("%q is not %s", s, resourceForms)
	}
	switch kind {
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		if name == "" && kind == kmsg.ConfigResourceTypeBroker {
			break
		}
		if id, err := strconv.ParseInt(name, 10, 32); err != nil || id < 0 {
			return resource{}, usagef("%q: the id of a broker must follow the slash; `barnabas cluster status` shows them", s)
		}
	default:
		if name == "" {
			return resource{}, usagef("%q: a name must follow the slash", s)
		}
	}
	return resource{kind, name}, nil
}

func (r resource) String() string {
	for word, kind := range resourceKinds {
		if kind == r.kind {
			return word + "/" + r.name
		}
	}
	return r.name
}

// setting is a key's value as it is in effect, and where that comes from.
type setting struct {
	Key       string    `json:"key"`
	Value     *string   `json:"value"`
	Source    string    `json:"source"`
	Type      string    `json:"type,omitempty"`
	ReadOnly  bool      `json:"readOnly,omitempty"`
	Sensitive bool      `json:"sensitive,omitempty"`
	Synonyms  []synonym `json:"synonyms,omitempty"`
	Doc       string    `json:"doc,omitempty"`
	set       bool      // on the resource itself
}

// synonym is a value that stands in the key's place when those before it are unset.
type synonym struct {
	Key    string  `json:"key"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

func (s setting) text() string { return settingText(s.Value, s.Sensitive) }

func settingText(v *string, sensitive bool) string {
	switch {
	case sensitive:
		return "(hidden)"
	case v == nil:
		return "(unset)"
	}
	return *v
}

// configSources in the words of the Java tools, in lower case.
var configSources = map[kmsg.ConfigSource]string{
	kmsg.ConfigSourceDynamicTopicConfig:         "topic",
	kmsg.ConfigSourceDynamicBrokerConfig:        "broker",
	kmsg.ConfigSourceDynamicDefaultBrokerConfig: "default of all brokers",
	kmsg.ConfigSourceStaticBrokerConfig:         "broker's file",
	kmsg.ConfigSourceDefaultConfig:              "default",
	kmsg.ConfigSourceDynamicBrokerLoggerConfig:  "logger",
	kmsg.ConfigSourceClientMetricsConfig:        "client-metrics",
	kmsg.ConfigSourceGroupConfig:                "group",
}

func sourceWord(s kmsg.ConfigSource) string {
	if word, ok := configSources[s]; ok {
		return word
	}
	return s.String()
}

// isSetOn tells whether a value of that source was set on the resource itself.
func (r resource) isSetOn(s kmsg.ConfigSource) bool {
	switch s {
	case kmsg.ConfigSourceDynamicTopicConfig, kmsg.ConfigSourceDynamicBrokerLoggerConfig, kmsg.ConfigSourceClientMetricsConfig, kmsg.ConfigSourceGroupConfig:
		return true
	case kmsg.ConfigSourceDynamicBrokerConfig:
		return r.kind == kmsg.ConfigResourceTypeBroker && r.name != ""
	case kmsg.ConfigSourceDynamicDefaultBrokerConfig:
		return r.kind == kmsg.ConfigResourceTypeBroker
	}
	return false
}

// settingsOf asks for the configuration of a resource: the keys named, or all.
func settingsOf(ctx context.Context, k *kgo.Client, r resource, keys []string) ([]setting, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	if err := needs(ctx, kadm.NewClient(k), req); err != nil {
		return nil, err
	}
	in := kmsg.NewDescribeConfigsRequestResource()
	in.ResourceType, in.ResourceName, in.ConfigNames = r.kind, r.name, keys
	req.Resources = append(req.Resources, in)
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	resp, err := req.RequestWith(ctx, k)
	if err != nil {
		return nil, r.unanswered("describe", err)
	}
	if len(resp.Resources) != 1 {
		return nil, fmt.Errorf("describe %s: the broker answered with %d resources", r, len(resp.Resources))
	}
	out := resp.Resources[0]
	if err := configRefusal("describe", r, out.ErrorCode, out.ErrorMessage); err != nil {
		return nil, err
	}
	all := make([]setting, 0, len(out.Configs))
	for _, c := range out.Configs {
		s := setting{Key: c.Name, Value: c.Value, Source: sourceWord(c.Source), ReadOnly: c.ReadOnly, Sensitive: c.IsSensitive, set: r.isSetOn(c.Source)}
		if c.ConfigType != 0 {
			s.Type = strings.ToLower(c.ConfigType.String())
		}
		if c.Documentation != nil {
			s.Doc = *c.Documentation
		}
		for _, o := range c.ConfigSynonyms {
			s.Synonyms = append(s.Synonyms, synonym{o.Name, o.Value, sourceWord(o.Source)})
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b setting) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// configRefusal words what a broker refused about a resource.
func configRefusal(verb string, r resource, code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err == nil {
		return nil
	}
	says := ""
	if message != nil {
		says = *message
	}
	name := r.String()
	if r.kind == kmsg.ConfigResourceTypeTopic {
		name = r.name
	}
	refused := refusal(verb, name, err, says)
	switch {
	case strings.Contains(says, " dynamically"):
		return fmt.Errorf("%w; such keys stand in the broker's file, and take a restart", refused)
	case errors.Is(err, kerr.InvalidConfig):
		return fmt.Errorf("%w; `barnabas config get %s --all --docs` explains the keys", refused, r)
	}
	return refused
}

// unanswered says what to do when nobody answers about a resource.
func (r resource) unanswered(verb string, err error) error {
	if r.name != "" && (r.kind == kmsg.ConfigResourceTypeBroker || r.kind == kmsg.ConfigResourceTypeBrokerLogger) {
		return fmt.Errorf("%s %s: %w; `barnabas cluster status` shows the brokers", verb, r, err)
	}
	return fmt.Errorf("%s %s: %w", verb, r, err)
}

// keyChange is one key of a configuration to be altered.
type keyChange struct {
	key   string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

// parseChange reads key=value, key+=value (add to a list) or key-=value (take
// out of a list).
func parseChange(s string) (keyChange, error) {
	k, v, ok := strings.Cut(s, "=")
	op := kmsg.IncrementalAlterConfigOpSet
	if key, add := strings.CutSuffix(k, "+"); add {
		k, op = key, kmsg.IncrementalAlterConfigOpAppend
	} else if key, sub := strings.CutSuffix(k, "-"); sub {
		k, op = key, kmsg.IncrementalAlterConfigOpSubtract
	}
	if !ok || k == "" {
		return keyChange{}, usagef("%q is not of the form key=value, key+=value or key-=value", s)
	}
	return keyChange{k, op, &v}, nil
}

// parseChanges reads what is to be set and unset; a key may be named once.
func parseChanges(set, unset []string) ([]keyChange, error) {
	var all []keyChange
	for _, s := range set {
		c, err := parseChange(s)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	for _, k := range unset {
		if k == "" || strings.Contains(k, "=") {
			return nil, usagef("%q is not a key to unset", k)
		}
		all = append(all, keyChange{k, kmsg.IncrementalAlterConfigOpDelete, nil})
	}
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c.key] {
			return nil, usagef("%s is named twice", c.key)
		}
		seen[c.key] = true
	}
	return all, nil
}

// alterConfigs asks for the changes of each resource, in one request; the errors are by resource.
func alterConfigs(ctx context.Context, k *kgo.Client, all []resource, changes []keyChange, dryRun bool) (map[resource]error, error) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	if err := needs(ctx, kadm.NewClient(k), req); err != nil {
		return nil, err
	}
	req.ValidateOnly = dryRun
	for _, r := range all {
		in := kmsg.NewIncrementalAlterConfigsRequestResource()
		in.ResourceType, in.ResourceName = r.kind, r.name
		for _, c := range changes {
			e := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			e.Name, e.Op, e.Value = c.key, c.op, c.value
			in.Configs = append(in.Configs, e)
		}
		req.Resources = append(req.Resources, in)
	}
	resp, err := req.RequestWith(ctx, k)
	if err != nil {
		return nil, err
	}
	out := map[resource]error{}
	for _, r := range resp.Resources {
		at := resource{r.ResourceType, r.ResourceName}
		out[at] = configRefusal("alter", at, r.ErrorCode, r.ErrorMessage)
	}
	return out, nil
}

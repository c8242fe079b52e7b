package otlp

import (
	"slices"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/barnabas-mq/barnabas/internal/telemetry"
)

const (
	prefix    = "barnabas_client_"
	kafkas    = "org.apache.kafka."
	maxName   = 200 // bytes of a name of a metric or a label
	maxValue  = 256 // bytes of a label's value
	maxLabels = 24
)

// label is a name that Prometheus allows, and a value.
type label struct{ name, value string }

// family is a metric's name in Prometheus; "" for one without.
func family(name string, counter bool) string {
	name = strings.TrimPrefix(name, kafkas)
	if name == "" || len(name) > maxName {
		return ""
	}
	name = prefix + legal(name)
	if counter && !strings.HasSuffix(name, "_total") {
		name += "_total"
	}
	return name
}

// legal replaces what is no letter, digit or underscore.
func legal(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, name)
}

// base are the labels that every series of a client has.
func base(c *telemetry.Client) []label {
	return []label{
		{"client_instance_id", c.ID.String()},
		{"client_id", text(c.ClientID)},
		{"client_software_name", text(c.SoftwareName)},
		{"client_software_version", text(c.SoftwareVersion)},
	}
}

// text makes a value of a label: UTF-8, and not too long.
func text(s string) string {
	if len(s) > maxValue {
		s = s[:maxValue]
	}
	return strings.ToValidUTF8(s, "")
}

// with adds attributes to labels; a name that is there already stays what it is.
func with(labels []label, attributes []*commonpb.KeyValue) []label {
	labels = slices.Clone(labels)
	for _, a := range attributes {
		name := legal(a.GetKey())
		value, ok := scalar(a.GetValue())
		if !ok || name == "" || len(name) > maxName || len(labels) >= maxLabels {
			continue
		}
		if name[0] >= '0' && name[0] <= '9' || strings.HasPrefix(name, "__") {
			name = "attribute_" + name
		}
		if !slices.ContainsFunc(labels, func(l label) bool { return l.name == name }) {
			labels = append(labels, label{name, value})
		}
	}
	return labels
}

// scalar is a value as text; what is composed is left out.
func scalar(v *commonpb.AnyValue) (string, bool) {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return text(v.StringValue), true
	case *commonpb.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue), true
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10), true
	case *commonpb.AnyValue_DoubleValue:
		return strconv.FormatFloat(v.DoubleValue, 'g', -1, 64), true
	}
	return "", false
}

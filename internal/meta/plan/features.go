package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// UpgradeType is what a change of a feature may do (KIP-584, KIP-778).
type UpgradeType int8

// The upgrade types; all others are unknown.
const (
	Upgrade         UpgradeType = 1
	SafeDowngrade   UpgradeType = 2
	UnsafeDowngrade UpgradeType = 3
)

// FeatureUpdate asks for another finalized level of a feature; 0 turns it off.
type FeatureUpdate struct {
	Name  string
	Level int16
	Type  UpgradeType
}

// UpdateFeatures plans other finalized levels, all or none: of two for one
// feature the last counts. supported are the ranges of self, which checks them;
// every registered broker has to support a level too. ok is false when the
// levels are that already. Refusal: INVALID_UPDATE_VERSION.
//
// Apache Kafka's features depend on its oldest metadata.version at most, which
// cannot be left here: so there are no dependencies to check.
func UpdateFeatures(img *meta.Image, self kafka.NodeID, supported map[string][2]int16, updates []FeatureUpdate) (txn kv.Txn, ok bool, err error) {
	last := make(map[string]FeatureUpdate, len(updates))
	for _, u := range updates {
		last[u.Name] = u
	}
	levels := make(map[string]int16, len(last))
	for _, u := range updates {
		if _, done := levels[u.Name]; done {
			continue
		}
		u = last[u.Name]
		levels[u.Name] = u.Level
		if reason := refuseLevel(img, self, supported, u); reason != "" {
			return kv.Txn{}, false, refuse(kerr.InvalidUpdateVersion, "Invalid update version %d for feature %s. %s", u.Level, u.Name, reason)
		}
	}
	txn, ok = SetFeatures(img, levels)
	return txn, ok, nil
}

// refuseLevel says why a level cannot be, or nothing.
func refuseLevel(img *meta.Image, self kafka.NodeID, supported map[string][2]int16, u FeatureUpdate) string {
	if u.Type < Upgrade || u.Type > UnsafeDowngrade {
		return "The controller does not support the given upgrade type."
	}
	if u.Level < 0 {
		return "A feature version cannot be less than 0."
	}
	if reason := unsupported(fmt.Sprintf("Local controller %d", self), supported[u.Name], u.Level); reason != "" {
		return reason
	}
	for _, b := range img.Brokers() {
		if reason := unsupported(fmt.Sprintf("Broker %d", b.ID), b.Features[u.Name], u.Level); reason != "" {
			return reason
		}
	}
	levels, _ := img.Features()
	now := levels[u.Name]
	switch {
	case u.Level < now && u.Type == Upgrade:
		return "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
	case u.Level > now && u.Type != Upgrade:
		return "Can't downgrade to a newer version."
	case u.Name == meta.FeatureMetadata && u.Level != now:
		return "The metadata has one format, which " + meta.FeatureBarnabas + " tells: " + meta.FeatureMetadata + " stays what it is."
	}
	if _, known := supported[u.Name]; !known { // at level 0, which all that is unknown has
		return "Feature " + u.Name + " not found."
	}
	return ""
}

// unsupported says that a level is outside of a range; the range of what is
// not known is 0 alone.
func unsupported(who string, span [2]int16, level int16) string {
	switch {
	case span[0] <= level && level <= span[1]:
		return ""
	case span[1] == 0:
		return who + " does not support this feature."
	case span[0] == span[1]:
		return who + " only supports versions " + strconv.Itoa(int(span[0]))
	}
	return fmt.Sprintf("%s only supports versions %d-%d", who, span[0], span[1])
}

// SetFeatures plans other finalized levels; who may have which is decided. It
// compares the registrations that were looked at: none of them is replaced by
// one of another binary meanwhile. ok is false when the levels are that already.
func SetFeatures(img *meta.Image, change map[string]int16) (t kv.Txn, ok bool) {
	f := img.FeaturesKey()
	levels := maps.Clone(f.Levels)
	if levels == nil {
		levels = map[string]int16{}
	}
	for _, name := range slices.Sorted(maps.Keys(change)) {
		if levels[name] != change[name] {
			levels[name], ok = change[name], true
		}
	}
	if !ok {
		return kv.Txn{}, false
	}
	key := img.Keys().Features()
	t = kv.Txn{
		If:   []kv.Cmp{kv.ModIs(key, f.ModRev)},
		Then: []kv.Op{kv.PutOp(key, f.Encode(levels), 0)},
		Else: []kv.Op{kv.GetOp(key)},
	}
	for _, b := range img.Brokers() {
		t.If = append(t.If, kv.CreatedAt(img.Keys().Broker(b.ID), b.Epoch))
	}
	return t, true
}

package brokertest_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
)

func (p *peer) setFeature(version int16, name string, level int16, kind int8, dry bool) *kmsg.UpdateFeaturesResponse {
	p.t.Helper()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version, req.ValidateOnly = version, dry
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = name, level, kind, true
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	return ask[*kmsg.UpdateFeaturesResponse](p, req)
}

// finalized is a feature's level, 0 when it is not told, and the epoch of all.
func (p *peer) finalized(name string) (level int16, epoch int64) {
	p.t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 4, "test", "1"
	r := ask[*kmsg.ApiVersionsResponse](p, req)
	for _, f := range r.FinalizedFeatures {
		if f.Name == name {
			level = f.MaxVersionLevel
		}
	}
	return level, r.FinalizedFeaturesEpoch
}

// beat is a heartbeat of a member that nobody knows.
func (p *peer) beat() int16 {
	p.t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", "nobody", 5
	return ask[*kmsg.ConsumerGroupHeartbeatResponse](p, req).ErrorCode
}

func (p *peer) describeConsumerGroup() int16 {
	p.t.Helper()
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Version, req.Groups = 1, []string{"g"}
	return ask[*kmsg.ConsumerGroupDescribeResponse](p, req).Groups[0].ErrorCode
}

// The consumer protocol is served with group.version 1 and not without, over a
// restart too: so an old data directory is raised to it.
func TestFeatureOfGroups(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	if p.beat() == kerr.UnsupportedVersion.Code {
		t.Fatal("a new cluster does not serve the consumer protocol")
	}
	_, before := p.finalized("group.version")
	wantCode(t, "validate", p.setFeature(2, "group.version", 0, 2, true).ErrorCode, nil)
	if level, epoch := p.finalized("group.version"); level != 1 || epoch != before {
		t.Fatalf("after validating: level %d, epoch %d, was %d", level, epoch, before)
	}
	r := p.setFeature(1, "group.version", 0, 2, false)
	wantCode(t, "lower", r.ErrorCode, nil)
	if len(r.Results) != 1 || r.Results[0].Feature != "group.version" || r.Results[0].ErrorCode != 0 {
		t.Fatalf("results %+v", r.Results)
	}
	level, after := p.finalized("group.version")
	if level != 0 || after <= before {
		t.Fatalf("lowered: level %d, epoch %d after %d", level, after, before)
	}
	wantCode(t, "heartbeat", p.beat(), kerr.UnsupportedVersion)
	wantCode(t, "describe", p.describeConsumerGroup(), kerr.UnsupportedVersion)
	b.Restart()
	p = dial(t, b)
	wantCode(t, "heartbeat after a restart", p.beat(), kerr.UnsupportedVersion)
	wantCode(t, "raise", p.setFeature(0, "group.version", 1, 1, false).ErrorCode, nil)
	if p.beat() == kerr.UnsupportedVersion.Code {
		t.Fatal("raised, and still not served")
	}
}

func TestFeaturesRefused(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	_, before := p.finalized("group.version")
	for _, c := range []struct {
		name    string
		version int16
		level   int16
		kind    int8
		says    string
	}{
		{"group.version", 0, 0, 2, "without setting the upgrade type"},
		{"group.version", 1, 0, 1, "without setting the upgrade type"},
		{"group.version", 1, 2, 1, "Local controller 1 only supports versions 0-1"},
		{"group.version", 1, -1, 3, "cannot be less than 0"},
		{"group.version", 1, 1, 0, "does not support the given upgrade type"},
		{"group.version", 1, 1, 4, "does not support the given upgrade type"},
		{"transaction.version", 2, 2, 1, "Local controller 1 does not support this feature"},
		{"kraft.version", 2, 1, 1, "Local controller 1 does not support this feature"},
		{"kraft.version", 2, 0, 2, "Feature kraft.version not found"},
		{"metadata.version", 2, 99, 1, "only supports versions 7-33"},
		{"metadata.version", 2, 32, 2, "stays what it is"},
		{"metadata.version", 2, 7, 3, "stays what it is"},
		{"barnabas.version", 2, 0, 3, "only supports versions 1"},
		{"", 2, 1, 1, "does not support this feature"},
	} {
		r := p.setFeature(c.version, c.name, c.level, c.kind, false)
		wantCode(t, c.name, r.ErrorCode, kerr.InvalidUpdateVersion)
		if r.ErrorMessage == nil || !strings.Contains(*r.ErrorMessage, c.says) ||
			!strings.HasPrefix(*r.ErrorMessage, "The update failed for all features since") || len(r.Results) > 0 {
			t.Errorf("%s to %d: %+v", c.name, c.level, r)
		}
	}
	if _, epoch := p.finalized("group.version"); epoch != before {
		t.Error("a refusal changed the features")
	}
	wantCode(t, "as it is", p.setFeature(2, "metadata.version", 33, 1, false).ErrorCode, nil)
	big := kmsg.NewPtrUpdateFeaturesRequest()
	big.Version = 2
	for range 50_000 {
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = "group.version", 1, 1
		big.FeatureUpdates = append(big.FeatureUpdates, u)
	}
	wantCode(t, "one feature very often", ask[*kmsg.UpdateFeaturesResponse](p, big).ErrorCode, nil)
}

// A broker that runs is not taken out of service by a request.
func TestUnregisterBroker(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("t", 1)
	for id, want := range map[int32]*kerr.Error{1: kerr.InvalidRequest, 2: kerr.BrokerIDNotRegistered, -1: kerr.BrokerIDNotRegistered} {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = id
		r := ask[*kmsg.UnregisterBrokerResponse](p, req)
		wantCode(t, "unregister", r.ErrorCode, want)
		if r.ErrorMessage == nil {
			t.Errorf("broker %d: no sentence", id)
		}
	}
	p.create("after", 1)
}

//go:build interop

package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func featureCases() []testCase {
	return []testCase{
		{"UpdateFeatures", updateFeatures},
		{"UpdateFeatures-downgrade", downgradeFeatures},
		{"UnregisterBroker", unregisterBroker},
	}
}

func featuresReq(v int16, updates ...kmsg.UpdateFeaturesRequestFeatureUpdate) *kmsg.UpdateFeaturesRequest {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version, req.TimeoutMillis, req.FeatureUpdates = v, 5000, updates
	return req
}

func feature(name string, level int16, kind int8) kmsg.UpdateFeaturesRequestFeatureUpdate {
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = name, level, kind
	u.AllowDowngrade = kind != 1
	return u
}

// updateFeatures asks for what changes nothing on a new cluster.
func updateFeatures(s *session) {
	for v := int16(0); v <= 2; v++ {
		at := fmt.Sprintf(", v%d", v)
		s.ask("nothing"+at, featuresReq(v))
		s.ask("the same level"+at, featuresReq(v, feature("group.version", 1, 1)))
		s.ask("the same level as a downgrade"+at, featuresReq(v, feature("group.version", 1, 2)))
		s.ask("the same level, unsafe"+at, featuresReq(v, feature("group.version", 1, 3)))
		s.ask("twice the same"+at, featuresReq(v, feature("group.version", 1, 1), feature("group.version", 1, 1)))
		s.ask("an unknown feature"+at, featuresReq(v, feature("no.such.version", 1, 1)))
		s.ask("an unknown feature at 0"+at, featuresReq(v, feature("no.such.version", 0, 1)))
		s.ask("a feature without a name"+at, featuresReq(v, feature("", 1, 1)))
		s.ask("a negative level"+at, featuresReq(v, feature("group.version", -1, 1)))
		s.ask("a level too high"+at, featuresReq(v, feature("group.version", 9, 1)))
		s.ask("metadata.version as it is"+at, featuresReq(v, feature("metadata.version", 33, 1)))
		s.ask("metadata.version too low"+at, featuresReq(v, feature("metadata.version", 1, 3)))
		s.ask("metadata.version too high"+at, featuresReq(v, feature("metadata.version", 99, 1)))
		s.ask("metadata.version back"+at, featuresReq(v, feature("metadata.version", 7, 2)))
		s.ask("a good and a bad one"+at, featuresReq(v, feature("group.version", 1, 1), feature("no.such.version", 1, 1)))
		if v == 0 {
			continue
		}
		for _, kind := range []int8{0, 4, -1} {
			s.ask(fmt.Sprintf("upgrade type %d%s", kind, at), featuresReq(v, feature("group.version", 1, kind)))
		}
		dry := featuresReq(v, feature("group.version", 0, 2))
		dry.ValidateOnly = true
		s.ask("validate only"+at, dry)
		dry = featuresReq(v, feature("group.version", 0, 1))
		dry.ValidateOnly = true
		s.ask("validate only what cannot be"+at, dry)
	}
}

// downgradeFeatures turns the consumer protocol off and on again.
func downgradeFeatures(s *session) {
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID, beat.MemberEpoch = 0, s.group("features"), "nobody", 5
	s.ask("v0 knows no downgrade", featuresReq(0, feature("group.version", 0, 2)))
	s.ask("not asked for as a downgrade", featuresReq(1, feature("group.version", 0, 1)))
	s.ask("the protocol is served", beat)
	s.ask("down", featuresReq(1, feature("group.version", 0, 2)))
	s.awaitFeature("group.version", 0)
	s.ask("the protocol is off", beat)
	s.ask("down again", featuresReq(2, feature("group.version", 0, 2)))
	s.ask("up as a downgrade", featuresReq(2, feature("group.version", 1, 2)))
	s.ask("up as an unsafe downgrade", featuresReq(2, feature("group.version", 1, 3)))
	s.ask("up", featuresReq(0, feature("group.version", 1, 1)))
	s.awaitFeature("group.version", 1)
	s.ask("the protocol is served again", beat)
	s.ask("down, unsafe", featuresReq(2, feature("group.version", 0, 3)))
	s.awaitFeature("group.version", 0)
	s.ask("the last of two counts", featuresReq(1, feature("group.version", 0, 1), feature("group.version", 1, 1)))
	s.awaitFeature("group.version", 1)
	s.ask("the protocol is served in the end", beat)
}

// awaitFeature waits until the broker's metadata shows a level.
func (s *session) awaitFeature(name string, level int16) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var now int16
		for _, f := range s.do(apiVersions(4, "interop", "1.0")).(*kmsg.ApiVersionsResponse).FinalizedFeatures {
			if f.Name == name {
				now = f.MaxVersionLevel
			}
		}
		if now == level {
			return
		}
		if time.Now().After(deadline) {
			s.fail("%s stays at %d", name, now)
		}
	}
}

func unregisterBroker(s *session) {
	for _, id := range []int32{77, -1, 1 << 30} {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = id
		s.ask(fmt.Sprintf("broker %d", id), req)
	}
}

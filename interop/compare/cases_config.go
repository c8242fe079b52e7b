//go:build interop

package main

import "github.com/twmb/franz-go/pkg/kmsg"

func configCases() []testCase {
	return []testCase{{"CreateTopics-configs", createdConfigs}}
}

// createdConfigs shows every configuration that the answer to CreateTopics
// lists, with its source.
func createdConfigs(s *session) {
	for _, v := range []int16{4, 5, 7} {
		s.ask("plain topic", createReq(v, newTopic(s.topic("cc"+string(rune('0'+v))), 1, 1, "retention.ms", "100000")))
	}
	null := kmsg.NewPtrCreateTopicsRequest()
	null.Version, null.TimeoutMillis, null.ValidateOnly = 7, 5000, true
	null.Topics = append(null.Topics, newTopic(s.topic("ccdry"), 1, 1))
	s.ask("validate only", null)
}

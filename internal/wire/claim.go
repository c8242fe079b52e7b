package wire

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// claimTag carries, between brokers, the offset that a follower can be counted
// on for: its flushed end (safety 40). Apache Kafka has no field for it; its own
// tags are far below.
const claimTag = 10000

// SetClaim writes a follower's claim into its fetch of a partition (Fetch 12 and
// above).
func SetClaim(p *kmsg.FetchRequestTopicPartition, counted int64) {
	p.UnknownTags.Set(claimTag, binary.BigEndian.AppendUint64(nil, uint64(counted)))
}

// Claim reads it: -1 without one, or when it is none.
func Claim(p *kmsg.FetchRequestTopicPartition) int64 {
	counted := int64(-1)
	p.UnknownTags.Each(func(tag uint32, b []byte) {
		if tag == claimTag && len(b) == 8 {
			counted = max(int64(binary.BigEndian.Uint64(b)), -1)
		}
	})
	return counted
}

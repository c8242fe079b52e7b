package group

import "testing"

// The expected shards were computed with Java's String.hashCode.
func TestShardOf(t *testing.T) {
	for id, want := range map[string]int32{
		"": 0, "a": 47, "console-consumer-1": 24, "polygenelubricants": 0, "grüße": 23, "𝄞clef": 28,
	} {
		if got := ShardOf(id, 50); got != want {
			t.Errorf("%q: %d, want %d", id, got, want)
		}
	}
}

package api

// numbered gives the topics of a request numbers, so that looking a partition up
// does not read its topic's name, which may be as long as a request, for each of
// a million partitions.
type numbered map[string]int

// numberedPartition is a partition of a topic with a number.
type numberedPartition struct {
	topic     int
	partition int32
}

// of is the topic's number.
func (n numbered) of(topic string) int {
	if at, ok := n[topic]; ok {
		return at
	}
	n[topic] = len(n)
	return len(n) - 1
}

package group

import "unicode/utf16"

// ShardOf is the partition of __consumer_offsets, of count, that holds a
// group: Apache Kafka's rule, so that a copied topic is found where it was.
func ShardOf(id string, count int32) int32 {
	var h int32 // Java's String.hashCode
	for _, r := range id {
		if r >= 1<<16 {
			hi, lo := utf16.EncodeRune(r)
			h = 31*(31*h+hi) + lo
			continue
		}
		h = 31*h + r
	}
	if h < 0 {
		h = -h
	}
	if h < 0 { // the one number without an opposite
		h = 0
	}
	return h % count
}

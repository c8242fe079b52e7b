package telemetry

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"strings"
)

// ID is a client instance's, which the first answer to it gives.
type ID [16]byte

// Two ids that no client has: none, and one that Apache Kafka keeps for itself.
var none, reserved = ID{}, ID{15: 1}

// String is the id as Apache Kafka's tools write it.
func (i ID) String() string { return base64.RawURLEncoding.EncodeToString(i[:]) }

// hash is Java's hash of a UUID.
func (i ID) hash() int32 {
	x := binary.BigEndian.Uint64(i[:8]) ^ binary.BigEndian.Uint64(i[8:])
	return int32(x>>32) ^ int32(x)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// subscriptionID is Apache Kafka's sum, over the names in order: there the
// order is that of a hash table, and to clients it is a number without meaning.
func subscriptionID(metrics []string, intervalMs int32, id ID) int32 {
	text := "[" + strings.Join(metrics, ", ") + "]" + strconv.Itoa(int(intervalMs))
	return int32(crc32.Checksum([]byte(text), castagnoli)) ^ id.hash()
}

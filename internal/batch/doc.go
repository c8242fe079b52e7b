// Package batch is the record batch of Apache Kafka's message format v2
// (KIP-98), as a view over its bytes: read and set header fields in place,
// verify and renew the checksum, walk the records, build, compress, validate
// what a producer sent.
//
// # The batch
//
// Integers are big-endian. A log segment, the records of a produce request and
// those of a fetch response are all batches end to end.
//
//	 at  size  field
//	  0     8  base offset           offset of the first record
//	  8     4  length                bytes after this field, 49 or more
//	 12     4  partition leader epoch
//	 16     1  magic                 2
//	 17     4  CRC-32C               of everything from 21 to the end
//	 21     2  attributes
//	 23     4  last offset delta     last offset - base offset
//	 27     8  base timestamp        ms; the delete horizon when bit 6 is set
//	 35     8  max timestamp         ms
//	 43     8  producer id           -1: none
//	 51     2  producer epoch        -1: none
//	 53     4  base sequence         -1: none; counts 0..2^31-1 and wraps to 0
//	 57     4  count of records
//	 61     …  records, compressed as one unit when attributes say so
//
//	attributes  15 … 7 │ 6              │ 5       │ 4             │ 3              │ 2 1 0
//	            unused │ delete horizon │ control │ transactional │ log append time│ codec
//
//	codec       0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
//
// Base offset and leader epoch lie before the checksum, so a leader sets both
// without summing again. Attributes and timestamps lie behind it.
//
// With bit 3 set every record's timestamp is the batch's max timestamp,
// whatever its own delta says.
//
// After compaction a batch keeps base offset, last offset delta and sequences,
// and has fewer records than its offsets span, or none.
//
// # The record
//
// Lengths and deltas are zigzag varints: 1-5 bytes for 32 bits, 1-10 for 64.
//
//	varint   length            bytes after this field
//	int8     attributes        unused
//	varlong  timestamp delta   to the base timestamp; may be negative
//	varint   offset delta      to the base offset
//	varint   key length        negative: null
//	bytes    key
//	varint   value length      negative: null
//	bytes    value
//	varint   count of headers
//	  varint   key length      not negative
//	  bytes    key             UTF-8
//	  varint   value length    negative: null
//	  bytes    value
//
// Null and empty differ, for compaction above all: a null value is a
// tombstone. A nil slice is null here, an empty one is empty.
//
// # Control batches
//
// Bit 5 marks a batch that the broker wrote and that no application sees. It
// has one record, uncompressed, and no sequence:
//
//	key    int16 version (0), int16 type: 0 abort, 1 commit, and those of KRaft
//	value  int16 version (0), int32 coordinator epoch      for abort and commit
//
// # Compressed bodies
//
// gzip, lz4 (frame format) and zstd are streams of their own standards. Snappy
// comes in two dresses: the framing of the Java library (xerial: an 8-byte
// magic, two int32 versions, then blocks that each follow an int32 length), or
// one bare block as librdkafka and others write it. Both are read, the first
// is written.
//
// Every opening has a limit on the plain size. Memory is taken as the body
// proves to need it and, but for one block of zstd, never beyond the limit,
// whatever its headers promise.
//
// # Older formats
//
// Magic 0 and 1 are message sets: no batch header, a CRC-32 for each message.
// Apache Kafka 4 neither accepts nor writes them. Next recognises them, so
// that they can be refused by name (ErrLegacy) rather than as corruption.
//
// # Who may call
//
// A Batch is bytes: concurrent reads are safe, setters need exclusion. Builder
// and Iterator belong to one goroutine. Everything else is safe for concurrent
// use.
package batch

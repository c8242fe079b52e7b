// Package segment is one segment of a log: a data file and its indexes, byte
// for byte Apache Kafka's. It knows bytes, not policies: when to roll, sync or
// delete is the business of package storage.
//
// One goroutine at a time may change a Segment; any number may read, sync and
// flush at the same time, without a lock. The bytes that a Slice references
// never change: files are only appended to, and Cut is logical.
//
// # Files
//
// The name is the base offset in twenty digits: 00000000000000004711.log. All
// numbers are big-endian. A file on its way out has the suffix .deleted.
//
// .log holds record batches v2, one after the other, nothing between them:
//
//	0            8        12       16    17      21       23
//	+------------+--------+--------+-----+-------+--------+--------------+
//	| base       | length | leader |magic| crc32c| attri- | ... records  |
//	| offset     | (rest) | epoch  | 2   |       | butes  |              |
//	+------------+--------+--------+-----+-------+--------+--------------+
//	                                             |<---- summed --------->|
//
// .index: a batch for every index.interval.bytes of the .log, never the first
// one. Offsets and positions rise.
//
//	0                   4                   8
//	+-------------------+-------------------+
//	| last offset of    | position of the   |
//	| the batch - base  | batch in .log     |
//	+-------------------+-------------------+
//
// .timeindex: with each entry of .index, when the largest timestamp so far rose
// since the last entry; and at the end when the segment is sealed or closed.
//
//	0                             8                   12
//	+-----------------------------+-------------------+
//	| largest timestamp so far    | last offset of the|
//	| (ms)                        | first batch with  |
//	|                             | it - base         |
//	+-----------------------------+-------------------+
//
// .txnindex: the aborted transactions whose marker lies in the segment; there
// is no file without any.
//
//	0      2            10           18           26           34
//	+------+------------+------------+------------+------------+
//	| 0    | producer   | first      | last offset| last stable|
//	|      | id         | offset     | (marker)   | offset     |
//	+------+------------+------------+------------+------------+
//
// # In memory
//
// Data files are opened on demand and kept open up to a bound (Files); those
// with unsynced bytes stay open, for a file that is opened again may have
// missed a write error. An index is read whole when it is first asked, kept up
// to a bound, and what is added stays in memory until FlushIndexes writes it:
// indexes of a running broker are behind on disk, exactly as long as a clean
// stop is, and recovery makes again what is missing above the recovery point.
// Files are never longer than their entries: nothing is preallocated.
//
// An index that is missing or damaged is made again from the headers of the
// batches when it is asked. Entries are trusted only where the batch that they
// point at has the offset that they say.
package segment

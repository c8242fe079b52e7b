// Package producers keeps what a log knows of its producers, so that a retried
// batch is recognized, a gap in a producer's sequence is refused, a fenced
// producer is turned away (KIP-98, KIP-360), and the first offset that a
// read-committed reader may not pass is known.
//
// A change is made in two steps, so that a failed write leaves no trace:
//
//	u, err := state.Analyze(batches, opts)  // offsets are assigned by now
//	if u.Duplicate { answer with u.First, u.Last; write nothing }
//	write the batches, and u.Completed to the transaction index
//	state.Apply(u)
//
// Analyze, or Begin and Add batch by batch, changes nothing that can be seen. Replay of a log after opening it
// is the same two steps with FromReplication.
//
// # What is remembered
//
// Of the last five batches of a producer it is known where they are. Of those
// before it is known that they were written, as far as the numbers of each lead
// on to the next: the chain of the producer's epoch. It begins with the first
// batch that is heard of, and anew where one does not follow; after a snapshot,
// with the last batch or what was recalled. So a duplicate is recognized however
// old it is, and never where the state began later, or has a gap.
//
// State has no lock, clock, goroutine or I/O: the log calls it under the lock
// that serializes its appends, and passes the time. Snapshot files are the
// business of functions that touch no State: encode under the lock, write off
// it.
//
// # Snapshot file
//
// <end offset, 20 digits>.snapshot holds every producer as of that end offset,
// byte for byte as Apache Kafka writes it. Numbers are big-endian.
//
//	 0      2        6           10
//	+--------+--------+-----------+------------ - - - --+
//	| version| crc32c | count     | count entries       |
//	| 1      |        |           |                     |
//	+--------+--------+-----------+------------ - - - --+
//	                  |<------ summed by crc32c ------->|
//
//	an entry: 46 bytes
//	 0             8     10            14            22            26
//	+-------------+-----+-------------+-------------+-------------+
//	| producer id |epoch| last        | last offset | offset      |
//	|             |     | sequence    |             | delta       |
//	+-------------+-----+-------------+-------------+-------------+
//	 26            34            38            46
//	+-------------+-------------+-------------+
//	| timestamp   | coordinator | current txn |
//	| (ms)        | epoch       | first offset|
//	+-------------+-------------+-------------+
//
// Only the last batch of a producer is in it. -1 stands for no sequence, no
// offset, no coordinator and no transaction. The order of entries is arbitrary.
package producers

// Package check judges a history of what clients of a cluster did and saw. It
// does not care who made the history: a simulation in one process, or programs
// in several languages against real brokers. docs/reliability.md says what is
// promised; a Kind names each way to break it.
//
// # The history
//
// An Event is one operation of one client, written down when it returned. Begin
// and End are positions of an Observer, a clock or a counter that only grows:
// of two operations with the same observer, one was over before the other began
// if its End is less than the other's Begin. Positions of different observers
// are never compared. Processes on one machine that read its monotonic clock
// may share an observer. Begin must not be later than the operation's true
// begin, nor End earlier than its true end: a wider interval only demands less.
// The events of an observer come in the order of their ends.
//
// Whoever does not know whether an operation took effect says Maybe. Failed
// means that it certainly did not, now and for ever. An operation that had not
// returned when the history ended is Open, which is a maybe too; it may be
// written twice, when it begins (Begin = End) and when it returns.
//
// The operations:
//
//	produce  one record of a producer, under an id that no other record has
//	read     the records between two positions of a partition, in order; or no
//	         records, and only the marks that a client was told
//	commit   a group's offset in a partition; -1 deletes it
//	fetch    a group's offset as a client was told it; -1 is none
//	begin    a transaction, under an id that no other transaction has; records
//	         and commits name it
//	end      a transaction's end, by commit or by abort
//	delete   DeleteRecords up to Offset, answered with the log start Start
//	topic    what a topic may lose: by retention, by compaction
//	gone     a client that was killed: what it had open may never return
//
// When all clients have ended, every partition is read from its start to its
// end by reads marked Final, the last of which is marked Done, without regard
// of transactions and, where there are any, as read_committed too.
//
// # As text
//
// One JSON object a line, keys as in the table in text.go; a key that is left
// out has its value of New. An outcome left out is "ok". Each record of a read
// is an array: offset, id, and as far as known the sum and the leader epoch.
//
//	{"op":"produce","client":"a","observer":"host","begin":5,"end":9,"topic":"t","partition":0,"producer":"a","idempotent":true,"acks":-1,"seq":1,"id":"a-1","sum":77,"offset":0}
//	{"op":"read","client":"b","observer":"host","begin":6,"end":12,"topic":"t","partition":0,"from":0,"next":1,"high":1,"records":[[0,"a-1",77,3]]}
//
// # What is demanded
//
// Of a producer with acks=all: each acknowledged record is at its offset in the
// final reading, unless it was deleted, its topic may lose it, or its
// transaction was aborted. An idempotent producer's record is there once, its
// acknowledged records of a partition in the order of Seq (unless InFlight is
// above 5), another one's at most Attempts times. A record that was begun after
// another was acknowledged, or after a reader was told a high watermark, stands
// behind. Of a reader: what it saw was sent, is at that offset for everyone and
// for ever, and below the marks that came with it; marks and log starts do not
// go back, but for answers of followers, which are only where marks come from.
// Of transactions: all or nothing in the final reading and in the group's
// offsets. Of committed offsets: a fetch answers the last one that was
// acknowledged before it began, or one that is as new or a maybe.
//
// A Judge keeps some hundred bytes a record, and nothing an event otherwise
// but for short windows: where those are too short it demands less. The package
// is pure; a Judge belongs to one goroutine.
package check

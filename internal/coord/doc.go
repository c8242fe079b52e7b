// Package coord runs machines that decide by what their log holds: the
// coordinators of groups, and later of transactions. One machine is one shard,
// and one shard is one partition of an internal topic; the broker that leads
// the partition runs its machine.
//
//	command -> queue of the shard -> Step -> one append for all that waited -> high watermark -> reply
//	            timer -> Fire ----^                                      effects --^
//
// A shard's life:
//
//	Elected -> loading: the log is read from its start to its end into a new machine,
//	           beside everything else; commands are told COORDINATOR_LOAD_IN_PROGRESS
//	        -> active: events run one at a time on the executor (package loop); the machine
//	           begins, with Loaded, once its partition can be written; queries are
//	           answered before
//	        -> dropped: by Resigned, a later term, a failed append, a panic. Whatever waits
//	           is told NOT_COORDINATOR, and where this broker still leads, it loads again,
//	           with back-off
//
// Rules (docs/safety.md): nothing leaves a machine before the high watermark of
// its term has passed the records that led to it, and where there are none,
// everything written or loaded before (21, 25). Whether the partition can be
// written is asked before a machine is (24), so that dropping a machine, whose
// state ran ahead of its log, is for lost leadership and broken disks alone.
// Timers that a machine has replaced or cancelled never reach it (25), and none
// does while members could not be heard, and for a while after: the partition
// could not be written, or the process did not run. A load
// begins when the last run and the last release of the machine before are over:
// so all that a shard ever appended lies below the end of its next load.
//
// Runtime's methods may be called from any goroutine. Errors are *kerr.Error,
// wrapped: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
// COORDINATOR_NOT_AVAILABLE, and those of a context.
package coord

// Package storage keeps the logs of a broker's partitions: Log appends, reads,
// syncs, truncates, rolls and retains one; Manager owns the log directories.
// Files, names and contents are Apache Kafka's (see storage/segment).
//
// # Promises
//
//   - What lies below FlushedEnd survives a crash at any instant, in order and
//     unchanged, and with it producer state, leader epochs and aborted
//     transactions.
//   - Reads take no lock and never wait for writes. The bytes that a Slice
//     references never change, whatever happens to the log.
//   - An append that failed left nothing behind. After a failed sync, or EIO
//     anywhere, the log directory is offline until the process restarts.
//   - Nothing but a torn tail is cut from a log, and a cut is logged with file,
//     position and reason.
//
// # Concurrency
//
// Append, AppendAsFollower, AssignEpoch, Truncate and Reset of one log are
// serialized by the caller. Everything else may be called at any time.
//
// Locks are taken in this order: mover.admin; Manager.mu; Log.maint (what changes files
// other than by appending); logDir.ckptMu (writes of checkpoints); Log.mu (the
// append lock); then the leaves logDir.mu, syncState.mu, flusher.mu and those
// of package segment. No lock but maint and ckptMu is held across a sync, and
// no append ever waits for those two. Hooks are called with no lock held.
//
// # What is synced before what
//
// D(dir) stands for syncing a directory. TestOrders prints the file operations
// of each of these and compares them with testdata.
//
//	append      write .log | sync .log | FlushedEnd, Hooks.Flushed
//	            One write, under the append lock. The flusher of the device
//	            syncs at once when it is idle; what is written while a sync
//	            runs is covered by the next one.
//
//	not durable sync .log | barnabas.unsynced, which names the system's boot (.tmp,
//	            sync, rename, D) | the written end is Counted. Durable again:
//	            the flushed end is Counted | sync .log | remove the mark
//
//	new epoch   write and sync leader-epoch-checkpoint (.tmp, rename, D)
//	            | FlushedEnd passes the epoch's first offset
//
//	roll        create the new .log (a rename of next.spare when that was made
//	            ahead) | go on appending | sync the old .log | sync the new .log
//	            | D(partition) | FlushedEnd passes the new base
//	            | save the producer snapshot (snapshot.tmp, sync, rename)
//
//	truncate    if below the stored recovery point: store the lowered one
//	            (.tmp, sync, rename, D) | remove producer snapshots above the
//	            cut, D | create a new .log at the cut, D | rename the segments
//	            above to .deleted, highest first, D | publish | sync the cut
//	            .log, dead tail included | sync the new one | FlushedEnd may rise
//	            New first: a crash then leaves a hole, behind which recovery
//	            drops everything; the other order would bring back the dead
//	            tail of an earlier truncation, whose successor was renamed away.
//	            The dead tail goes when the log is closed or opened.
//
//	log start   store log-start-offset-checkpoint (.tmp, sync, rename, D)
//	            | rename segments below it to .deleted, D | publish | remove
//	            them after file.delete.delay.ms
//	            The checkpoint names a log whose start lies above its first
//	            segment only: so the list begins at it when the names are gone.
//
//	checkpoint  take a producer snapshot in memory | sync .log files, as above
//	            | save the snapshot | write and sync indexes
//	            | leader-epoch-checkpoint | D(partition)
//	            | store recovery points, log starts, high watermarks
//
//	clean stop  cut dead tails | sync .log files | snapshot at the end
//	            | indexes, all of them with a file | epochs | D(partition)
//	            | remove barnabas.unsynced | recovery points, log starts, high watermarks
//	            | .kafka_cleanshutdown
//
//	start       open or recover the logs | store recovery points (also on a full
//	            disk: D, for what a kill left of a new log is taken over)
//	            | remove .kafka_cleanshutdown, D | the first write
//
//	new log     mkdir | partition.metadata (.tmp, sync, rename) | create .log
//	            and empty indexes, D | D(log directory) | its directory is named
//	            in the metadata | the first append
//
//	recovery    cut dead tails below the recovery point, sync | per segment:
//	            check, cut, sync | drop segments behind a hole, D | remove
//	            producer snapshots above the end, D | indexes, epochs, D
//	            | recovery points
//
// # Moves
//
// A log moves to another directory as a copy, the future log: a directory
// topic-0.<id>-future like any log's, with the mark barnabas.moved, which
// names the directory that it comes from. The copy is filled from the log
// while that is written, follows its truncations and its start, and counts for
// nothing. When it has caught up, what is told as flushed is held back to what
// both have on disk (Log.mirror), until both are equal while the partition is
// not written; then one rename makes the copy the log.
//
//	swap        (appends held) copy the rest, equal ends, starts, epochs |
//	            rename the future directory | (appends go to it)
//	            | sync .log | D(new log directory) | rename the old directory
//	            to -delete, D(old log directory) | FlushedEnd may rise
//	            | the metadata names the new directory | remove the mark, D
//
// So at every instant one of the two has all that was told as flushed, and a
// start knows which: where two directories hold a partition, the one with the
// mark of the other is the newer, unless the other has a later leader epoch: it
// went on by itself when the new directory was not there. Where only a future log is beside the log, it
// is a copy, cut where it parts from the log. The mark stays until the old
// directory is gone and the metadata names the new one, so that the log is not
// taken for lost meanwhile. When the rename itself fails, barnabas.kept is made
// durable in the old directory first: it outweighs a mark.
//
// # Recovery
//
// Recovery takes epochs, indexes and producer state below the recovery point
// from their files, and everything above it from the batches. A log above its
// recovery point ends at the first batch that is torn, has a wrong checksum,
// goes back in offset or epoch, or does not reach the next segment's base.
package storage

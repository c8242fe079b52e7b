// Package etcdstore is the metadata engine: metastore.Store on etcd v3, either
// a member embedded in this process or an etcd that is already there.
//
// An embedded single member has no listener at all: its client calls the server
// in process, and it elects itself at once instead of after a time-out. It looks
// after itself: history is compacted, the file defragmented when half of it is
// free, a quota alarm lifted when there is room again, and a ballast file given
// up when the disk fills, because etcd ends the process on a full disk.
//
// What etcd would end the process for (zap's Fatal and Panic) is instead the
// error that Run returns. The goroutine that met it is parked for good, locks
// and all: nothing of the member goes on from a state that etcd calls
// impossible. The process should then stop in order and exit. Plain Go panics
// in etcd's goroutines cannot be caught and do end the process; what was
// acknowledged is in the synced WAL either way.
//
// New does no I/O; Run starts, serves and stops. All other methods may be called
// concurrently, before and after Run too: they wait for the member to come up,
// and answer metastore.ErrUnavailable after it went.
//
//	<dir>/lock            held while Run runs
//	<dir>/ballast         given up below a low-water mark
//	<dir>/member/wal      etcd's log, synced before anything is acknowledged
//	<dir>/member/snap     etcd's bbolt file and snapshots
//
// Two things are the process's, not the Store's: the size of WAL segments, which
// etcd keeps in a package variable, and etcd's own collectors, of which the WAL
// sync histogram sums up every member in the process.
package etcdstore

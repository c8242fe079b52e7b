// Package etcdstore is the metadata engine: metastore.Store on etcd v3, either
// a member embedded in this process, alone or one of several voters, or a client
// of those, or of an etcd that is already there.
//
// An embedded single member has no listener at all: its client calls the server
// in process, and it elects itself at once instead of after a time-out. It looks
// after itself: history is compacted, the file defragmented when half of it is
// free, a quota alarm lifted when there is room again, and a ballast file given
// up when the disk fills, because etcd ends the process on a full disk.
//
// A voter has one listener, at its address in the list of voters, for the other
// voters and for brokers that are none (door.go). It asks for a certificate, or
// stays on loopback. Each voter's own client is in process; a watch
// there does not notice that the member is cut off from its leader, which is
// metastore.Session's to find out. A client of the voters is told at once by a
// member without a leader, and goes to another.
//
// Voters with empty directories begin a cluster of exactly the configured
// addresses, with ids that follow from them: all come to the same one without
// talking. After that the members are what etcd says, not what the configuration
// says. A voter beside whom there is a cluster already is refused, unless it is to
// join: then it takes its place anew, in steps that may each be cut short
// (join.go). A single node that is given voters tells its address to its cluster
// and so becomes the first of them. A member whose cluster has removed it, or was
// restored from a backup without it, says so and ends.
//
// A backup is etcd's snapshot, of any member. A restored cluster has the keys and
// their revisions, goes on a thousand million revisions above them with all before
// compacted (safety 15), and has an id of its own, so that members of the one
// before do not disturb it.
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
//	<dir>/joining         while nothing of member counts yet
//	<dir>/restoring       what a restore has not finished
//	<dir>/member/wal      etcd's log, synced before anything is acknowledged
//	<dir>/member/snap     etcd's bbolt file and snapshots
//
// Two things are the process's, not the Store's: the size of WAL segments, which
// etcd keeps in a package variable, and etcd's own collectors, of which the WAL
// sync histogram sums up every member in the process.
package etcdstore

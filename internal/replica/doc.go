// Package replica is this broker's part in its partitions: a Partition per
// hosted replica, with its role, ISR, high watermark, last stable offset and
// those who wait for them, around a storage.Log; and a Manager that follows
// the metadata image.
//
// # Terms
//
// A broker leads a partition only while the image names it as leader under its
// own current registration (leader_broker_epoch). Everything that waits for
// the high watermark is bound to the leader epoch it was appended in: leaving
// a term fails its waiters, under the partition's mutex, before anything is
// truncated or any other mark is taken over. Otherwise another leader's
// records could lift the mark past an offset and a lost record would be
// acknowledged.
//
// # Locks
//
// Partition.mu serializes appends and role changes. It is never held across a
// channel, a sync, a callback or another component: lock, decide, unlock, act.
// Reads take no mutex: they look at the role and the high watermark through
// atomics and at the log through its segment snapshot. The list of watchers has
// a lock of its own, a leaf that nothing is called under.
//
// # What wakes whom
//
//	append ---> log end ------------------------> Watcher (followers)
//	   |
//	   '-> flusher -> flushed end -> high watermark -> AwaitCommitted, Watcher
//
//	deleted records -> log start; a role; another log directory -> Watcher
//
// Who has read everything of a partition that leads need not look again before one
// of these (Partition.Quiet). Of a follower's, an append alone wakes nobody.
//
// On a topic with barnabas.durable.acks=false the flushed end is left out: the
// written end moves the high watermark at once, from the first sync on that a log
// has after its start, which marks it (storage.Log.Counted). Each replica says
// itself what it can be counted on for.
package replica

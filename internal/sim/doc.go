// Package sim plays seeded histories of three brokers in one process and judges
// them.
//
// The brokers are whole: package broker, from its configuration to its sockets'
// edge. What they stand on is not: a network, disks (vfs.Mem), the metadata store
// (metastore.Mem, which passes the conformance suite that etcd passes) and a clock
// of the session's, all in memory and in the fake time of a testing/synctest
// bubble, in which a minute costs the work that is done in it and no more. Clients
// speak the protocol over the same network: idempotent producers with several
// batches in flight, producers without idempotence at acks=all and acks=1,
// readers, committers of groups' offsets, administrators. What they do and see
// goes to package check.
//
// # Seeds
//
// A seed gives the plan: settings, work, faults and their times. It is drawn
// before anything runs. The order in which goroutines run that are ready at the
// same instant is the scheduler's, so one seed is a plan of many histories that
// are alike, not one history: what a seed found once it may need a few attempts
// to find again. Every second seed runs without fencing by the clock: the
// session's clock stands still, so no session of a process ever ends by itself,
// and the safety rules must do without (R1-R5); the judge then lets stale answers
// pass, as its Options.Stale says. Every fifth seed runs without durable acks, and
// there machines lose power one at a time: what all in-sync replicas lost at once
// nobody has.
//
// # Faults
//
// Between hosts: delays, cuts, also of one direction and of clients, that hold
// what is sent or end in resets. Of a process: a kill, at an instant or before the
// n-th operation on its disk, when its sockets are reset and the page cache stays;
// the loss of power, when nothing is answered and what was not synced is lost,
// torn or reordered; either of all brokers at once; a pause, in which nothing
// leaves it and nothing reaches it, while its sessions run out; a stop in order.
// Of a disk: slow syncs, and once in a history its loss. Of the metadata store:
// loss of its quorum, for one broker or for all; watches that stand still or
// break; compaction; transactions that are refused, lost, carried out and not
// answered, or carried out seconds later. Of the session's clock: jumps ahead. And
// what administrators do meanwhile: reassignment, elections, deletion of records,
// new topics.
//
// A process that died goes on, with a copy of its disk, and with a network and a
// store that it does not reach any more; its goroutines find out and end. One that
// is paused does not stop: what its timers do is held where it would be seen, at
// the network, the metadata store and the sync of its data.
//
// # What it does not do
//
// The wall clock cannot jump: package time's is one for the bubble. A sync takes
// time only in a flush; others (of truncations, checkpoints, new files) are made
// under locks, and fake time does not pass while somebody waits for a lock. The
// order of syncs and renames is what the crash tests of package storage are for.
// Disks do not fail or fill up here: the tests of package broker do that. There
// are no groups with members (package group simulates those) and no transactions.
//
// # In the end
//
// Everything is mended. Then all replicas must come in sync, records be taken, and
// all that was sent be answered for; every partition is read to its end, the
// brokers stop, and the replicas' files are compared.
package sim

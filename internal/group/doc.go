// Package group is the group coordinator as a pure machine: classic groups,
// consumer groups of KIP-848, groups that only commit offsets, and the change of a
// live group between the two protocols. One Machine is one shard, the groups of one
// partition of __consumer_offsets; package coord runs it, one call at a time.
//
//	command.go          what it is asked, with what each is answered
//	machine.go          Step, Fire, Apply: who does what
//	group.go            a group: its members under one of two protocols, and its offsets
//	classic*.go         joining, syncing and leaving, where a member assigns
//	consumer*.go        heartbeats, where the broker assigns (package assign), and regex*.go
//	mixed*.go           classic members in a consumer group, and the way up and down
//	offsets*.go         committed and pending offsets, and when they go
//	image.go, index.go  which groups hear of a change of the topics
//	records.go, codec*.go   what is written: Apache Kafka's records, byte for byte
//
//	Classic    Empty -> PreparingRebalance -> CompletingRebalance -> Stable
//	             ^              ^-------------- a member comes, goes, changes ------'
//	             '-- the last one goes
//	consumer   Empty -> Assigning -> Reconciling -> Stable, by the group's epoch, the
//	           epoch of its target assignment, and the members that are where they are to be
//
// It promises: what the log's records say is its hard state, changed in apply
// alone, so that a machine fed the records equals the one that wrote them; each
// request is answered once; no partition is told to two members of a consumer
// group; a committed offset moves by a commit, a deletion or its expiry, and by
// nothing else; what can wait goes on in a step of its own after a batch of records;
// and no step looks at all groups, but for ListGroups and Observe, which ask for them.
//
// It refuses with the protocol's errors, in the answers; an error of Apply is a
// record that must not be skipped. Times are a member's deadlines against the
// monotonic clock, and wall time in milliseconds where a record has it.
package group

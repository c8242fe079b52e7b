// Package fetcher keeps the partitions that this broker follows level with
// their leaders. There is one goroutine and one connection for each broker that
// leads any of them (safety 38), and one incremental fetch session (KIP-227) on
// it: a request names the partitions whose offsets or claims have changed, and
// an answer those that have news.
//
//	Entered(p)          a role was taken: who is to be fetched from, if anybody
//	   |
//	worker of a leader  list what changed -> Fetch -> append, truncate or reset
//	   ^                                        |
//	   +---- flushed end moved: claim it -------+
//
// A fetch waits at the leader only while everything here is flushed: while a
// sync is under way the next fetch returns at once, with data or without, and
// then the end of the sync is waited for. So the sync runs beside the next
// fetch, and the claim of what it brought about (safety 40) waits for nothing.
//
// A partition whose fetch was refused leaves the session, and comes back after
// a delay, or at once when its role changes.
package fetcher

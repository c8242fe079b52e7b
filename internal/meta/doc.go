// Package meta is the cluster's state as this broker knows it: the keys and
// the JSON values of the metadata store, and the immutable Image that is made
// of them. It is pure: no clock, no lock, no I/O.
//
// # Promises
//
// An Image never changes. Any goroutine may hold and read one; the broker
// publishes the newest by an atomic pointer, and Apply makes the next from a
// change of the store. The two share what did not change: a change of one
// partition costs a copy of its topic's slice of pointers and a path in a few
// search trees, whatever the size of the cluster.
//
// An image made of events equals one made of a listing at the same revision,
// and Diff between two images says what the Deltas between them said together.
//
// # Keys
//
// All under /barnabas/<cluster id>:
//
//	/brokers/ids/<node>                    registration, under the broker's lease
//	/controller /controller_epoch          winner of the election, and the count
//	/topics/<name>                         topic id, number of partitions
//	/topics/<id>/partitions/<p>/state      one partition
//	/names/<name with . as _>              who holds a name that has . or _
//	/pending/<id>                          partitions of that topic are being made
//	/deleted/<id>                          tombstone of a topic
//	/config/topics/<name>                  overrides of a topic
//	/config/brokers/<node>, .../default    overrides of a broker, of all brokers
//	/ids/producer                          next block of producer ids
//	/features /cluster                     finalized levels; the cluster itself
//	/acls/... /users/... /quotas/...       not read yet
//
// A topic's name may look like a topic id, so the two must not be told apart
// by their looks, and are not: a name cannot hold a slash, so directly under
// /topics/ stand names alone, and deeper, always as <id>/partitions/<p>/state,
// states alone. The states of a topic are the range from "/topics/<id>/" to
// "/topics/<id>0" (0 follows the slash in ASCII), in which no name can fall.
//
// # Values
//
// Every value is a JSON object with a version. A field that this build does
// not know is kept when the value is rewritten, so that brokers of two builds
// can share a store; such fields are added at the top level of a value only,
// and do not raise its version. The version is raised when an old build must
// not touch the value; such a value, and a malformed one, is refused: the
// image keeps what it held before under that key and the Delta names the
// error. That is safe, because every transaction compares revisions: nobody
// who did not understand a value can overwrite it.
//
// # Topics are whole or absent
//
// A topic is in the image when its key and all of its states are there. States
// that came before their key, of a creation under way or beyond the count, are
// held aside. Events of one revision may come in any order.
package meta

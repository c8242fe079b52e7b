// Package kv holds the plain values that are exchanged with the metadata
// engine: keys at revisions, transactions, events. It has no behaviour beyond
// small constructors, so that the pure packages meta, meta/plan and controller
// can speak of transactions without knowing who carries them out; the
// metastore package names the same types as its own.
//
// Revisions are those of etcd: one counter for the whole store, raised by one
// per transaction that changed something. Values are not changed after they
// were handed over, so any goroutine may read them.
package kv

// KV is a key at a revision.
type KV struct {
	Key       string
	Value     []byte
	CreateRev int64 // revision of the creation
	ModRev    int64 // revision of the last change
	Version   int64 // changes since creation, 1 at creation
	Lease     int64 // 0: none
}

// Target is what a Cmp looks at.
type Target int8

// Targets of a Cmp: a missing key has 0 for each.
const (
	ModRev Target = iota
	CreateRev
	Version
)

// Cmp is one compare of a transaction: equality.
type Cmp struct {
	Key    string
	Target Target
	Want   int64
}

// Op is one operation of a transaction.
type Op struct {
	Kind  OpKind
	Key   string
	End   string // DeleteRange and Get: exclusive end, "" for the one key
	Value []byte
	Lease int64 // Put: 0 none
}

// OpKind is the kind of an Op.
type OpKind int8

// The kinds. A key may be put at most once in a transaction (etcd refuses more).
const (
	Put OpKind = iota
	Delete
	Get
)

// MaxOps is the engine's limit: compares or operations, whichever is more.
const MaxOps = 128

// Txn does Then when every compare of If holds, otherwise Else.
type Txn struct {
	If   []Cmp
	Then []Op
	Else []Op
}

// TxnResult of a transaction that was certainly carried out.
type TxnResult struct {
	Succeeded bool
	Rev       int64
	// Gets holds one entry per Get of the branch that ran, in order.
	Gets [][]KV
}

// Event is one change; Deleted events carry key and ModRev only.
type Event struct {
	KV      KV
	Deleted bool
}

// Change is everything that happened at one or more whole revisions, in order;
// a Change without events is a progress notification: the watcher is at Rev.
type Change struct {
	Events []Event
	Rev    int64
}

// Absent compares that key does not exist.
func Absent(key string) Cmp { return Cmp{Key: key, Target: Version} }

// ModIs compares the revision of key's last change; 0 means that it is absent.
func ModIs(key string, rev int64) Cmp { return Cmp{Key: key, Target: ModRev, Want: rev} }

// CreatedAt compares the revision of key's creation.
func CreatedAt(key string, rev int64) Cmp { return Cmp{Key: key, Target: CreateRev, Want: rev} }

// PutOp writes key under lease (0: none).
func PutOp(key string, value []byte, lease int64) Op {
	return Op{Kind: Put, Key: key, Value: value, Lease: lease}
}

// DeleteOp deletes the one key; it is no error when there is none.
func DeleteOp(key string) Op { return Op{Kind: Delete, Key: key} }

// DeleteUnder deletes every key that begins with prefix.
func DeleteUnder(prefix string) Op {
	return Op{Kind: Delete, Key: prefix, End: PrefixEnd(prefix)}
}

// GetOp reads the one key.
func GetOp(key string) Op { return Op{Kind: Get, Key: key} }

// PrefixEnd is the first key after all those that begin with prefix, which is
// not empty and does not end in 0xff: keys here are ASCII.
func PrefixEnd(prefix string) string {
	b := []byte(prefix)
	b[len(b)-1]++
	return string(b)
}

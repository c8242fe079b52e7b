package plan

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// Registration is the plan of Register: Remove when it is not nil, then Put.
// Put's revision is the broker epoch. A Put that fails has read the key.
type Registration struct {
	Remove *kv.Txn
	Put    kv.Txn
	Done   bool // b's own start is registered already: there is nothing to do
}

// Register plans b's registration under lease (0: none), in two steps because
// a put over a registration would keep its create revision and silently drop
// its lease (safety 1). existing is what the key holds, nil for nothing: it is
// removed when it is of b's earlier session or of the same broker's earlier start,
// which shows in a directory id that both have, and refused with
// DUPLICATE_BROKER_REGISTRATION otherwise. Without a lease b is a single node:
// nobody else reaches its store, and another registration without one is its own,
// on directories that it had before. What b lost since is resigned before (Resign).
func Register(keys meta.Keys, existing *meta.Broker, b *meta.Broker, lease int64) (Registration, error) {
	key := keys.Broker(b.ID)
	r := Registration{Put: kv.Txn{
		If:   []kv.Cmp{kv.Absent(key)},
		Then: []kv.Op{kv.PutOp(key, b.Encode(), lease)},
		Else: []kv.Op{kv.GetOp(key)},
	}}
	if existing == nil {
		return r, nil
	}
	if existing.StartID == b.StartID && existing.Lease == lease {
		return Registration{Done: true}, nil
	}
	ours := existing.StartID == b.StartID || lease == 0 && existing.Lease == 0 || slices.ContainsFunc(existing.Dirs, func(d kafka.DirID) bool { return slices.Contains(b.Dirs, d) })
	if !ours {
		return Registration{}, refuse(kerr.DuplicateBrokerRegistration,
			"node.id %d is in use by another broker%s, which has other data directories: give this one a node.id of its own", b.ID, at(existing))
	}
	r.Remove = &kv.Txn{
		If:   []kv.Cmp{kv.ModIs(key, existing.ModRev)},
		Then: []kv.Op{kv.DeleteOp(key)},
		Else: []kv.Op{kv.GetOp(key)},
	}
	return r, nil
}

func at(b *meta.Broker) string {
	if len(b.Listeners) == 0 {
		return ""
	}
	l := b.Listeners[0]
	return " (" + l.Host + ":" + kafka.NodeID(l.Port).String() + ")"
}

func registered(img *meta.Image, node kafka.NodeID, epoch int64) (*meta.Broker, error) {
	b, ok := img.Broker(node)
	if !ok || b.Epoch != epoch {
		return nil, refuse(kerr.StaleBrokerEpoch, "broker %d is not registered with epoch %d", node, epoch)
	}
	return b, nil
}

// SetLeaving plans that a broker says it is shutting down: leaders move away
// from it and it gets no new replicas. Refusal: STALE_BROKER_EPOCH.
func SetLeaving(img *meta.Image, node kafka.NodeID, epoch int64) (kv.Txn, error) {
	return rewrite(img, node, epoch, func(b *meta.Broker) { b.Leaving = true })
}

// SetOffline plans that a broker names the data directories that it cannot use
// (safety 4). Refusal: STALE_BROKER_EPOCH.
func SetOffline(img *meta.Image, node kafka.NodeID, epoch int64, dirs []kafka.DirID) (kv.Txn, error) {
	return rewrite(img, node, epoch, func(b *meta.Broker) { b.Offline = slices.Clone(dirs) })
}

// SetCordoned plans that a broker names the data directories that take no new
// replicas (KIP-1066). Refusal: STALE_BROKER_EPOCH.
func SetCordoned(img *meta.Image, node kafka.NodeID, epoch int64, dirs []kafka.DirID) (kv.Txn, error) {
	return rewrite(img, node, epoch, func(b *meta.Broker) { b.Cordoned = slices.Clone(dirs) })
}

// rewrite changes a registration in place: only its own incarnation does so,
// and under the lease that it has.
func rewrite(img *meta.Image, node kafka.NodeID, epoch int64, change func(*meta.Broker)) (kv.Txn, error) {
	b, err := registered(img, node, epoch)
	if err != nil {
		return kv.Txn{}, err
	}
	next := b.Clone()
	change(next)
	key := img.Keys().Broker(node)
	return kv.Txn{
		If:   []kv.Cmp{kv.ModIs(key, b.ModRev)},
		Then: []kv.Op{kv.PutOp(key, next.Encode(), b.Lease)},
		Else: []kv.Op{kv.GetOp(key)},
	}, nil
}

// Unregister plans that exactly this incarnation goes. It is the end of a
// broker without a lease; one with a lease revokes it.
func Unregister(keys meta.Keys, node kafka.NodeID, epoch int64) kv.Txn {
	key := keys.Broker(node)
	return kv.Txn{
		If:   []kv.Cmp{kv.CreatedAt(key, epoch)},
		Then: []kv.Op{kv.DeleteOp(key)},
		Else: []kv.Op{kv.GetOp(key)},
	}
}

// Campaign plans that node becomes the controller: nothing while a registered
// broker holds the place, itself included. The winner's place lies under its
// registration's lease; that of one which is gone without a lease is removed
// first. Refusal: STALE_BROKER_EPOCH.
func Campaign(img *meta.Image, node kafka.NodeID, epoch int64) ([]kv.Txn, error) {
	b, err := registered(img, node, epoch)
	if err != nil {
		return nil, err
	}
	key, counter := img.Keys().Controller(), img.Keys().ControllerEpoch()
	var out []kv.Txn
	if c, held := img.ControllerHolder(); held {
		if h, ok := img.Broker(c.Node); ok && h.Epoch == c.BrokerEpoch {
			return nil, nil
		}
		out = append(out, kv.Txn{
			If:   []kv.Cmp{kv.ModIs(key, c.ModRev), kv.CreatedAt(img.Keys().Broker(node), b.Epoch)},
			Then: []kv.Op{kv.DeleteOp(key)},
			Else: []kv.Op{kv.GetOp(key)},
		})
	}
	count := img.ControllerEpochKey()
	c := meta.Controller{Node: node, BrokerEpoch: b.Epoch}
	return append(out, kv.Txn{
		If:   []kv.Cmp{kv.Absent(key), kv.ModIs(counter, count.ModRev), kv.CreatedAt(img.Keys().Broker(node), b.Epoch)},
		Then: []kv.Op{kv.PutOp(key, c.Encode(), b.Lease), kv.PutOp(counter, count.Next(), 0)},
		Else: []kv.Op{kv.GetOp(key)},
	}), nil
}

// StepDown plans that the controller elected at createRev gives the place up.
func StepDown(keys meta.Keys, createRev int64) kv.Txn {
	return kv.Txn{
		If:   []kv.Cmp{kv.CreatedAt(keys.Controller(), createRev)},
		Then: []kv.Op{kv.DeleteOp(keys.Controller())},
	}
}

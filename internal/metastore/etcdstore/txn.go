package etcdstore

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// Txn implements metastore.Store. Client v3 does not send a transaction twice:
// it retries one only when no connection was there to carry it.
func (s *Store) Txn(ctx context.Context, t metastore.Txn) (metastore.TxnResult, error) {
	if n := max(len(t.If), len(t.Then), len(t.Else)); n > metastore.MaxOps {
		return metastore.TxnResult{}, fmt.Errorf("%d, at most %d: %w", n, metastore.MaxOps, metastore.ErrTooManyOps)
	}
	ctx, done, err := s.call(ctx)
	if err != nil {
		return metastore.TxnResult{}, err
	}
	defer done()
	cmps := make([]clientv3.Cmp, len(t.If))
	for i, c := range t.If {
		cmps[i] = toCmp(c)
	}
	compares := len(t.Then)+len(t.Else) == 0
	if compares {
		// etcd answers compares alone from where the member stands, which may be behind: a read has it ask its leader.
		t.Then, t.Else = lookNowhere, lookNowhere
	}
	start := time.Now()
	r, err := s.client.Txn(ctx).If(cmps...).Then(toOps(t.Then)...).Else(toOps(t.Else)...).Commit()
	if err != nil {
		err = writeError("metadata transaction", err)
		s.metrics.observe(start, err)
		return metastore.TxnResult{}, err
	}
	s.metrics.observe(start, nil)
	res := metastore.TxnResult{Succeeded: r.Succeeded, Rev: r.Header.Revision}
	if compares {
		return res, nil
	}
	for _, or := range r.Responses {
		if g := or.GetResponseRange(); g != nil {
			res.Gets = append(res.Gets, toKVs(g.Kvs))
		}
	}
	return res, nil
}

var lookNowhere = []metastore.Op{{Kind: metastore.Get, Key: "\x00"}}

func toCmp(c metastore.Cmp) clientv3.Cmp {
	switch c.Target {
	case metastore.CreateRev:
		return clientv3.Compare(clientv3.CreateRevision(c.Key), "=", c.Want)
	case metastore.Version:
		return clientv3.Compare(clientv3.Version(c.Key), "=", c.Want)
	default:
		return clientv3.Compare(clientv3.ModRevision(c.Key), "=", c.Want)
	}
}

func toOps(ops []metastore.Op) []clientv3.Op {
	out := make([]clientv3.Op, len(ops))
	for i, op := range ops {
		var opts []clientv3.OpOption
		if op.End != "" {
			opts = append(opts, clientv3.WithRange(op.End))
		}
		switch op.Kind {
		case metastore.Put:
			out[i] = clientv3.OpPut(op.Key, string(op.Value), clientv3.WithLease(clientv3.LeaseID(op.Lease)))
		case metastore.Delete:
			out[i] = clientv3.OpDelete(op.Key, opts...)
		default:
			out[i] = clientv3.OpGet(op.Key, opts...)
		}
	}
	return out
}

func toKV(kv *mvccpb.KeyValue) metastore.KV {
	return metastore.KV{
		Key:       string(kv.Key),
		Value:     kv.Value,
		CreateRev: kv.CreateRevision,
		ModRev:    kv.ModRevision,
		Version:   kv.Version,
		Lease:     kv.Lease,
	}
}

func toKVs(kvs []*mvccpb.KeyValue) []metastore.KV {
	if len(kvs) == 0 {
		return nil
	}
	out := make([]metastore.KV, len(kvs))
	for i, kv := range kvs {
		out[i] = toKV(kv)
	}
	return out
}

// Grant implements metastore.Store. A grant whose answer was lost ends by itself.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (int64, error) {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	r, err := s.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return 0, readError("grant lease", err)
	}
	return int64(r.ID), nil
}

// Renew implements metastore.Store.
func (s *Store) Renew(ctx context.Context, lease int64) (time.Duration, error) {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	r, err := s.client.KeepAliveOnce(ctx, clientv3.LeaseID(lease))
	if err != nil {
		return 0, readError(fmt.Sprintf("renew lease %x", lease), err)
	}
	return time.Duration(r.TTL) * time.Second, nil
}

// Revoke implements metastore.Store.
func (s *Store) Revoke(ctx context.Context, lease int64) error {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return err
	}
	defer done()
	if _, err := s.client.Revoke(ctx, clientv3.LeaseID(lease)); err != nil {
		return writeError(fmt.Sprintf("revoke lease %x", lease), err)
	}
	return nil
}

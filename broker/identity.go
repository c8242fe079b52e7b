package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/storage"
)

// identify says which cluster this broker is of: the one that its log
// directories name, or the configuration; where they name none, the one that the
// metadata store holds, or a new one. Log directories of a cluster that the store
// does not hold, while it holds another, are refused.
func identify(ctx context.Context, store metastore.Store, own string, chosen bool) (string, error) {
	known, err := clusters(ctx, store)
	if err != nil {
		return "", err
	}
	drawn := own == ""
	switch {
	case !drawn && slices.Contains(known, own):
		return own, nil
	case !drawn && !chosen && len(known) > 0:
		return "", foreign(own, known...)
	case drawn && len(known) == 1:
		return known[0], nil
	case drawn && len(known) > 1:
		return "", fmt.Errorf("the metadata store holds the clusters %s: say which one this broker joins (barnabas.cluster.id)", strings.Join(known, " and "))
	case drawn:
		own = storage.NewUUID().String()
	}
	// Nobody has begun it yet, or somebody does so right now.
	res, err := txn(ctx, store, plan.Begin(own, time.Now().UnixMilli()))
	if err != nil || res.Succeeded {
		return own, err
	}
	first, err := firstCluster(res)
	switch {
	case err != nil:
		return "", err
	case first == own || first == "":
	case drawn:
		own = first
	case !chosen:
		return "", foreign(own, first)
	}
	_, err = txn(ctx, store, plan.Bootstrap(own, time.Now().UnixMilli()))
	return own, err
}

func foreign(own string, known ...string) error {
	return fmt.Errorf("the log directories belong to cluster %s, and the metadata store holds %s: let this broker find its own cluster's "+
		"metadata store, or give it empty log directories to join (log.dirs)", own, strings.Join(known, " and "))
}

// firstCluster is the cluster that the store began with, as Begin read it.
func firstCluster(res kv.TxnResult) (string, error) {
	if len(res.Gets) < 2 || len(res.Gets[1]) == 0 {
		return "", nil
	}
	c, err := meta.DecodeCluster(res.Gets[1][0])
	return c.ID, err
}

// clusters lists those that a store holds, by a look at the first key of each.
func clusters(ctx context.Context, store metastore.Store) ([]string, error) {
	var out []string
	from := ""
	for {
		p, err := retried(ctx, func() (metastore.Page, error) { return store.List(ctx, meta.Root, from, 0, 1) })
		if err != nil || len(p.KVs) == 0 {
			return out, err
		}
		key := p.KVs[0].Key
		id, ok := meta.ClusterOf(key)
		if !ok {
			from = key + "\x00"
			continue
		}
		out = append(out, id)
		from = metastore.PrefixEnd(meta.KeysOf(id).Prefix())
	}
}

package broker

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/metastore/etcdstore"
)

// saver is a metadata store that can be written into a file.
type saver interface {
	Save(ctx context.Context, path string) (etcdstore.Backup, error)
}

// backup answers with all of the metadata, as etcd's snapshot. It stands in a log
// directory while it is sent: that is where there is room.
func (b *Broker) backup(w http.ResponseWriter, r *http.Request) {
	s, ok := b.parts.store.(saver)
	if !ok || len(b.node.Metadata.Endpoints) > 0 {
		http.Error(w, "the metadata is in an etcd outside of the cluster: use etcdctl snapshot save", http.StatusNotImplemented)
		return
	}
	fail := func(err error) { http.Error(w, err.Error(), http.StatusInternalServerError) }
	dir, err := os.MkdirTemp(b.node.Metadata.Dir, ".backup-")
	if err != nil {
		fail(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "metadata")
	saved, err := s.Save(r.Context(), path)
	if err != nil {
		fail(err)
		return
	}
	f, err := os.Open(path)
	if err != nil {
		fail(err)
		return
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		fail(err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(st.Size(), 10))
	if _, err := io.Copy(w, f); err != nil {
		b.log.Warn("backup of the metadata was not taken to its end", "err", err)
		return
	}
	b.log.Info("backup of the metadata taken", "revision", saved.Revision, "bytes", saved.Bytes)
}

// Restore makes the metadata directory of a node that does not run, out of a
// backup: with the settings that it will run with, Set and the like, whose voters
// are those of the new cluster. It is done on each voter, from the same file.
func Restore(o Options, file string) error {
	cfg := o.Config
	if cfg == nil {
		var err error
		if cfg, _, err = config.Load(config.Options{File: o.File, Environ: o.Environ, Set: o.Set}); err != nil {
			return err
		}
	}
	node, err := cfg.Broker(nil)
	if err != nil {
		return err
	}
	return etcdstore.Restore{From: file, To: (&Broker{cfg: cfg, node: node}).metadataConfig()}.Run(o.Logger)
}

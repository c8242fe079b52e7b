package etcdstore

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
)

// view is what a voter says at its peer listener of the cluster that it is in.
type view struct {
	voter   Voter
	cluster string // its id, as etcd prints it
	members []*membership.Member
}

// askTimeout bounds a question to a voter: one that is there answers at once.
const askTimeout = time.Second

// ask asks one peer address.
func (c Config) ask(ctx context.Context, peer string) (view, error) {
	tlsConfig, err := c.Files.client()
	if err != nil {
		return view{}, err
	}
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, peer+"/members", nil)
	if err != nil {
		return view{}, err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return view{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	v := view{cluster: resp.Header.Get("X-Etcd-Cluster-ID")}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&v.members); err != nil {
		return view{}, err
	}
	if v.cluster == "" {
		return view{}, fmt.Errorf("%s is no member of the metadata", peer)
	}
	return v, nil
}

// askOthers asks all the other voters at once; who does not answer is left out.
func (c Config) askOthers(ctx context.Context) (out []view) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, v := range c.Voters {
		if v.ID == c.Member.ID {
			continue
		}
		wg.Go(func() {
			got, err := c.ask(ctx, c.peerURL(v))
			if err != nil {
				return
			}
			got.voter = v
			mu.Lock()
			defer mu.Unlock()
			out = append(out, got)
		})
	}
	wg.Wait()
	return out
}

// checkNew looks for a cluster that is there, beside which none may begin; etcd
// itself looks only for one that these voters began. A node that is no member of
// it waits until somebody makes it one, and then joins.
func (m *member) checkNew(ctx context.Context) (joins bool, err error) {
	tick := time.NewTicker(joinEvery)
	defer tick.Stop()
	for said := false; ; {
		there, added, err := m.lookAround(ctx)
		if err != nil || !there && !said {
			return false, err // there is none, or this node is to stay out
		}
		if added {
			return true, nil
		}
		if !said {
			said = true
			m.logger.Warn("other voters carry metadata already: this node waits until it is added to them "+
				"(barnabas cluster quorum add, or controller.quorum.auto.join.enable=true)", "node", m.cfg.Member.ID, "address", m.cfg.self().Address)
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-tick.C:
		}
	}
}

// lookAround asks the other voters whether there is a cluster, and whether this
// node was added to it. What it was of that cluster before is not its to replace.
func (m *member) lookAround(ctx context.Context) (there, added bool, err error) {
	id, err := m.cfg.clusterID()
	if err != nil {
		return false, false, err
	}
	mine := m.cfg.peerURL(m.cfg.self())
	for _, v := range m.cfg.askOthers(ctx) {
		known, among := v.cluster != id.String(), false
		for _, o := range v.members {
			before := o.Name == m.cfg.Member.Name || o.Name != "" && slices.Contains(o.PeerURLs, mine)
			among = among || before
			known = known || before && len(o.ClientURLs) > 0
			if known && before {
				return true, false, fmt.Errorf("metadata store: voter %d carries metadata already, with this node in them, and %s is empty: "+
					"set controller.quorum.auto.join.enable=true to take this node in anew", v.voter.ID, m.cfg.Member.Dir)
			}
			added = added || o.Name == "" && o.IsLearner && slices.Contains(o.PeerURLs, mine)
		}
		// One that these voters began has this node in it, unless it was removed.
		there = there || known || !among
	}
	return there, there && added, nil
}

// checkStrange ends a member of a cluster that is no more: a majority of the
// voters carries another, restored from a backup.
func (m *member) checkStrange(ctx context.Context) error {
	if !m.cfg.shared() {
		return nil
	}
	others := map[string]int{}
	for _, v := range m.cfg.askOthers(ctx) {
		others[v.cluster]++
		if v.cluster != m.etcd.Server.Cluster().ID().String() && others[v.cluster] > len(m.cfg.Voters)/2 {
			return m.strange(v)
		}
	}
	return nil
}

func (m *member) strange(v view) error {
	return fmt.Errorf("metadata store %s: voter %d carries other metadata (cluster %s, here %v): "+
		"one of the two has to go; empty its directory and start it with controller.quorum.auto.join.enable=true",
		m.cfg.Member.Dir, v.voter.ID, v.cluster, m.etcd.Server.Cluster().ID())
}

// checkAlone refuses two clusters of the same voters: a member that was alone and
// is to grow, beside others that began without it. And it refuses to run without
// a listener as one of several.
func (m *member) checkAlone(ctx context.Context) error {
	srv := m.etcd.Server
	n := len(srv.Cluster().Members())
	if !m.cfg.shared() {
		if n > 1 {
			return fmt.Errorf("metadata store %s: this node is one of %d members of the metadata, and controller.quorum.voters does not name the others: "+
				"name them, or remove them first", m.cfg.Member.Dir, n)
		}
		return nil
	}
	if !m.alone() {
		return nil
	}
	for _, v := range m.cfg.askOthers(ctx) {
		if v.cluster != srv.Cluster().ID().String() {
			return m.strange(v)
		}
	}
	return nil
}

package storage

import "fmt"

// ClusterID is the cluster that the claimed directories belong to, "" for none yet.
func (m *Manager) ClusterID() string { return m.cfg.ClusterID }

// Join writes down which cluster the claimed directories are of, where they are
// of none yet. It is called before Open.
func (m *Manager) Join(clusterID string) error {
	if own := m.cfg.ClusterID; own != "" && own != clusterID {
		return fmt.Errorf("log directories are of cluster %s, not %s", own, clusterID)
	}
	m.cfg.ClusterID = clusterID
	for _, d := range m.dirs {
		if d.cluster != "" || d.offline() != nil {
			continue
		}
		if err := d.saveMeta(); err != nil {
			return d.unusable(err)
		}
		d.cluster = clusterID
	}
	return nil
}

// Release unlocks directories that were claimed and never opened, in which
// nothing changes; after Close there are none.
func (m *Manager) Release() { m.unlock() }

// agreeOnCluster sets the cluster's id: the one that is configured, or that the
// directories have. Empty ones are of none until somebody joins them.
func (m *Manager) agreeOnCluster(fresh []bool) error {
	for i, d := range m.dirs {
		switch {
		case fresh[i] || d.cluster == "" || d.cluster == m.cfg.ClusterID:
		case m.cfg.ClusterID == "":
			m.cfg.ClusterID = d.cluster
		default:
			return d.refuse("belongs to cluster %s, not %s: set log.dirs to this cluster's directory or an empty one", d.cluster, m.cfg.ClusterID)
		}
	}
	return nil
}

package storage

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/magiconair/properties"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// Files of a log directory beside the checkpoints, and of a partition's.
const (
	lockName      = ".lock"
	metaName      = "meta.properties"
	formatName    = "barnabas.format"
	cleanName     = ".kafka_cleanshutdown"
	partitionName = "partition.metadata"

	// FormatVersion is the format of a log directory that this build writes.
	FormatVersion = 1

	maxMetaBytes = 1 << 20
)

// formatFile is barnabas.format: it tells our directories from Apache Kafka's,
// and metadata that was restored to an older state from the present one.
type formatFile struct {
	Format   int    `json:"format"`
	Cluster  string `json:"metadata_cluster,omitempty"`
	Revision int64  `json:"highest_revision"` // of the metadata that was applied here
}

// RefusedError says why a log directory cannot be used, and what to do. Nothing
// in the directory was touched.
type RefusedError struct{ Dir, Why string }

func (e *RefusedError) Error() string { return "log directory " + e.Dir + " " + e.Why }

func (d *logDir) refuse(format string, args ...any) error {
	return &RefusedError{Dir: d.path, Why: fmt.Sprintf(format, args...)}
}

// inspect decides whether the directory is ours, without touching it. fresh
// means that it is empty and to be formatted.
func (d *logDir) inspect() (fresh bool, err error) {
	names, err := d.m.fs.List(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	has := map[string]bool{}
	partition := ""
	for _, n := range names {
		has[n] = true
		if _, _, ok := parsePartitionDir(n); ok {
			partition = n
		}
	}
	switch {
	case has["__cluster_metadata-0"]:
		return false, d.refuse("belongs to Apache Kafka (it holds __cluster_metadata-0): set log.dirs to an empty directory")
	case has[formatName] && has[metaName]:
		return false, d.checkMeta()
	case has[metaName]:
		return false, d.refuse("belongs to Apache Kafka (meta.properties without %s): set log.dirs to an empty directory", formatName)
	case partition != "":
		return false, d.refuse("holds %s but no meta.properties: restore that file, or set log.dirs to an empty directory", partition)
	}
	return true, nil // or formatting was interrupted: the format file is written first
}

func (d *logDir) checkMeta() error {
	b, err := vfs.ReadFile(d.m.fs, d.join(formatName), maxMetaBytes)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &d.format); err != nil || d.format.Format < 1 {
		return d.refuse("has a damaged %s: restore it from a backup, or set log.dirs to an empty directory", formatName)
	}
	if d.format.Format > FormatVersion {
		return d.refuse("has format %d, and this build knows formats up to %d: run the newer build", d.format.Format, FormatVersion)
	}
	if b, err = vfs.ReadFile(d.m.fs, d.join(metaName), maxMetaBytes); err != nil {
		return err
	}
	p, err := properties.Load(b, properties.UTF8)
	if err != nil {
		return d.refuse("has a damaged meta.properties (%v): restore it from a backup", err)
	}
	cfg := &d.m.cfg
	if v := p.GetString("version", ""); v != "1" {
		return d.refuse("has meta.properties of version %q, not 1: restore it from a backup", v)
	}
	d.cluster = p.GetString("cluster.id", "")
	if v := p.GetString("node.id", ""); v != strconv.Itoa(int(cfg.NodeID)) {
		return d.refuse("belongs to node.id %s, not %d: set node.id or log.dirs right", v, cfg.NodeID)
	}
	if d.id, err = kafka.ParseUUID(p.GetString("directory.id", "")); err != nil || d.id.IsZero() {
		return d.refuse("has meta.properties without a good directory.id: restore it from a backup")
	}
	return nil
}

// NewUUID draws an id of version 4, as Apache Kafka's are: never one of the
// reserved ones, and never one that looks like an option on a command line.
func NewUUID() kafka.UUID {
	for {
		var id kafka.UUID
		_, _ = rand.Read(id[:]) // crypto/rand does not fail
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		if id.String()[0] != '-' {
			return id
		}
	}
}

// writeFormat formats an empty directory.
func (d *logDir) writeFormat() error {
	d.id, d.cluster = NewUUID(), d.m.cfg.ClusterID
	d.format = formatFile{Format: FormatVersion}
	if err := d.saveFormat(); err != nil {
		return err
	}
	return d.saveMeta()
}

func (d *logDir) saveMeta() error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "#\n#%s\n", d.m.now().UTC().Format("Mon Jan 02 15:04:05 UTC 2006"))
	if id := d.m.cfg.ClusterID; id != "" {
		fmt.Fprintf(&b, "cluster.id=%s\n", id)
	}
	fmt.Fprintf(&b, "directory.id=%s\nnode.id=%d\nversion=1\n", d.id, d.m.cfg.NodeID)
	return vfs.ReplaceFile(d.m.fs, d.join(metaName), b.Bytes())
}

func (d *logDir) saveFormat() error {
	b, err := json.Marshal(d.format)
	if err != nil {
		return err
	}
	return vfs.ReplaceFile(d.m.fs, d.join(formatName), append(b, '\n'))
}

// cleanMark is .kafka_cleanshutdown: the first two fields are Apache Kafka's
// (KIP-966).
type cleanMark struct {
	Version     int    `json:"version"`
	BrokerEpoch int64  `json:"brokerEpoch"`
	DirectoryID string `json:"directoryId,omitempty"`
}

// readClean reads the clean mark. One of another directory, copied here, does
// not count.
func (d *logDir) readClean() error {
	d.clean, d.cleanEpoch = false, -1
	b, err := vfs.ReadFile(d.m.fs, d.join(cleanName), maxMetaBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var m cleanMark
	if json.Unmarshal(b, &m) != nil || m.DirectoryID != d.id.String() {
		return nil
	}
	d.clean, d.cleanEpoch = true, m.BrokerEpoch
	return nil
}

func (d *logDir) writeClean(brokerEpoch int64) error {
	b, err := json.Marshal(cleanMark{BrokerEpoch: brokerEpoch, DirectoryID: d.id.String()})
	if err != nil {
		return err
	}
	return vfs.ReplaceFile(d.m.fs, d.join(cleanName), b)
}

// removeClean removes the clean mark for good, before the first write.
func (d *logDir) removeClean() error {
	err := d.m.fs.Remove(d.join(cleanName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.m.fs.SyncDir(d.path)
}

// parsePartitionDir parses topic-0.
func parsePartitionDir(name string) (kafka.TopicPartition, string, bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 || name[0] == '.' {
		return kafka.TopicPartition{}, "", false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != name[i+1:] {
		return kafka.TopicPartition{}, "", false
	}
	return kafka.TopicPartition{Topic: name[:i], Partition: int32(n)}, name, true
}

// Suffixes of partition directories that are no longer in use.
const (
	deleteDirSuffix = "-delete"
	strayDirSuffix  = "-stray"
	futureDirSuffix = "-future" // a log on its way here from another directory

	maxNameLen = 255 // of file systems
)

// awayName is Apache Kafka's name for a directory on its way out:
// topic-0.<32 hexadecimal digits>-delete, the topic cut so that the name fits.
func awayName(tp kafka.TopicPartition, suffix string) (string, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", err
	}
	tail := fmt.Sprintf("-%d.%x%s", tp.Partition, id, suffix)
	topic := tp.Topic
	if n := maxNameLen - len(tail); len(topic) > n {
		topic = topic[:n]
	}
	return topic + tail, nil
}

// writeTopicID makes partition.metadata durable, its name too.
func writeTopicID(fsys vfs.FS, dir *segment.Dir, id kafka.TopicID) error {
	if err := putTopicID(fsys, dir, id); err != nil {
		return err
	}
	return fsys.SyncDir(dir.Path())
}

// putTopicID is writeTopicID but for the directory's sync, which the caller sees to.
func putTopicID(fsys vfs.FS, dir *segment.Dir, id kafka.TopicID) error {
	name := dir.Join(partitionName)
	return vfs.PutFile(fsys, name+".tmp", name, []byte("version: 0\ntopic_id: "+id.String()))
}

// readTopicID reads partition.metadata; the zero id when there is none.
func readTopicID(fsys vfs.FS, dir *segment.Dir) (kafka.TopicID, error) {
	path := dir.Join(partitionName)
	b, err := vfs.ReadFile(fsys, path, maxMetaBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return kafka.TopicID{}, nil
	}
	if err != nil {
		return kafka.TopicID{}, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "topic_id:"); ok {
			id, err := kafka.ParseUUID(strings.TrimSpace(v))
			if err != nil {
				return id, fmt.Errorf("%s: %w", path, err)
			}
			return id, nil
		}
	}
	return kafka.TopicID{}, fmt.Errorf("%s: no topic_id", path)
}

func (m *Manager) now() time.Time { return time.Now() }

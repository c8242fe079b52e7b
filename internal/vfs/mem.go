package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mem is a file system in memory that keeps apart what is durable and what a
// power loss may take: see [Mem.CrashClone]. Relative names start at the root.
// Make one with NewMem. All methods may be called from several goroutines.
type Mem struct {
	mu       sync.Mutex
	root     *memNode
	locks    map[string]bool
	devices  map[string]uint64 // by directory
	capacity int64             // -1: unlimited
	used     int64             // bytes of all files that have a name or are open
}

var _ FS = (*Mem)(nil)

var (
	errNotEmpty = errors.New("directory not empty")
	errNotDir   = errors.New("not a directory")
	errMemIsDir = errors.New("is a directory")
)

// memNode is a file or a directory. Open files hold the node, not the name, so
// a handle outlives Remove and Rename as on POSIX. All is guarded by Mem.mu.
type memNode struct {
	dir     bool
	modTime time.Time

	// File. data is what readers see; synced is what a power loss leaves for
	// sure; pending leads from synced to data.
	data, synced             []byte
	dataShared, syncedShared bool // the array is another Mem's too: copy before writing
	pending                  []memWrite
	links, handles           int

	// Directory, in the same way.
	entries, durable map[string]*memNode
	ops              []*memDirOp
}

// memWrite is a write of data at off, or with nil data a truncation to off.
type memWrite struct {
	off  int64
	data []byte
}

// memDirOp takes one name out of a directory, puts one in, or both at once. A
// rename between directories is two operations that are each other's twin:
// they become durable together.
type memDirOp struct {
	del, add string
	node     *memNode
	twin     *memDirOp
	twinDir  *memNode
}

func (op *memDirOp) apply(m map[string]*memNode) {
	if op.del != "" {
		delete(m, op.del)
	}
	if op.add != "" {
		m[op.add] = op.node
	}
}

// NewMem returns an empty file system without a limit.
func NewMem() *Mem {
	return &Mem{root: newMemDir(), locks: map[string]bool{}, devices: map[string]uint64{}, capacity: -1}
}

func newMemDir() *memNode {
	return &memNode{dir: true, modTime: time.Now(), entries: map[string]*memNode{}, durable: map[string]*memNode{}}
}

// SetCapacity limits the bytes of all files together, holes included; -1 takes
// the limit away. It may fall below what is used: then nothing can grow. A
// write across the limit is short and fails with ErrNoSpace.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// Used returns the bytes that count against the capacity.
func (m *Mem) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

func splitName(name string) []string {
	name = strings.Trim(filepath.ToSlash(filepath.Clean(name)), "/")
	if name == "" || name == "." {
		return nil
	}
	return strings.Split(name, "/")
}

// lookup returns the node of name.
func (m *Mem) lookup(name string) (*memNode, error) {
	n := m.root
	for _, part := range splitName(name) {
		if !n.dir {
			return nil, errNotDir
		}
		child, ok := n.entries[part]
		if !ok {
			return nil, fs.ErrNotExist
		}
		n = child
	}
	return n, nil
}

// parent returns the directory that holds name, and name's last element.
func (m *Mem) parent(name string) (*memNode, string, error) {
	parts := splitName(name)
	if len(parts) == 0 {
		return nil, "", fs.ErrInvalid
	}
	dir, err := m.lookup(strings.Join(parts[:len(parts)-1], "/"))
	if err != nil {
		return nil, "", err
	}
	if !dir.dir {
		return nil, "", errNotDir
	}
	return dir, parts[len(parts)-1], nil
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// change does one operation on a directory's live entries and records it.
func (n *memNode) change(op *memDirOp) {
	op.apply(n.entries)
	n.ops = append(n.ops, op)
	n.modTime = time.Now()
}

// commit makes the first k pending operations of a directory durable.
func (n *memNode) commit(k int) {
	done := n.ops[:k]
	n.ops = slices.Clone(n.ops[k:])
	for _, op := range done {
		op.apply(n.durable)
	}
	for _, op := range done {
		if op.twin == nil {
			continue
		}
		// A journal commits in order: what came before the twin comes with it.
		if i := slices.Index(op.twinDir.ops, op.twin); i >= 0 {
			op.twinDir.commit(i + 1)
		}
	}
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.open(name, false) }

// OpenReadWrite implements FS.
func (m *Mem) OpenReadWrite(name string) (File, error) { return m.open(name, true) }

func (m *Mem) open(name string, write bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(name)
	if err == nil && n.dir {
		err = errMemIsDir
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	n.handles++
	return &memFile{m: m, n: n, name: name, write: write}, nil
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if _, ok := dir.entries[base]; ok {
		return nil, pathError("open", name, fs.ErrExist)
	}
	n := &memNode{modTime: time.Now(), links: 1, handles: 1}
	dir.change(&memDirOp{add: base, node: n})
	return &memFile{m: m, n: n, name: name, write: true}, nil
}

// Rename implements FS.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return pathError("rename", oldName, m.rename(oldName, newName))
}

func (m *Mem) rename(oldName, newName string) error {
	from, oldBase, err := m.parent(oldName)
	if err != nil {
		return err
	}
	n, ok := from.entries[oldBase]
	if !ok {
		return fs.ErrNotExist
	}
	to, newBase, err := m.parent(newName)
	if err != nil {
		return err
	}
	if from == to && oldBase == newBase && !n.dir {
		return nil
	}
	if n.dir && under(n, to) {
		return fs.ErrInvalid
	}
	if old, ok := to.entries[newBase]; ok {
		if old.dir {
			return fs.ErrExist
		}
		if n.dir {
			return errNotDir
		}
		m.unlink(old)
	}
	if from == to {
		from.change(&memDirOp{del: oldBase, add: newBase, node: n})
		return nil
	}
	del := &memDirOp{del: oldBase, twinDir: to}
	add := &memDirOp{add: newBase, node: n, twin: del, twinDir: from}
	del.twin = add
	from.change(del)
	to.change(add)
	return nil
}

// under reports whether dir is top or lies below it.
func under(top, dir *memNode) bool {
	if top == dir {
		return true
	}
	for _, n := range top.entries {
		if n.dir && under(n, dir) {
			return true
		}
	}
	return false
}

// unlink accounts for a name that is taken from a node.
func (m *Mem) unlink(n *memNode) {
	n.links--
	m.release(n)
}

func (m *Mem) release(n *memNode) {
	if !n.dir && n.links == 0 && n.handles == 0 {
		m.used -= int64(len(n.data))
	}
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	n, ok := dir.entries[base]
	if !ok {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if n.dir && len(n.entries) > 0 {
		return pathError("remove", name, errNotEmpty)
	}
	m.remove(dir, base, n)
	return nil
}

func (m *Mem) remove(dir *memNode, base string, n *memNode) {
	dir.change(&memDirOp{del: base})
	m.unlink(n)
}

// RemoveAll implements FS.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathError("removeall", name, err)
	}
	if n, ok := dir.entries[base]; ok {
		m.removeTree(n)
		m.remove(dir, base, n)
	}
	return nil
}

func (m *Mem) removeTree(n *memNode) {
	for _, base := range sortedNames(n.entries) {
		child := n.entries[base]
		m.removeTree(child)
		m.remove(n, base, child)
	}
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, part := range splitName(name) {
		child, ok := n.entries[part]
		if !ok {
			child = newMemDir()
			n.change(&memDirOp{add: part, node: child})
		}
		if !child.dir {
			return pathError("mkdir", name, errNotDir)
		}
		n = child
	}
	return nil
}

// List implements FS.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(dir)
	if err == nil && !n.dir {
		err = errNotDir
	}
	if err != nil {
		return nil, pathError("open", dir, err)
	}
	return sortedNames(n.entries), nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return memInfo{name: filepath.Base(name), size: int64(len(n.data)), dir: n.dir, modTime: n.modTime}, nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(dir)
	if err == nil && !n.dir {
		err = errNotDir
	}
	if err != nil {
		return pathError("sync", dir, err)
	}
	n.commit(len(n.ops))
	return nil
}

// SyncAll implements FS: all files and directories that have a name.
func (m *Mem) SyncAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.lookup(name); err != nil {
		return pathError("sync", name, err)
	}
	m.root.syncTree()
	return nil
}

func (n *memNode) syncTree() {
	if !n.dir {
		n.sync()
		return
	}
	n.commit(len(n.ops))
	for _, child := range n.entries {
		child.syncTree()
	}
}

func sortedNames(entries map[string]*memNode) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

type memInfo struct {
	name    string
	size    int64
	dir     bool
	modTime time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return i.modTime }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }

func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | dirMode
	}
	return fileMode
}

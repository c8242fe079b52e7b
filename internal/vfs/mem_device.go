package vfs

import (
	"io"
	"io/fs"
	"strings"
	"time"
)

// Lock implements FS.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := strings.Join(splitName(name), "/")
	if m.locks[key] {
		return nil, pathError("lock", name, ErrLocked)
	}
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, pathError("lock", name, err)
	}
	if n, ok := dir.entries[base]; !ok {
		dir.change(&memDirOp{add: base, node: &memNode{modTime: time.Now(), links: 1}})
	} else if n.dir {
		return nil, pathError("lock", name, errMemIsDir)
	}
	m.locks[key] = true
	return &memLock{m: m, key: key}, nil
}

type memLock struct {
	m      *Mem
	key    string
	closed bool // guarded by m.mu
}

func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.closed {
		return fs.ErrClosed
	}
	l.closed = true
	delete(l.m.locks, l.key)
	return nil
}

// memTotal is the size that an unlimited Mem reports.
const memTotal = 1 << 40

// Usage implements FS. A Mem is one device, number 1, but for SetDevice.
func (m *Mem) Usage(name string) (Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.lookup(name); err != nil {
		return Usage{}, pathError("statfs", name, err)
	}
	total := m.capacity
	if total < 0 {
		total = memTotal
	}
	return Usage{TotalBytes: uint64(total), FreeBytes: uint64(max(total-m.used, 0)), Device: m.device(name)}, nil
}

// SetDevice lets a directory and all below it appear as another device, to be
// told apart by Usage. The capacity stays one for all.
func (m *Mem) SetDevice(dir string, device uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.devices[strings.Join(splitName(dir), "/")] = device
}

// device is that of the nearest directory above name that has one, or 1.
func (m *Mem) device(name string) uint64 {
	parts := splitName(name)
	for n := len(parts); n >= 0; n-- {
		if d, ok := m.devices[strings.Join(parts[:n], "/")]; ok {
			return d
		}
	}
	return 1
}

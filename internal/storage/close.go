package storage

import (
	"errors"
	"fmt"
	"sync"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// Close brings every directory that works into good order, marks it clean for
// the given broker epoch, and unlocks it. Nothing may be appended any more, and
// Run has returned.
func (m *Manager) Close(brokerEpoch int64) error {
	var errs []error
	for _, d := range m.dirs {
		if d.lock == nil {
			continue
		}
		errs = append(errs, d.close(brokerEpoch))
	}
	m.tasks.Wait()
	m.unlock()
	return errors.Join(errs...)
}

func (d *logDir) close(brokerEpoch int64) error {
	var mu sync.Mutex
	var errs []error
	var again []*Log
	parallel(append(d.list(), d.listFutures()...), 0, func(l *Log) {
		l.mu.Lock()
		l.closed.Store(true)
		l.mu.Unlock()
		err := l.closeFiles()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, vfs.ErrTooManyFiles):
			again = append(again, l) // the others give descriptors back
			return
		case err != nil:
			errs = append(errs, fmt.Errorf("close %s: %w", l.tp, err))
		}
		l.release()
	})
	for _, l := range again {
		if err := l.closeFiles(); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", l.tp, err))
		}
		l.release()
	}
	if err := d.offline(); err != nil {
		return fmt.Errorf("log directory %s is not marked clean: %w", d.path, err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("log directory %s is not marked clean: %w", d.path, few(errs))
	}
	if err := d.storeAll(); err != nil {
		return err
	}
	return d.writeClean(brokerEpoch)
}

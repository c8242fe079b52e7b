package broker

import (
	"slices"

	"github.com/barnabas-mq/barnabas/internal/config"
)

// reloaded are the keys that Reload makes take effect.
var reloaded = []string{"barnabas.log.level"}

// Reload takes settings that were read again, and names those that differ from
// what the broker runs with: now in effect, and in effect after a restart. It
// may be called at any time, by one goroutine at a time.
func (b *Broker) Reload(next *config.Config) (now, restart []string) {
	b.levels.Configure(next.LogLevels())
	for _, name := range b.cfg.Changed(next) {
		if slices.Contains(reloaded, name) {
			now = append(now, name)
		} else {
			restart = append(restart, name)
		}
	}
	return now, restart
}

// Missing says what still has to happen before requests are served, such as the
// progress of recovery; nil once there is nothing.
func (b *Broker) Missing() error { return b.readiness() }

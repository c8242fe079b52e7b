package broker

import (
	"context"
	"slices"

	"github.com/barnabas-mq/barnabas/internal/config"
)

// Reload takes settings that were read again, and names those that differ from
// what the broker runs with: now in effect, and in effect after a restart. What
// can be changed by requests while the broker runs can be changed here too, and
// dynamic settings stay the stronger. It may be called at any time, by one
// goroutine at a time.
func (b *Broker) Reload(next *config.Config) (now, restart []string) {
	b.levels.Configure(next.LogLevels())
	running, now, restart := b.running.Reload(next)
	if slices.ContainsFunc(now, func(name string) bool { return name != "barnabas.log.level" }) {
		b.parts.dynamic.settings.restatic(running)
		b.parts.dynamic.forget()
		b.parts.keeper.resettle(context.Background()) // a stop ends who has the turn
	}
	b.running = running
	return now, restart
}

// Missing says what still has to happen before requests are served, such as the
// progress of recovery; nil once there is nothing.
func (b *Broker) Missing() error { return b.readiness() }

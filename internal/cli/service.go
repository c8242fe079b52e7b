package cli

import (
	"context"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/barnabas-mq/barnabas/internal/config"
)

// Service is a broker as the one who runs it sees it; package broker makes one.
type Service interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
	// Missing says what has to happen before it serves, or nil.
	Missing() error
	Addrs() []string
	AdminAddr() string
	// Reload takes settings that were read again, and names those that differ:
	// in effect now, and after a restart.
	Reload(next *config.Config) (now, restart []string)
}

// Run runs s until ctx ends. Meanwhile it prints the line of Ready, reads the
// settings again on SIGHUP, and tells the service manager how things are, where
// there is one (systemd's sd_notify).
func (o ServeOptions) Run(ctx context.Context, s Service) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	m := manager{o: o, s: s}
	go func() {
		defer close(watched)
		m.watch(watching)
	}()
	err := s.Run(ctx)
	stop()
	<-watched
	if err != nil {
		m.notify("STATUS=failed: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return err
}

// progressInterval is how often a broker that starts says how far it is.
const progressInterval = time.Second

// manager stands between a broker and whoever manages services here.
type manager struct {
	o      ServeOptions
	s      Service
	serves bool
}

func (m *manager) watch(ctx context.Context) {
	ready := m.s.Ready()
	progress := time.NewTicker(progressInterval)
	defer progress.Stop()
	watchdog, end := m.watchdog()
	defer end()
	for {
		select {
		case <-ctx.Done():
			m.notify(daemon.SdNotifyStopping, "STATUS=stopping: flushing and closing the logs")
			return
		case <-ready:
			ready, m.serves = nil, true
			progress.Stop()
			m.o.Ready(m.s.Addrs(), m.s.AdminAddr())
			m.notify(daemon.SdNotifyReady, m.serving())
		case <-progress.C:
			if missing := m.s.Missing(); missing != nil {
				m.notify("STATUS=" + missing.Error())
			}
		case <-m.o.hangup:
			m.reload()
		case <-watchdog:
			_ = m.s.Missing() // goes through the locks of the broker's parts: it hangs where they do
			m.notify(daemon.SdNotifyWatchdog)
		}
	}
}

// watchdog ticks twice in the time after which the service manager takes the
// process for dead; never where it does not look.
func (m *manager) watchdog() (<-chan time.Time, func()) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		m.o.Log.Warn("the service manager's watchdog is not served", "err", err)
	}
	if err != nil || interval <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(interval / 2)
	return t.C, t.Stop
}

func (m *manager) serving() string {
	return "STATUS=serving at " + strings.Join(m.s.Addrs(), ", ")
}

// reload reads the settings again. A service manager that waits for the start
// is not told: to it READY=1 would be the end of that.
func (m *manager) reload() {
	if m.serves {
		m.notify(daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()), "STATUS=reading the settings again")
		defer m.notify(daemon.SdNotifyReady, m.serving())
	}
	log := m.o.Log
	next, warnings, err := config.Load(m.o.from)
	for _, w := range warnings {
		log.Warn(w)
	}
	if err == nil {
		_, err = next.Broker(nil)
	}
	if err != nil {
		log.Error("settings read again and left as they were", "err", err)
		return
	}
	now, restart := m.s.Reload(next)
	if len(restart) > 0 {
		log.Warn("settings that changed need a restart to take effect", "keys", strings.Join(restart, ","))
	}
	log.Info("settings read again", "changed", strings.Join(now, ","))
}

// notify tells the service manager; without one it does nothing.
func (m *manager) notify(lines ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(lines, "\n")); err != nil {
		m.o.Log.Debug("the service manager was not told", "err", err)
	}
}

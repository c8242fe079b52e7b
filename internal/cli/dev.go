package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/levels"
)

const (
	// devMost is the most brokers of one dev: their ports stand side by side.
	devMost = 9
	// devVoters carry the metadata.
	devVoters = 3
)

// devCluster is what `dev` was asked for.
type devCluster struct {
	brokers, port int
	dir           string
	set           []string
}

func (a App) devCommand() *cobra.Command {
	var d devCluster
	var level string
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a cluster of several brokers here, to develop against",
		Long: `Run a cluster of several brokers in one process, to develop and to test against:
leaders, replicas and in-sync sets are those of any cluster. The first three
carry the metadata. Topics have a replica on up to three brokers unless they say
otherwise. The brokers listen on 127.0.0.1, at --port and the ports after it;
each keeps its data in a directory of its own below --data-dir, and goes on with
what is there. What all of them have in common can be set by --set.

For brokers that can fail each on their own, run ` + "`barnabas serve`" + ` for each:
docs/operations.md says how.`,
		Example: "  barnabas dev\n  barnabas dev --brokers 5 --port 29092 --data-dir /tmp/five",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("bootstrap") {
				return usagef("dev takes no --bootstrap: it is the brokers; --port says where")
			}
			if d.brokers < 1 || d.brokers > devMost {
				return usagef("--brokers: %d; 1 to %d are possible", d.brokers, devMost)
			}
			if last := d.port + 2*devMost + 2; d.port < 1 || last > 65535 {
				return usagef("--port: %d; the ports up to %d are needed, too", d.port, last)
			}
			d.set = append(d.set, "barnabas.log.level="+level)
			return a.dev(c, d)
		},
	}
	f := c.Flags()
	f.IntVar(&d.brokers, "brokers", 3, "how many brokers")
	f.IntVar(&d.port, "port", 9092, "port of the first broker; the others follow")
	f.StringVar(&d.dir, "data-dir", "barnabas-dev", "directory of the data")
	f.StringArrayVar(&d.set, "set", nil, "setting key=value of every broker; may be given many times")
	f.StringVar(&level, "log-level", "warn", "what is logged, such as info or info,storage=debug")
	return c
}

// settings of one broker. Those that --set names come last, and win; what makes
// the brokers one cluster does not stand there.
func (d devCluster) settings(id int) []string {
	replicas := min(d.brokers, 3)
	// Above the brokers' own ports: where the metadata are reached.
	peer, admin := d.port+devMost, d.port+devMost+devVoters-1+id
	out := []string{
		"node.id=" + strconv.Itoa(id),
		"log.dirs=" + filepath.Join(d.dir, strconv.Itoa(id)),
		fmt.Sprintf("barnabas.admin.listener=127.0.0.1:%d", admin),
		fmt.Sprintf("default.replication.factor=%d", replicas),
		fmt.Sprintf("min.insync.replicas=%d", min(replicas, 2)),
	}
	out = append(out, d.set...)
	listeners := fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d", d.port+id-1)
	if d.brokers == 1 {
		return append(out, listeners)
	}
	var voters []string
	for n := 1; n <= min(d.brokers, devVoters); n++ {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", n, peer+n-1))
	}
	out = append(out, "controller.quorum.voters="+strings.Join(voters, ","))
	if id > devVoters {
		return append(out, listeners, "process.roles=broker")
	}
	return append(out, fmt.Sprintf("%s,CONTROLLER://127.0.0.1:%d", listeners, peer+id-1), "controller.listener.names=CONTROLLER")
}

// dev runs the brokers until ctx ends or one of them does.
func (a App) dev(c *cobra.Command, d devCluster) error {
	if a.Serve == nil {
		return errors.New("this program was built without a broker")
	}
	all := make([]ServeOptions, d.brokers)
	ready := make(chan string, d.brokers)
	var log *slog.Logger
	var of *levels.Levels
	for i := range all {
		cfg, warnings, err := config.Load(config.Options{Set: d.settings(i + 1)})
		if err != nil {
			return usageError{err}
		}
		if log == nil {
			log, of = logger(c.ErrOrStderr(), cfg)
			for _, w := range warnings {
				log.Warn(w)
			}
		}
		b, err := cfg.Broker(nil)
		if err != nil {
			return usageError{err}
		}
		all[i] = ServeOptions{
			Config: cfg, Broker: b, Version: a.Version, Commit: a.Commit, Log: log.With("broker", i+1), Levels: of,
			Ready: func(listeners []string, _ string) { ready <- listeners[0] },
		}
	}
	ctx, end := context.WithCancel(c.Context())
	defer end()
	failed := make([]error, d.brokers)
	var running sync.WaitGroup
	for n := range all {
		running.Go(func() {
			defer end() // one ends, all end
			if err := a.Serve(ctx, all[n]); err != nil {
				failed[n] = fmt.Errorf("broker %d: %w", n+1, err)
			}
		})
	}
	announce(ctx, c, d, ready)
	running.Wait()
	return errors.Join(failed...)
}

// announce says where the cluster is once every broker serves.
func announce(ctx context.Context, c *cobra.Command, d devCluster, ready <-chan string) {
	for range d.brokers {
		select {
		case <-ready:
		case <-ctx.Done():
			return
		}
	}
	var at []string
	for n := range d.brokers {
		at = append(at, fmt.Sprintf("127.0.0.1:%d", d.port+n))
	}
	_, _ = fmt.Fprintf(c.OutOrStdout(), "barnabas is ready: %d brokers at %s, data in %s\n", d.brokers, strings.Join(at, ","), d.dir)
}

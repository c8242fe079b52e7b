package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/levels"
)

// ServeOptions is what a broker starts from: settings that were read, checked
// and resolved.
type ServeOptions struct {
	Config          *config.Config
	Broker          config.Broker
	Version, Commit string
	Log             *slog.Logger
	Levels          *levels.Levels // of Log
	// Ready prints the one line that says where the broker can be reached:
	// addresses as they are bound, NAME://host:port, and the admin listener's,
	// or "". Called once.
	Ready func(listeners []string, admin string)

	from   config.Options   // to read the settings again
	hangup <-chan os.Signal // asks for that
}

func (a App) serveCommand() *cobra.Command {
	var file, dataDir, level string
	var set []string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a broker in the foreground",
		Long: `Run a broker in the foreground, logging to standard error. With nothing given it
is one broker at 127.0.0.1:9092 that keeps its data in ./barnabas-data.

Settings come from the file, then BARNABAS_* in the environment (log.dirs is
BARNABAS_LOG_DIRS), then --set; the later wins. SIGTERM and SIGINT stop it in
order, a second one at once. SIGHUP reads the settings again: log levels and
what can be changed by requests take effect, and what needs a restart is named.
Under systemd it says when it is ready, reloads and stops. ` + "`barnabas config docs`" + ` explains every key.`,
		Example: "  barnabas serve\n  barnabas serve --config server.properties --set num.partitions=6",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("bootstrap") {
				return usagef("serve takes no --bootstrap: it is the broker; listeners says where")
			}
			if dataDir != "" {
				if strings.Contains(dataDir, ",") {
					return usagef("--data-dir takes one directory; for several use --set log.dirs=a,b")
				}
				for _, s := range set {
					if name, _, _ := strings.Cut(s, "="); name == "log.dirs" || name == "log.dir" {
						return usagef("--data-dir and --set %s both say where the data is: give one of them", name)
					}
				}
				set = append(set, "log.dirs="+dataDir)
			}
			if level != "" {
				set = append(set, "barnabas.log.level="+level)
			}
			return a.serve(c, config.Options{File: file, Environ: a.Environ, Set: set})
		},
	}
	f := c.Flags()
	f.StringVar(&file, "config", "", "file of settings, in the format of Kafka's server.properties")
	f.StringArrayVar(&set, "set", nil, "setting key=value; may be given many times")
	f.StringVar(&dataDir, "data-dir", "", "directory of the data (log.dirs)")
	f.StringVar(&level, "log-level", "", "what is logged, such as warn or info,storage=debug (barnabas.log.level; default info)")
	return c
}

// serve reads the settings and runs a broker with them.
func (a App) serve(c *cobra.Command, from config.Options) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	cfg, warnings, err := config.Load(from)
	log, of := logger(c.ErrOrStderr(), cfg)
	for _, w := range warnings {
		log.Warn(w)
	}
	if err != nil {
		return usageError{err}
	}
	b, err := cfg.Broker(nil)
	if err != nil {
		return usageError{err}
	}
	if a.Serve == nil {
		return errors.New("this program was built without a broker")
	}
	return a.Serve(c.Context(), ServeOptions{
		Config: cfg, Broker: b, Version: a.Version, Commit: a.Commit, Log: log, Levels: of, from: from, hangup: hangup,
		Ready: func(listeners []string, admin string) {
			line := "barnabas is ready: " + strings.Join(listeners, ", ")
			if admin != "" {
				line += ", admin http://" + admin
			}
			_, _ = fmt.Fprintln(c.OutOrStdout(), line)
		},
	})
}

// logger writes what the levels let through, in the form that the settings ask
// for; nil: settings that could not be read.
func logger(w io.Writer, cfg *config.Config) (*slog.Logger, *levels.Levels) {
	of := levels.New(slog.LevelInfo)
	opts := &slog.HandlerOptions{Level: levels.Trace, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if l, ok := a.Value.Any().(slog.Level); ok && len(groups) == 0 && a.Key == slog.LevelKey {
			a.Value = slog.StringValue(levels.Name(l))
		}
		return a
	}}
	var out slog.Handler = slog.NewTextHandler(w, opts)
	if cfg != nil {
		of.Configure(cfg.LogLevels())
		if cfg.LogJSON() {
			out = slog.NewJSONHandler(w, opts)
		}
	}
	return slog.New(of.Handler(out)), of
}

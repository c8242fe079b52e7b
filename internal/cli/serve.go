package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

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
order, a second one at once. ` + "`barnabas config docs`" + ` explains every key.`,
		Example: "  barnabas serve --config server.properties --set num.partitions=6",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("bootstrap") {
				return usagef("serve takes no --bootstrap: it is the broker; listeners says where")
			}
			if dataDir != "" {
				if strings.Contains(dataDir, ",") {
					return usagef("--data-dir takes one directory; for several use --set log.dirs=a,b")
				}
				set = append(set, "log.dirs="+dataDir)
			}
			log, level, err := logger(c, level)
			if err != nil {
				return err
			}
			cfg, warnings, err := config.Load(config.Options{File: file, Environ: a.Environ, Set: set})
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
			return a.Serve(c.Context(), ServeOptions{Config: cfg, Broker: b, Version: a.Version, Commit: a.Commit, Log: log, Levels: level, Ready: func(listeners []string, admin string) {
				line := "barnabas is ready: " + strings.Join(listeners, ", ")
				if admin != "" {
					line += ", admin http://" + admin
				}
				_, _ = fmt.Fprintln(c.OutOrStdout(), line)
			}})
		},
	}
	f := c.Flags()
	f.StringVar(&file, "config", "", "file of settings, in the format of Kafka's server.properties")
	f.StringArrayVar(&set, "set", nil, "setting key=value; may be given many times")
	f.StringVar(&dataDir, "data-dir", "", "directory of the data (log.dirs)")
	f.StringVar(&level, "log-level", "info", "least level that is logged: debug, info, warn or error")
	return c
}

// logger writes to standard error what the levels let through.
func logger(c *cobra.Command, level string) (*slog.Logger, *levels.Levels, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, nil, usagef("--log-level must be debug, info, warn or error")
	}
	of := levels.New(l)
	return slog.New(of.Handler(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: levels.Trace}))), of, nil
}

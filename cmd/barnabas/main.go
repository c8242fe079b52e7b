// Command barnabas is the broker and its tools; see `barnabas help`.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/barnabas-mq/barnabas/broker"
	"github.com/barnabas-mq/barnabas/internal/cli"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	version, commit = built(version, commit, info)
	os.Exit(cli.App{
		Version: version,
		Commit:  commit,
		In:      os.Stdin,
		Out:     os.Stdout,
		Err:     os.Stderr,
		Environ: os.Environ(),
		Serve:   serve,
		Restore: func(o cli.ServeOptions, file string) error {
			return broker.Restore(broker.Options{Config: o.Config, Logger: o.Log}, file)
		},
	}.Main(os.Args[1:]))
}

func serve(ctx context.Context, o cli.ServeOptions) error {
	b, err := broker.New(broker.Options{Config: o.Config, Logger: o.Log, Levels: o.Levels, Version: o.Version})
	if err != nil {
		return cli.WrongUse(err) // nothing was started yet: it is about the settings
	}
	return o.Run(ctx, b)
}

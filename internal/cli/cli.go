// Package cli is the command line: serve, and everything else as a Kafka
// client like any other. It prints to the writers of an App, never to the
// process's own, and turns errors into the exit codes of the contract: 0 done,
// 1 failed, 2 wrong usage. An App runs one command at a time.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// App is what a command line runs on.
type App struct {
	Version, Commit string
	In              io.Reader
	Out, Err        io.Writer
	Environ         []string // NAME=value
	// Serve runs a broker until ctx ends, and returns nil when it stopped in order.
	Serve func(ctx context.Context, o ServeOptions) error
	// Restore makes the metadata of a broker that does not run out of a backup.
	Restore func(o ServeOptions, file string) error
	// Exit ends the process at once, after a second signal; nil means os.Exit.
	Exit func(code int)
	// Dial adds options to every Kafka client, for brokers in the same process.
	Dial []kgo.Opt
}

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is wrong use: exit code 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// WrongUse marks an error of Serve as wrong use: exit code 2.
func WrongUse(err error) error { return usageError{err} }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Main runs the process's own command line and returns its exit code.
func (a App) Main(args []string) int {
	ctx, stop := a.signals()
	defer stop()
	return a.Run(ctx, args)
}

// Run runs one command line, without the program's name, until it is done or ctx ends.
func (a App) Run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return exitDone // who closed the pipe has what it wanted
	case errors.As(err, &usage):
		a.complain(err)
		return exitUsage
	}
	a.complain(err)
	return exitFailed
}

func (a App) complain(err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		_, _ = fmt.Fprintf(a.Err, "barnabas: %s\n", line)
	}
}

// signals ends the context on the first SIGTERM or SIGINT, and the process on the second.
func (a App) signals() (context.Context, func()) {
	exit := a.Exit
	if exit == nil {
		exit = os.Exit
	}
	ctx, cancel := context.WithCancel(context.Background())
	caught := make(chan os.Signal, 2)
	signal.Notify(caught, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-caught:
				if n > 0 {
					exit(exitFailed)
					return
				}
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(caught)
		close(done)
		cancel()
	}
}

// env looks a variable up; "" when it is not set.
func (a App) env(name string) string {
	for _, kv := range slices.Backward(a.Environ) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// Command is the whole tree of commands, for who walks it.
func (a App) Command() *cobra.Command { return a.root() }

func (a App) root() *cobra.Command {
	cl := &client{app: a}
	root := &cobra.Command{
		Use:   "barnabas",
		Short: "A durable, replicated log that speaks the Kafka protocol",
		Long: `Barnabas is a broker that any Kafka client can use, and the tools around it.

  barnabas serve                            one broker on 127.0.0.1:9092
  barnabas topic create orders -p 3         a topic
  echo hello | barnabas produce orders      a record
  barnabas consume orders -e                all records`,
		Example:       "  barnabas --version\n  barnabas topic list",
		Version:       a.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(wrongFlag)
	root.SetVersionTemplate("barnabas {{.Version}} (commit " + a.Commit + ")\n")
	cl.flags(root)
	root.AddCommand(a.serveCommand(), a.devCommand(), topicCommand(cl), produceCommand(cl), consumeCommand(cl), groupCommand(cl), clusterCommand(cl), perfCommand(cl),
		logCommand(), a.metadataCommand(), configCommand(cl), a.healthcheckCommand(), a.versionCommand(), docsCommand())
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	giveExamples(root)
	strict(root)
	return root
}

// giveExamples gives the commands that cobra makes the examples that ours have.
func giveExamples(root *cobra.Command) {
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Example = "  barnabas help topic create"
			c.Run = nil
			c.RunE = func(_ *cobra.Command, args []string) error {
				of, rest, err := root.Find(args)
				if err == nil && len(rest) == 0 {
					return of.Help()
				}
				if err != nil {
					rest = args[len(args)-1:]
				}
				return unknownCommand(of, rest[0])
			}
		case "completion":
			c.Example = "  barnabas completion bash > barnabas.bash"
			for _, shell := range c.Commands() {
				shell.Example = "  barnabas completion " + shell.Name() + " > barnabas." + shell.Name()
			}
		}
	}
}

// strict makes every command refuse what it does not know as wrong usage:
// groups of commands print their help without a verb, and name a wrong one.
func strict(c *cobra.Command) {
	if c.HasSubCommands() && c.Run == nil && c.RunE == nil {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknownCommand(c, args[0])
		}
	} else if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if check(c, args) != nil {
				return wrongArguments(c, args)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}

//go:build unix

package cli

import (
	"context"
	"io"
	"strings"
	"syscall"
	"testing"
)

// The first signal stops the command, the second the process.
func TestSignals(t *testing.T) {
	started, stopped, exited := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	release := make(chan struct{})
	app := App{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Exit: func(code int) { exited <- code },
		Serve: func(ctx context.Context, _ ServeOptions) error {
			close(started)
			<-ctx.Done()
			close(stopped)
			<-release
			return nil
		}}
	code := make(chan int, 1)
	go func() { code <- app.Main([]string{"serve"}) }()
	<-started
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-stopped
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := <-exited; got != exitFailed {
		t.Errorf("the second signal: exit code %d", got)
	}
	close(release)
	if got := <-code; got != 0 {
		t.Errorf("an orderly stop: exit code %d", got)
	}
}

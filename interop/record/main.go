//go:build interop

// Command record runs clients of franz-go until its standard input ends, and
// writes their history for interop/check:
//
//	go run -tags interop ./interop/record -servers HOST:PORT -topic T -partitions N -client NAME -out FILE
//	go run -tags interop ./interop/record ... -final [-groups G,G]
//
// The second form is the final reading, after all clients have ended. Positions
// are nanoseconds of the machine's monotonic clock, which java/History.java and
// python/history.py read too, so all of one machine may share an observer.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"github.com/barnabas-mq/barnabas/internal/check/record"
)

func main() {
	servers := flag.String("servers", "127.0.0.1:9092", "bootstrap servers, with commas")
	topic := flag.String("topic", "", "topic")
	partitions := flag.Int("partitions", 1, "its partitions")
	client := flag.String("client", "franz", "begins the names of clients, groups and records")
	observer := flag.String("observer", "host", "whose clock this is")
	out := flag.String("out", "", "file of the history, written anew")
	pace := flag.Duration("pace", 5*time.Millisecond, "between two records")
	groups := flag.String("groups", "", "further groups whose offsets are asked for, with commas")
	final := flag.Bool("final", false, "read everything once more, and end")
	flag.Parse()
	f, err := os.Create(*out)
	if err != nil {
		fail(err)
	}
	c := record.Config{
		Options: []kgo.Opt{kgo.SeedBrokers(strings.Split(*servers, ",")...)}, Topic: *topic, Partitions: int32(*partitions),
		Client: *client, Observer: *observer, Now: monotonic, Pace: *pace,
		Watch: strings.FieldsFunc(*groups, func(c rune) bool { return c == ',' }),
	}
	r := record.New(c, f)
	ctx, cancel := context.WithCancel(context.Background())
	if *final {
		err = r.Final(ctx)
	} else {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
		err = r.Run(ctx)
	}
	cancel()
	if err != nil {
		fail(err)
	}
	if err := f.Close(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "record:", err)
	os.Exit(1)
}

// monotonic is the machine's clock, the same for all its processes.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		fail(err)
	}
	return t.Nano()
}

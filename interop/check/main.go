//go:build interop

// Command check judges the history in files that clients wrote, in the form
// that package internal/check describes:
//
//	go run -tags interop ./interop/check [-bound DURATION] [-stale] FILE...
//
// Each file holds the events of one client or program, in the order of their
// ends. It prints counts, what is wrong, and the lines that show it. Exit
// code 1 means that something is wrong, 2 that the files are no history.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/barnabas-mq/barnabas/internal/check"
)

func main() {
	bound := flag.Duration("bound", 0, "how long an operation may take, where positions are nanoseconds (0: for ever)")
	stale := flag.Bool("stale", false, "brokers may answer from the past for a while: compare marks within a client only")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "check: give the files of a history")
		os.Exit(2)
	}
	start := time.Now()
	r, err := judge(check.Options{Bound: int64(*bound), Stale: *stale}, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(2)
	}
	fmt.Print(r)
	shown := map[check.Place]bool{}
	for _, v := range r.Violations {
		for _, p := range v.Events {
			if !shown[p] {
				fmt.Printf("%v: %s\n", p, line(p))
			}
			shown[p] = true
		}
	}
	fmt.Printf("judged in %v\n", time.Since(start).Round(time.Millisecond))
	if !r.OK() {
		os.Exit(1)
	}
}

func judge(o check.Options, names []string) (*check.Result, error) {
	var sources []check.Source
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		sources = append(sources, check.NewReader(name, f))
	}
	return check.Run(o, check.Merge(sources...))
}

// maxShown is how much of a line is printed.
const maxShown = 400

// line reads one line of a file again.
func line(p check.Place) string {
	f, err := os.Open(p.File)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for n := 1; n < p.Line; {
		_, prefix, err := r.ReadLine()
		if err != nil {
			return err.Error()
		}
		if !prefix {
			n++
		}
	}
	text, _, err := r.ReadLine()
	if err != nil && err != io.EOF {
		return err.Error()
	}
	if len(text) > maxShown {
		return string(text[:maxShown]) + "..."
	}
	return string(text)
}

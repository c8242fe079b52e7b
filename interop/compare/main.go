//go:build interop

// Command compare asks two brokers the same raw requests and prints where
// their answers differ, after hiding what may differ (ids, ports, clocks,
// wording). One of them is meant to be Apache Kafka.
//
//	go run -tags interop ./interop/compare -a HOST:PORT -b HOST:PORT [-run REGEXP] [-v]
//	go run -tags interop ./interop/compare -a HOST:PORT -record DIR
//	go run -tags interop ./interop/compare -a HOST:PORT -b HOST:PORT -random 10000 [-seed N] [-from N] [-to N] [-shrink]
//	go run -tags interop ./interop/compare -differences
//
// Both brokers must allow topics to be created, and are left with the topics
// and groups of the cases. Those of groups and of telemetry want the
// settings that TestAnswersOfKafka gives. Exit code 1 means a difference that is not
// explained.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// testCase is a script of requests.
type testCase struct {
	name string
	run  func(*session)
}

func main() {
	a := flag.String("a", "127.0.0.1:9092", "first broker")
	b := flag.String("b", "", "second broker")
	run := flag.String("run", "", "only cases whose name matches")
	record := flag.String("record", "", "write the first broker's transcripts into this directory and compare nothing")
	verbose := flag.Bool("v", false, "print whole transcripts of cases that differ")
	messages := flag.Bool("messages", false, "compare the wording of error messages too")
	random := randomFlags()
	flag.Parse()
	if random.wanted() {
		os.Exit(random.run(*a, *b, *verbose))
	}
	filter, err := regexp.Compile(*run)
	if err != nil || (*b == "") == (*record == "") {
		fmt.Fprintln(os.Stderr, "compare: give -b HOST:PORT or -record DIR, and a valid -run")
		os.Exit(2)
	}
	differ := 0
	for _, c := range cases() {
		if !filter.MatchString(c.name) {
			continue
		}
		suffix := fmt.Sprintf("-%x", time.Now().UnixMilli())
		if *record != "" {
			text := transcript(c, *a, suffix, true)
			if err := os.WriteFile(filepath.Join(*record, c.name+".txt"), []byte(text), 0o644); err != nil {
				fmt.Fprintln(os.Stderr, "compare:", err)
				os.Exit(1)
			}
			fmt.Printf("recorded  %s\n", c.name)
			continue
		}
		one, two := transcript(c, *a, suffix+"a", *messages), transcript(c, *b, suffix+"b", *messages)
		for again := 1; again <= 2 && onlyTimes(diff(one, two)); again++ {
			fmt.Printf("again     %s: only times differ\n", c.name)
			more := fmt.Sprintf("%s%d", suffix, again)
			one, two = transcript(c, *a, more+"a", *messages), transcript(c, *b, more+"b", *messages)
		}
		if report(c, one, two, *verbose) {
			differ++
		}
	}
	if differ > 0 {
		fmt.Printf("%d cases differ\n", differ)
		os.Exit(1)
	}
}

// timed is a remark on how long something took.
var timed = regexp.MustCompile(`^# .*(woken|waited|at once).*: (true|false)$`)

// onlyTimes tells whether all that differs is how long something took: a busy
// machine makes either broker late, and it takes another look to tell.
func onlyTimes(lines []line) bool {
	for _, l := range lines {
		if !timed.MatchString(l.text) {
			return false
		}
	}
	return len(lines) > 0
}

func transcript(c testCase, addr, suffix string, messages bool) string {
	s := newSession(addr, suffix, messages)
	defer s.close()
	func() {
		defer func() {
			if r := recover(); r != nil {
				f, ok := r.(failure)
				if !ok {
					panic(r)
				}
				fmt.Fprintf(&s.out, "! case stopped: %v\n", s.plain(f.Error()))
			}
		}()
		c.run(s)
	}()
	return strings.TrimLeft(s.out.String(), "\n")
}

// report prints one case's outcome and tells whether it is an unexplained
// difference.
func report(c testCase, a, b string, verbose bool) bool {
	if a == b && strings.Contains(a, "! case stopped") {
		fmt.Printf("STOPPED   %s\n%s\n", c.name, a)
		return true
	}
	lines := diff(a, b)
	reasons, rest := explain(c.name, lines)
	switch {
	case len(lines) == 0:
		fmt.Printf("same      %s\n", c.name)
		return false
	case len(rest) == 0:
		fmt.Printf("known     %s: %s\n", c.name, strings.Join(reasons, "; "))
		if verbose {
			fmt.Print(show(lines))
		}
		return false
	}
	fmt.Printf("DIFFERENT %s\n%s", c.name, show(rest))
	if verbose {
		fmt.Printf("--- a\n%s--- b\n%s", a, b)
	}
	return true
}

//go:build interop

package interop

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// program is one that takes commands and tells what it does, line by line.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	log  *tail // standard error
	done chan struct{}
}

// javaMembers and pythonMembers are the command lines of the two.
func javaMembers(t *testing.T) []string {
	return javaProgram(t, "Members")
}

// javaProgram is the command line of a class beside these tests.
func javaProgram(t *testing.T, class string) []string {
	libs := kafkaLibs(t)
	path := filepath.Join(libs, "*") + string(os.PathListSeparator) + javaClasses(t, libs)
	return []string{"java", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, class}
}

func pythonMembers(t *testing.T) []string {
	return []string{pythonClients(t), filepath.Join("python", "members.py")}
}

// startProgram gives each line that the program says to hear.
func startProgram(t *testing.T, hear func(line string), command []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, log: newTail(), done: make(chan struct{})}
	p.cmd = exec.Command(command[0], append(command[1:], args...)...)
	p.cmd.Stderr = p.log
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in = in
	go func() {
		defer close(p.done)
		for s := bufio.NewScanner(out); s.Scan(); {
			hear(s.Text())
		}
		p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s: its errors, the end:\n%s", command[0], p.log.last(20))
		}
	})
	return p
}

// drops tells whether the program can have a member go without leaving.
func (p *program) drops() bool { return strings.Contains(p.cmd.Path, "java") }

// kill is kill -9; what it had said before is taken.
func (p *program) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

func (p *program) say(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Fatalf("the program is gone: %v\n%s", err, p.log.last(20))
	}
}

// member is one of a group, which a program runs.
type member struct {
	p           *program
	diary       *diary
	group, name string
}

func (m member) String() string { return m.group + " " + m.name }

func (m member) start(protocol string) { m.p.say("start %s %s %s", m.group, m.name, protocol) }

// end has the member leave ("stop") or go without leaving ("drop"), and waits
// until it did.
func (m member) end(t *testing.T, how string) {
	t.Helper()
	l := m.diary
	l.mu.Lock()
	before := l.gone[m.String()]
	l.mu.Unlock()
	m.p.say("%s %s %s", how, m.group, m.name)
	l.await(t, m.String()+" ends", func() bool { return l.gone[m.String()] > before })
}

// awaitWork waits until each of the members has processed more records.
func awaitWork(t *testing.T, what string, members ...member) {
	t.Helper()
	if len(members) == 0 {
		return
	}
	l := members[0].diary
	before := map[string]int{}
	l.mu.Lock()
	for _, m := range members {
		before[m.String()] = l.counts[m.String()]
	}
	l.mu.Unlock()
	for _, m := range members {
		l.await(t, what+": "+m.String()+" works", func() bool { return l.counts[m.String()] > before[m.String()] })
	}
}

// awaitGroup waits until a group has a type and state, as ListGroups has them.
func awaitGroup(t *testing.T, adm *kadm.Client, group, kind, state string) {
	t.Helper()
	timeout := time.After(time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		groups, err := adm.ListGroups(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		g := groups[group]
		if strings.EqualFold(g.GroupType, kind) && g.State == state {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("%s is %s and %s after a minute, want %s and %s", group, g.GroupType, g.State, kind, state)
		}
	}
}

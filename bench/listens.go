package main

import (
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// mustListen ends the run when none of the processes that would be measured is
// the one that answers at addr: another broker may have taken the port before it.
func mustListen(addr string, pid pids) {
	if len(pid) == 0 {
		return
	}
	for _, id := range pid {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", id)); err != nil {
			log.Fatalf("there is no process %d", id)
		}
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		log.Fatal(err)
	}
	dialUntil(addr, time.Minute).c.Close() // it may still be starting
	want, _ := strconv.Atoi(port)
	for _, id := range pid {
		if listensOn(id, want) {
			return
		}
	}
	log.Fatalf("process %v does not listen on %s", pid, addr)
}

// listensOn is true, too, of another user's process: its sockets are hidden.
func listensOn(pid, port int) bool {
	sockets := listeners(pid, port)
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		return true
	}
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); sockets[to] {
			return true
		}
	}
	return false
}

// listeners are the sockets that wait for connections on a port, as links of
// /proc/PID/fd name them.
func listeners(pid, port int) map[string]bool {
	const listen = "0A"
	out := map[string]bool{}
	for _, f := range []string{"tcp", "tcp6"} {
		table, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, f))
		for line := range strings.Lines(string(table)) {
			col := strings.Fields(line)
			if len(col) > 9 && col[3] == listen && strings.HasSuffix(col[1], fmt.Sprintf(":%04X", port)) {
				out["socket:["+col[9]+"]"] = true
			}
		}
	}
	return out
}

package main

import (
	"fmt"
	"log"
	"sync"
	"syscall"
	"time"
)

// raiseFiles makes room for n connections.
func raiseFiles(n int) {
	need := uint64(n) + 200
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		log.Fatal("file limit: ", err)
	}
	if l.Cur >= need {
		return
	}
	l.Cur, l.Max = need, max(l.Max, need)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		log.Fatalf("%d open files are not allowed here: %v", need, err)
	}
}

// dialAll opens connections, not so many at a time that a listen queue overflows.
func dialAll(addr string, n int) []*rawConn {
	raiseFiles(n)
	cs := make([]*rawConn, n)
	var wg sync.WaitGroup
	const lanes = 8
	for lane := range lanes {
		wg.Go(func() {
			for i := lane; i < n; i += lanes {
				cs[i] = mustDial(addr)
			}
		})
	}
	wg.Wait()
	return cs
}

// runGroups keeps -groups groups of -members members alive.
func runGroups(addr, topic string, pid pids) result {
	total := *ngroups * *members
	awaitCoordinator(addr, "bench")
	before := rss(pid)
	conns := dialAll(addr, total)
	time.Sleep(time.Second)
	connected := rss(pid)

	var n counts
	var wg sync.WaitGroup
	groups := make([]*group, *ngroups)
	names := make([]string, *ngroups)
	all := make([]*member, 0, total)
	run := seq.Add(1)
	began := time.Now()
	for i := range groups {
		names[i] = fmt.Sprintf("bench-%d-%d", run, i)
		groups[i] = newGroup(names[i], topic, *nparts, *members)
		for range *members {
			m := newMember(groups[i], conns[len(all)], &n)
			all = append(all, m)
			wg.Go(m.run)
		}
	}
	unstable := awaitStable(groups, began.Add(3*time.Minute))
	stable := time.Since(began)
	n.settled.Store(true)
	n.took.reset()
	sent := n.sent.Load()
	u := during(pid, func() { time.Sleep(*dur) })
	sent = n.sent.Load() - sent
	after := rss(pid)
	r := result{"members": total, "groups": *ngroups, "stable_s": r2(stable.Seconds()), "groups_not_stable": unstable,
		"heartbeats_per_s": r1(float64(sent) / u.wall), "rebalances_after_stable": n.rebalances.Load(), "stall": r2(u.stalled / u.wall),
		"rss_before_MiB": mib(before), "rss_connected_MiB": mib(connected), "rss_stable_MiB": mib(after)}
	if len(pid) > 0 {
		r["KiB_per_conn"] = r2(float64(connected-before) / 1024 / float64(total))
		r["KiB_per_member"] = r2(float64(after-connected) / 1024 / float64(total))
		r["KiB_per_member_and_conn"] = r2(float64(after-before) / 1024 / float64(total))
		r["KiB_per_group"] = r2(float64(after-connected) / 1024 / float64(*ngroups))
		r["broker_cpu_pct"] = r2(u.broker / u.wall * 100)
		r["broker_cpu_s_per_M_heartbeats"] = r2(u.broker / float64(sent) * 1e6)
	}
	n.took.into(r, "heartbeat_")
	for _, m := range all {
		close(m.stop)
	}
	left := time.Now()
	wg.Wait()
	r["leave_s"] = r2(time.Since(left).Seconds())
	r["heartbeats_sent"], r["heartbeats_answered"], r["heartbeats_failed"] = n.sent.Load(), n.answered.Load(), n.failed.Load()
	if len(n.errors) > 0 {
		r["errors"] = n.errors
	}
	deleteGroups(addr, names)
	return r
}

// awaitStable returns how many groups are not whole when the time is over.
func awaitStable(groups []*group, deadline time.Time) int {
	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	for i, g := range groups {
		select {
		case <-g.stable:
		case <-timeout.C:
			missing := 0
			for _, g := range groups[i:] {
				g.mu.Lock()
				if g.synced != g.want {
					missing++
				}
				g.mu.Unlock()
			}
			return missing
		}
	}
	return 0
}

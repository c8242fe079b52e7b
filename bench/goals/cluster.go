package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const nodes = 3

// place is where the nodes of a cluster are: the last digit of a port is the
// node's number, so that a command for all of them needs to know no more.
// The ports are below those that the system gives to clients, for a broker that
// is started again must find its own free.
type place struct{ clients, voters int }

func (p place) client(node int) string { return fmt.Sprintf("127.0.0.1:%d%d", p.clients, node) }
func (p place) voter(node int) string  { return fmt.Sprintf("127.0.0.1:%d%d", p.voters, node) }

func (p place) quorum() string {
	var all []string
	for node := 1; node <= nodes; node++ {
		all = append(all, fmt.Sprintf("%d@%s", node, p.voter(node)))
	}
	return strings.Join(all, ",")
}

func freePlace() (place, error) {
	for tens := 1900; tens < 3200; tens += 2 {
		p := place{tens, tens + 1}
		if p.free() {
			return p, nil
		}
	}
	return place{}, errors.New("no ports are free for a cluster")
}

func (p place) free() bool {
	for node := 1; node <= nodes; node++ {
		for _, addr := range []string{p.client(node), p.voter(node)} {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				return false
			}
			_ = l.Close()
		}
	}
	return true
}

// nodeCommand is the command of one node of a cluster.
type nodeCommand func(p place, node int, data string, durable bool) (name string, args []string)

// Both kinds of cluster keep the same promise, and give the space of deleted
// topics back before the next run needs it.
var clusterSettings = []string{"min.insync.replicas=2", "log.segment.delete.delay.ms=1000"}

func barnabasNode(p place, node int, data string, durable bool) (string, []string) {
	return *barnabas, nodeArguments(p, strconv.Itoa(node), p.client(node), p.voter(node), data, durable)
}

// nodeArguments takes the node's number as text, for a shell may fill it in.
func nodeArguments(p place, node, client, voter, data string, durable bool) []string {
	args := serveArguments(client+",CONTROLLER://"+voter, data, durable)
	for _, s := range append([]string{"node.id=" + node, "controller.listener.names=CONTROLLER", "controller.quorum.voters=" + p.quorum()}, clusterSettings...) {
		args = append(args, "--set", s)
	}
	return args
}

// kafkaNode has half of the usual heap: three of them share a small machine.
func kafkaNode(p place, node int, data string, durable bool) (string, []string) {
	args := []string{"-listen", p.client(node), "-dir", data, "-durable=" + strconv.FormatBool(durable), "-heap", "512m",
		"-node", strconv.Itoa(node), "-voters", p.quorum()}
	for _, s := range clusterSettings {
		args = append(args, "-set", s)
	}
	return filepath.Join(*bin, "apachekafka"), args
}

// startCluster starts all nodes before it waits for one: none is ready before
// most of them are there.
func startCluster(dir string, m measurement, command nodeCommand) (*process, error) {
	p, err := freePlace()
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(dir, "cluster-")
	if err != nil {
		return nil, err
	}
	var all []*process
	for node := 1; node <= nodes && err == nil; node++ {
		name, args := command(p, node, filepath.Join(data, strconv.Itoa(node)), m.durable)
		var one *process
		if one, err = launch(p.client(node), name, args...); err == nil {
			all = append(all, one)
		}
	}
	for i := 0; i < len(all) && err == nil; i++ {
		err = all[i].ready()
	}
	if err != nil {
		for _, one := range all {
			_ = one.cmd.Process.Kill()
		}
		return nil, err
	}
	all[0].others, all[0].data = all[1:], data
	return all[0], nil
}

// benchCluster lets the load start the brokers of a cluster, kill and end them.
func benchCluster(dir string, m measurement) (map[string]float64, error) {
	p, err := freePlace()
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(dir, "cluster-")
	if err != nil {
		return nil, err
	}
	var all []string
	for node := 1; node <= nodes; node++ {
		all = append(all, p.client(node))
	}
	const node = "$NODE" // the load says which
	at := func(tens int) string { return fmt.Sprintf("127.0.0.1:%d%s", tens, node) }
	args := nodeArguments(p, node, at(p.clients), at(p.voters), filepath.Join(data, node), true)
	command := strings.Join(append([]string{*barnabas}, args...), " ")
	figures, err := bench(append([]string{"-bootstrap", strings.Join(all, ","), "-cmd", command}, m.arguments(m.args)...), "MEDIAN")
	return figures, errors.Join(err, os.RemoveAll(data))
}

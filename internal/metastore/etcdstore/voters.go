package etcdstore

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
)

// Voter is a node that carries the embedded etcd.
type Voter struct {
	ID      int32
	Address string // host:port where the other voters and everybody else reach it
}

// shared says whether the metadata are carried by nodes that others reach.
func (c Config) shared() bool { return len(c.Voters)+len(c.Bootstrap) > 0 }

// self is this node among the voters.
func (c Config) self() Voter {
	for _, v := range c.Voters {
		if v.ID == c.Member.ID {
			return v
		}
	}
	return Voter{ID: c.Member.ID}
}

const namePrefix = "node-"

func nodeName(id int32) string { return namePrefix + strconv.Itoa(int(id)) }

// nodeOf is the node of a member's name, or -1: a member that never started has
// no name, and a single node has one without a number.
func nodeOf(name string) int32 {
	number, ok := strings.CutPrefix(name, namePrefix)
	n, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil || n < 0 {
		return -1
	}
	return int32(n)
}

func (c Config) checkVoters() error {
	var ids []int32
	var addresses []string
	for _, v := range c.Voters {
		if slices.Contains(ids, v.ID) {
			return fmt.Errorf("metadata store: voter %d stands twice", v.ID)
		}
		ids = append(ids, v.ID)
		if host, port, err := net.SplitHostPort(v.Address); err != nil || host == "" || port == "" {
			return fmt.Errorf("metadata store: %q of voter %d is not host:port", v.Address, v.ID)
		}
		if slices.Contains(addresses, v.Address) {
			return fmt.Errorf("metadata store: two voters are at %s", v.Address)
		}
		addresses = append(addresses, v.Address)
	}
	addresses = append(addresses, c.Bootstrap...)
	if c.Member.Dir != "" {
		if !slices.Contains(ids, c.Member.ID) {
			return fmt.Errorf("metadata store: node %d is not among the voters", c.Member.ID)
		}
		at, err := bind(c.Member.Listen, c.self().Address)
		if err != nil {
			return err
		}
		addresses = append(addresses, at)
	}
	if !c.Files.empty() || c.Plaintext {
		return nil
	}
	for _, a := range addresses {
		if !loopback(a) {
			return fmt.Errorf("metadata store: %s is not on loopback, and without TLS everybody who reaches it reads and changes everything: "+
				"set barnabas.metadata.tls.certificate.file, barnabas.metadata.tls.key.file and barnabas.metadata.tls.ca.file, "+
				"or barnabas.metadata.plaintext=true on a network where nobody else is", a)
		}
	}
	return nil
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (c Config) scheme() string {
	if c.Files.empty() {
		return "http"
	}
	return "https"
}

func (c Config) url(address string) url.URL { return url.URL{Scheme: c.scheme(), Host: address} }

// peerURL is what the cluster knows a voter by.
func (c Config) peerURL(v Voter) string { u := c.url(v.Address); return u.String() }

// bind is where to listen for an address that others use. A voter that they
// find on loopback is not open to anybody else, whatever its listener says; one
// that has a name listens on every interface: the name may be another's here.
func bind(listen, address string) (string, error) {
	if listen == "" {
		listen = address
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("metadata store: %w", err)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case (host == "" || err == nil && ip.IsUnspecified()) && loopback(address):
		host, _, _ = net.SplitHostPort(address)
	case err != nil && host != "localhost":
		host = ""
	}
	return net.JoinHostPort(host, port), nil
}

// token is alike at all voters that begin a cluster together.
func (c Config) token() string {
	if c.Member.Token != "" {
		return c.Member.Token
	}
	return "barnabas " + c.initialCluster()
}

// initialCluster is what etcd calls so: every voter's name and address, sorted.
func (c Config) initialCluster() string {
	var out []string
	for _, v := range c.Voters {
		out = append(out, nodeName(v.ID)+"="+c.peerURL(v))
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// clusterID is that of the cluster that the voters begin.
func (c Config) clusterID() (types.ID, error) {
	urls, err := types.NewURLsMap(c.initialCluster())
	if err != nil {
		return 0, fmt.Errorf("metadata store: %w", err)
	}
	cl, err := membership.NewClusterFromURLsMap(nil, c.token(), urls)
	if err != nil {
		return 0, fmt.Errorf("metadata store: %w", err)
	}
	return cl.ID(), nil
}

// advertise tells an embedded member its address, which is the door's, and the
// cluster that it is born into.
func (c Config) advertise(e *embed.Config) {
	me := c.url(c.self().Address)
	e.AdvertisePeerUrls, e.AdvertiseClientUrls = []url.URL{me}, []url.URL{me}
	e.InitialCluster, e.InitialClusterToken = c.initialCluster(), c.token()
	if !c.Files.empty() {
		e.PeerTLSInfo = c.Files.info()
	}
}

// clientEndpoints are where brokers that are no voters find the metadata.
func (c Config) clientEndpoints() []string {
	var out []string
	for _, v := range c.Voters {
		out = append(out, c.peerURL(v))
	}
	for _, a := range c.Bootstrap {
		u := c.url(a)
		if s := u.String(); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

package config

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Listener is one entry of listeners or advertised.listeners.
type Listener struct {
	Name     string // upper case
	Protocol string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
	Host     string // empty: every interface
	Port     int32  // 0: a free one is picked
}

// Address is what net.Listen takes.
func (l Listener) Address() string { return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))) }

func (l Listener) String() string { return l.Name + "://" + l.Address() }

// wildcard hosts mean every interface.
func (l Listener) wildcard() bool {
	addr, err := netip.ParseAddr(l.Host)
	return l.Host == "" || err == nil && addr.IsUnspecified()
}

// Voter is one entry of controller.quorum.voters.
type Voter struct {
	ID   int32
	Host string
	Port int32
}

var listenerForm = regexp.MustCompile(`^([A-Za-z0-9_.\-]+)://(?:\[([0-9A-Fa-f:.%a-z]*)\]|([^\[\]/,\s]*)):([0-9]{1,5})$`)

// parseListener reads NAME://host:port.
func parseListener(s string) (Listener, error) {
	m := listenerForm.FindStringSubmatch(s)
	if m == nil {
		return Listener{}, fmt.Errorf("%q is not of the form NAME://host:port", s)
	}
	port, err := strconv.ParseUint(m[4], 10, 16)
	if err != nil {
		return Listener{}, fmt.Errorf("%q: the port is above 65535", s)
	}
	return Listener{Name: strings.ToUpper(m[1]), Host: m[2] + m[3], Port: int32(port)}, nil
}

// parseListeners reads a list and gives each its protocol; names are unique.
func (c *Config) parseListeners(key string) ([]Listener, error) {
	protocols, err := c.protocols()
	if err != nil {
		return nil, err
	}
	var out []Listener
	for _, s := range c.List(key) {
		l, err := parseListener(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if slices.ContainsFunc(out, func(o Listener) bool { return o.Name == l.Name }) {
			return nil, fmt.Errorf("%s: two entries are named %s", key, l.Name)
		}
		l.Protocol = protocols[l.Name]
		if l.Protocol == "" {
			return nil, fmt.Errorf("%s: nothing says which protocol %s speaks: add %s:PLAINTEXT to listener.security.protocol.map", key, l.Name, l.Name)
		}
		out = append(out, l)
	}
	return out, nil
}

var protocolNames = []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

// protocols maps listener names to protocols. Where the map was not set, the
// controller's listeners speak plain text, as in Apache Kafka.
func (c *Config) protocols() (map[string]string, error) {
	const key = "listener.security.protocol.map"
	out := map[string]string{}
	for _, pair := range splitList(c.Text(key)) {
		name, protocol, ok := strings.Cut(pair, ":")
		name, protocol = strings.ToUpper(strings.TrimSpace(name)), strings.ToUpper(strings.TrimSpace(protocol))
		if !ok || name == "" || !slices.Contains(protocolNames, protocol) {
			return nil, fmt.Errorf("%s: %q is not NAME:PROTOCOL with one of %s", key, pair, strings.Join(protocolNames, ", "))
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%s: %s stands twice", key, name)
		}
		out[name] = protocol
	}
	if !c.IsSet(key) {
		for _, name := range c.controllerNames() {
			if out[name] == "" {
				out[name] = "PLAINTEXT"
			}
		}
	}
	return out, nil
}

func (c *Config) controllerNames() []string {
	var out []string
	for _, name := range c.List("controller.listener.names") {
		out = append(out, strings.ToUpper(name))
	}
	return out
}

// splitControllers parts the listeners into those for Kafka clients and those
// where the metadata members meet.
func (c *Config) splitControllers(all []Listener) (clients, peers []Listener) {
	names := c.controllerNames()
	for _, l := range all {
		if slices.Contains(names, l.Name) {
			peers = append(peers, l)
		} else {
			clients = append(clients, l)
		}
	}
	return clients, peers
}

// checkPorts refuses one port twice, but for an IPv4 and an IPv6 address.
func checkPorts(all []Listener) error {
	for i, a := range all {
		for _, b := range all[:i] {
			if a.Port == 0 || a.Port != b.Port {
				continue
			}
			x, errX := netip.ParseAddr(a.Host)
			y, errY := netip.ParseAddr(b.Host)
			if errX == nil && errY == nil && (x.Is4() != y.Is4() || !a.wildcard() && !b.wildcard() && x != y) {
				continue
			}
			return fmt.Errorf("listeners: %s and %s share a port", b, a)
		}
	}
	return nil
}

// advertised resolves what clients are told, in the order of clients. No entry
// ever names a wildcard; a port of 0 is that of the listener, known when it is open.
func (c *Config) advertised(clients []Listener, host func() string) ([]Listener, error) {
	if !c.IsSet("advertised.listeners") {
		out := slices.Clone(clients)
		for i := range out {
			if out[i].wildcard() {
				out[i].Host = host()
			}
		}
		return out, nil
	}
	const key = "advertised.listeners"
	all, err := c.parseListeners(key)
	if err != nil {
		return nil, err
	}
	told, _ := c.splitControllers(all)
	var out []Listener
	for _, l := range told {
		if !slices.ContainsFunc(clients, func(o Listener) bool { return o.Name == l.Name }) {
			return nil, fmt.Errorf("%s: %s is not among listeners", key, l.Name)
		}
		switch {
		case l.Host == "":
			l.Host = host()
		case l.wildcard():
			return nil, fmt.Errorf("%s: %s is not an address that a client can connect to: name one that it can", key, l)
		}
		out = append(out, l)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: at least one listener for clients is needed", key)
	}
	return out, nil
}

// interBroker chooses the listener that brokers use among themselves.
func (c *Config) interBroker(clients, told []Listener) (string, error) {
	const key, protocolKey = "inter.broker.listener.name", "security.inter.broker.protocol"
	name := strings.ToUpper(c.Text(key))
	if name != "" && c.IsSet(protocolKey) {
		return "", fmt.Errorf("%s and %s exclude each other: set one", key, protocolKey)
	}
	for _, l := range clients {
		if name == l.Name || name == "" && l.Protocol == c.Text(protocolKey) {
			if !slices.ContainsFunc(told, func(t Listener) bool { return t.Name == l.Name }) {
				return "", fmt.Errorf("advertised.listeners: %s, which brokers use among themselves, must be advertised", l.Name)
			}
			return l.Name, nil
		}
	}
	if name != "" {
		return "", fmt.Errorf("%s: %s is not among listeners", key, name)
	}
	return "", fmt.Errorf("listeners: none speaks %s, which brokers use among themselves: set %s", c.Text(protocolKey), key)
}

// parseVoters reads id@host:port entries.
func (c *Config) parseVoters() ([]Voter, error) {
	const key = "controller.quorum.voters"
	var out []Voter
	for _, s := range c.List(key) {
		id, address, ok := strings.Cut(s, "@")
		n, err := strconv.ParseInt(id, 10, 32)
		if !ok || err != nil || n < 0 {
			return nil, fmt.Errorf("%s: %q is not of the form id@host:port", key, s)
		}
		host, port, err := net.SplitHostPort(address)
		p, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil || host == "" || p == 0 {
			return nil, fmt.Errorf("%s: %q is not of the form id@host:port", key, s)
		}
		if slices.ContainsFunc(out, func(v Voter) bool { return v.ID == int32(n) }) {
			return nil, fmt.Errorf("%s: %d stands twice", key, n)
		}
		out = append(out, Voter{int32(n), host, int32(p)})
	}
	return out, nil
}

// DefaultHost is a name or address of this machine that others can use: its
// host name where that resolves, else its first address beyond loopback, else
// loopback.
func DefaultHost() string {
	if name, err := os.Hostname(); err == nil {
		if _, err := net.LookupHost(name); err == nil {
			return name
		}
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

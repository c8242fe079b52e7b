package config

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func host() string { return "box.example" }

func TestDefaultBroker(t *testing.T) {
	b, err := must(t, nil).Broker(host)
	if err != nil {
		t.Fatal(err)
	}
	if b.NodeID != 1 || !b.IsBroker || !b.IsController || b.Admin != "127.0.0.1:9644" || len(b.Peers) != 0 {
		t.Errorf("%+v", b)
	}
	if len(b.Listeners) != 1 || b.Listeners[0].String() != "PLAINTEXT://127.0.0.1:9092" || b.Advertised[0] != b.Listeners[0] || b.InterBroker != "PLAINTEXT" {
		t.Errorf("%+v", b)
	}
	if !slices.Equal(b.Storage.Dirs, []string{"./barnabas-data"}) || b.Metadata.Dir != "./barnabas-data" || b.Metadata.Lease != 7*time.Second {
		t.Errorf("%+v %+v", b.Storage, b.Metadata)
	}
	if b.Network.InFlightMaxBytes != 200<<20 || b.Network.RequestMaxBytes != 100<<20 || b.Topics != (Topics{1, 1, true, true}) {
		t.Errorf("%+v %+v", b.Network, b.Topics)
	}
}

func TestShippedFile(t *testing.T) {
	text, err := os.ReadFile("testdata/server.properties")
	if err != nil {
		t.Fatal(err)
	}
	c, warnings, err := Parse("server.properties", text)
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 4 {
		t.Errorf("warnings: %q", warnings)
	}
	for _, w := range warnings {
		if !strings.HasSuffix(w, "has no effect yet") {
			t.Errorf("warning: %s", w)
		}
	}
	b, err := c.Broker(host)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Listeners) != 1 || b.Listeners[0].Address() != ":9092" || len(b.Advertised) != 1 || b.Advertised[0].Address() != "localhost:9092" {
		t.Errorf("%v %v", b.Listeners, b.Advertised)
	}
	if len(b.Peers) != 1 || b.Peers[0].Address() != ":9093" || len(b.Metadata.Voters) != 0 || b.Storage.Dirs[0] != "/tmp/kraft-combined-logs" {
		t.Errorf("%v %v %v", b.Peers, b.Metadata, b.Storage.Dirs)
	}
}

// META-01: no wildcard and no empty host is ever advertised.
func TestAdvertised(t *testing.T) {
	const twoProtocols = "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"
	for _, c := range []struct {
		name string
		set  map[string]string
		want string // or part of the error
	}{
		{"wildcard", map[string]string{"listeners": "PLAINTEXT://0.0.0.0:9092"}, "PLAINTEXT://box.example:9092"},
		{"empty host", map[string]string{"listeners": "PLAINTEXT://:9092"}, "PLAINTEXT://box.example:9092"},
		{"IPv6 wildcard", map[string]string{"listeners": "PLAINTEXT://[::]:9092"}, "PLAINTEXT://box.example:9092"},
		{"port 0", map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0"}, "PLAINTEXT://127.0.0.1:0"},
		{"IPv6", map[string]string{"listeners": "plaintext://[::1]:9092"}, "PLAINTEXT://[::1]:9092"},
		{"explicit", map[string]string{"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://k.example:19092"}, "PLAINTEXT://k.example:19092"},
		{"explicit without a host", map[string]string{"advertised.listeners": "PLAINTEXT://:19092"}, "PLAINTEXT://box.example:19092"},
		{"explicit wildcard", map[string]string{"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "is not an address that a client can connect to"},
		{"explicit IPv6 wildcard", map[string]string{"advertised.listeners": "PLAINTEXT://[::0]:9092"}, "is not an address that a client can connect to"},
		{"unknown listener", map[string]string{"advertised.listeners": "SSL://x:9092"}, "SSL is not among listeners"},
		{"two", map[string]string{"listeners": "INTERNAL://0.0.0.0:9092,EXTERNAL://:9093", "listener.security.protocol.map": twoProtocols, "inter.broker.listener.name": "internal"},
			"INTERNAL://box.example:9092 EXTERNAL://box.example:9093"},
		{"two without a name between brokers", map[string]string{"listeners": "INTERNAL://:9092,EXTERNAL://:9093", "listener.security.protocol.map": twoProtocols},
			"INTERNAL://box.example:9092 EXTERNAL://box.example:9093"},
		{"between brokers and not advertised", map[string]string{"listeners": "INTERNAL://:9092,EXTERNAL://:9093", "listener.security.protocol.map": twoProtocols,
			"advertised.listeners": "EXTERNAL://x:9093"}, "must be advertised"},
		{"unmapped name", map[string]string{"listeners": "MINE://:9092"}, "add MINE:PLAINTEXT to listener.security.protocol.map"},
		{"name twice", map[string]string{"listeners": "PLAINTEXT://:9092,PLAINTEXT://:9093"}, "two entries are named PLAINTEXT"},
		{"port twice", map[string]string{"listeners": "INTERNAL://:9092,EXTERNAL://127.0.0.1:9092", "listener.security.protocol.map": twoProtocols}, "share a port"},
		{"one port on IPv4 and IPv6", map[string]string{"listeners": "INTERNAL://127.0.0.1:9092,EXTERNAL://[::1]:9092", "listener.security.protocol.map": twoProtocols},
			"INTERNAL://127.0.0.1:9092 EXTERNAL://[::1]:9092"},
		{"TLS", map[string]string{"listeners": "SSL://:9092"}, "does not speak yet"},
		{"nonsense", map[string]string{"listeners": "localhost:9092"}, "not of the form NAME://host:port"},
		{"big port", map[string]string{"listeners": "PLAINTEXT://:70000"}, "above 65535"},
		{"only a controller's", map[string]string{"listeners": "CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"}, "at least one for clients"},
		{"both names of the protocol", map[string]string{"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"}, "exclude each other"},
		{"bad map", map[string]string{"listener.security.protocol.map": "PLAINTEXT:TELNET"}, "is not NAME:PROTOCOL"},
		{"no listener between brokers", map[string]string{"security.inter.broker.protocol": "SSL"}, "none speaks SSL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got string
			b, err := must(t, c.set).Broker(host)
			if err != nil {
				got = err.Error()
			} else {
				var all []string
				for _, l := range b.Advertised {
					all = append(all, l.String())
				}
				got = strings.Join(all, " ")
			}
			if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRolesAndVoters(t *testing.T) {
	const three = "1@a:9093,2@b:9093,3@[::1]:9093"
	for _, c := range []struct {
		name string
		set  map[string]string
		want string // part of the error; "" for none
	}{
		{"one of three", map[string]string{"controller.quorum.voters": three, "node.id": "3"}, ""},
		{"a broker beside three", map[string]string{"controller.quorum.voters": three, "node.id": "4", "process.roles": "broker"}, ""},
		{"a controller that does not vote", map[string]string{"controller.quorum.voters": three, "node.id": "4"}, "node.id 4 is not in controller.quorum.voters"},
		{"a voter that is no controller", map[string]string{"controller.quorum.voters": three, "process.roles": "broker"}, "set process.roles=broker,controller"},
		{"one voter", map[string]string{"controller.quorum.voters": "1@a:9093"}, ""},
		{"a broker beside one", map[string]string{"controller.quorum.voters": "1@a:9093", "node.id": "2", "process.roles": "broker"}, ""},
		{"a broker that finds voters", map[string]string{"controller.quorum.bootstrap.servers": "a:9093,b:9093", "process.roles": "broker"}, ""},
		{"a voter that could find others", map[string]string{"controller.quorum.bootstrap.servers": "a:9093,b:9093", "controller.quorum.voters": three}, ""},
		{"a controller told where others are", map[string]string{"controller.quorum.bootstrap.servers": "a:9093"}, "set controller.quorum.voters"},
		{"a controller told of several", map[string]string{"controller.quorum.bootstrap.servers": "localhost:9093,localhost:9094"}, "set controller.quorum.voters"},
		{"a controller as shipped", map[string]string{"controller.quorum.bootstrap.servers": "localhost:9093"}, ""},
		{"bootstrap form", map[string]string{"controller.quorum.bootstrap.servers": "a", "process.roles": "broker"}, "host:port"},
		{"TLS without a key", map[string]string{"barnabas.metadata.tls.certificate.file": "c", "barnabas.metadata.tls.ca.file": "a"}, "go together"},
		{"two voters", map[string]string{"controller.quorum.voters": "1@a:1,2@b:1"}, "one, three or five"},
		{"a voter twice", map[string]string{"controller.quorum.voters": "1@a:1,1@b:1,2@c:1"}, "1 stands twice"},
		{"form", map[string]string{"controller.quorum.voters": "a:9093"}, "id@host:port"},
		{"lonely broker", map[string]string{"process.roles": "broker"}, "to find the cluster"},
		{"broker with an external store", map[string]string{"process.roles": "broker", "barnabas.metadata.endpoints": "a:2379"}, ""},
		{"controller alone", map[string]string{"process.roles": "controller", "listeners": "CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"}, ""},
		{"directory twice", map[string]string{"log.dirs": "/a,/a"}, "/a stands twice"},
	} {
		_, err := must(t, c.set).Broker(host)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for id, votes := range map[string]bool{"3": true, "4": false} {
		roles := map[bool]string{true: "broker,controller", false: "broker"}[votes]
		b, err := must(t, map[string]string{"controller.quorum.voters": three, "node.id": id, "process.roles": roles,
			"controller.quorum.auto.join.enable": "true", "barnabas.metadata.plaintext": "true"}).Broker(host)
		if err != nil || b.Votes() != votes || !b.Metadata.Join || !b.Metadata.Plaintext {
			t.Errorf("node %s: %v, %+v, %v", id, b.Votes(), b.Metadata, err)
		}
	}
	b, err := must(t, map[string]string{"broker.id": "7"}).Broker(host)
	if err != nil || b.NodeID != 7 {
		t.Errorf("broker.id alone: %d %v", b.NodeID, err)
	}
	b, err = must(t, map[string]string{"max.connections.per.ip.overrides": "10.0.0.1:5, [::1]:6"}).Broker(host)
	if err != nil || len(b.Network.PerIP) != 2 {
		t.Errorf("overrides by address: %v %v", b.Network.PerIP, err)
	}
}

func TestDefaultHost(t *testing.T) {
	h := DefaultHost()
	if (Listener{Host: h}).wildcard() {
		t.Errorf("%q is a wildcard", h)
	}
	if net.ParseIP(h) == nil {
		if _, err := net.LookupHost(h); err != nil {
			t.Errorf("%q does not resolve: %v", h, err)
		}
	}
}

// The system tunes socket buffers unless somebody chose a size; a file as Apache
// Kafka ships it repeats the default, and is no choice.
func TestSocketBuffers(t *testing.T) {
	for text, want := range map[string]int{
		"":                                   -1,
		"socket.receive.buffer.bytes=102400": -1,
		"socket.receive.buffer.bytes=-1":     -1,
		"socket.receive.buffer.bytes=65536":  65536,
	} {
		c, _, err := Parse("test", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		b, err := c.Broker(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Network.ReceiveBufferBytes; got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

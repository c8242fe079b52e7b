package api

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/server"
	"github.com/barnabas-mq/barnabas/internal/telemetry"
	"github.com/barnabas-mq/barnabas/internal/telemetry/otlp"
)

// Telemetry is where metrics that clients push go (KIP-714).
type Telemetry struct {
	MaxBytes int // telemetry.max.bytes
	// Push takes what was admitted; an error says that it cannot be read.
	Push func(otlp.Push) error
}

// desk is the one telemetry.Desk, with the subscriptions of the newest image.
type desk struct {
	mu    sync.Mutex
	desk  *telemetry.Desk
	image *meta.Image
	revs  string // of the subscriptions that desk has
}

func (d *desk) init() { d.desk = telemetry.NewDesk() }

// at locks the desk for one request; done unlocks it.
func (a *API) atDesk() (d *telemetry.Desk, done func()) {
	t := &a.telemetry
	t.mu.Lock()
	if img := a.Image(); img != t.image {
		t.image = img
		a.subscribe(img)
	}
	return t.desk, t.mu.Unlock
}

// subscribe takes over the subscriptions of an image, if they are others.
func (a *API) subscribe(img *meta.Image) {
	var revs strings.Builder
	for name := range img.ClientMetricsNames() {
		fmt.Fprintf(&revs, "%q %d ", name, img.ClientMetricsOverrides(name).ModRev)
	}
	if revs.String() == a.telemetry.revs {
		return
	}
	a.telemetry.revs = revs.String()
	var subs []telemetry.Subscription
	for name := range img.ClientMetricsNames() {
		s, err := telemetry.Parse(name, img.ClientMetrics(name))
		if err != nil {
			a.Log.Warn("subscription to client metrics matches nobody", "err", err)
			continue
		}
		subs = append(subs, s)
	}
	a.telemetry.desk.Subscribe(subs)
}

// whenHungUp has a client forgotten with its connection.
func (a *API) whenHungUp(c *server.Conn) {
	conn := c.ID
	c.OnClose(func() {
		a.telemetry.mu.Lock()
		defer a.telemetry.mu.Unlock()
		a.telemetry.desk.HungUp(conn)
	})
}

// pusher is who asks, as subscriptions match it.
func pusher(r *server.Request, id [16]byte) telemetry.Client {
	c := telemetry.Client{
		ID: id, ClientID: r.ClientID,
		SoftwareName: r.Conn.SoftwareName, SoftwareVersion: r.Conn.SoftwareVersion,
	}
	if c.SoftwareName == "" { // it did not say, and Apache Kafka says so
		c.SoftwareName, c.SoftwareVersion = "unknown", "unknown"
	}
	if from, err := netip.ParseAddrPort(r.Conn.Remote.String()); err == nil {
		c.Address, c.Port = javaAddress(from.Addr()), strconv.Itoa(int(from.Port()))
	}
	return c
}

// javaAddress writes an address as Java does: of IPv6 every group, without leading zeros.
func javaAddress(a netip.Addr) string {
	a = a.Unmap()
	if a.Is4() {
		return a.String()
	}
	b := a.As16()
	groups := make([]string, 8)
	for i := range groups {
		groups[i] = strconv.FormatUint(uint64(b[2*i])<<8|uint64(b[2*i+1]), 16)
	}
	return strings.Join(groups, ":")
}

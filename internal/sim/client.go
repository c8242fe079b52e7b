package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/check"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

const (
	// clientHost is where all clients are.
	clientHost = "clients"
	// theTopic is what they work on.
	theTopic   = "t"
	partitions = 3
	// patience of a client with one request.
	patience = 4 * time.Second
)

// errNoLeader: a partition has none, as far as the client could find out.
var errNoLeader = errors.New("no leader")

// client is one client: it believes what it is told, and forgets it when that
// turns out to be wrong. It belongs to one goroutine.
type client struct {
	w       *World
	name    string
	dice    *dice
	conns   map[string]*wire.Client
	leaders map[int32]string // of theTopic
}

func (w *World) newClient(name string, use uint64) *client {
	return &client{w: w, name: name, dice: newDice(w.o.Seed, 1000+use), conns: map[string]*wire.Client{}, leaders: map[int32]string{}}
}

func (c *client) close() {
	for address := range c.conns {
		c.hangUp(address)
	}
}

func (c *client) hangUp(address string) {
	if conn := c.conns[address]; conn != nil {
		_ = conn.Close()
		delete(c.conns, address)
	}
}

// conn is a connection to a broker.
func (c *client) conn(ctx context.Context, address string) (*wire.Client, error) {
	if conn := c.conns[address]; conn != nil {
		return conn, nil
	}
	nc, err := c.w.net.dial(ctx, clientHost, address)
	if err != nil {
		return nil, err
	}
	conn := wire.NewClient(nc, wire.ClientOptions{ClientID: c.name})
	c.conns[address] = conn
	return conn, nil
}

// ask asks a broker. After an error the connection is another one.
func (c *client) ask(ctx context.Context, address string, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := c.conn(ctx, address)
	if err != nil {
		return nil, err
	}
	resp, err := conn.Do(ctx, req)
	if err != nil {
		c.hangUp(address)
	}
	return resp, err
}

// anybody is a broker.
func (c *client) anybody() string { return c.w.nodes[c.dice.intn(brokers)].name }

// leader is who leads a partition.
func (c *client) leader(ctx context.Context, part int32) (string, error) {
	if at := c.leaders[part]; at != "" {
		return at, nil
	}
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(9)
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(theTopic)
	req.Topics = append(req.Topics, t)
	answer, err := c.ask(ctx, c.anybody(), req)
	if err != nil {
		return "", err
	}
	at := map[int32]string{}
	resp := answer.(*kmsg.MetadataResponse)
	for _, b := range resp.Brokers {
		at[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 && at[p.Leader] != "" {
				c.leaders[p.Partition] = at[p.Leader]
			}
		}
	}
	if c.leaders[part] == "" {
		return "", errNoLeader
	}
	return c.leaders[part], nil
}

// toLeader asks the leader of a partition.
func (c *client) toLeader(ctx context.Context, part int32, req kmsg.Request) (kmsg.Response, error) {
	at, err := c.leader(ctx, part)
	if err != nil {
		return nil, err
	}
	resp, err := c.ask(ctx, at, req)
	if err != nil {
		delete(c.leaders, part)
	}
	return resp, err
}

// believe takes over what an answer says of a leader, and gives its error.
func (c *client) believe(part int32, code int16) error {
	if code == 0 {
		return nil
	}
	delete(c.leaders, part)
	return kerr.ErrorForCode(code)
}

// rest waits before another attempt; false: the history is over.
func (c *client) rest(ctx context.Context) bool {
	return sleep(ctx, 10*time.Millisecond+c.dice.upTo(150*time.Millisecond)) == nil
}

// event begins an event.
func (c *client) event(op check.Op, part int32) check.Event {
	e := check.New(op)
	e.Client, e.Topic, e.Partition, e.Begin = c.name, theTopic, part, c.w.history.now()
	return e
}

// value is a record's, which begins with its id.
func value(id string, padding int) []byte { return fmt.Appendf(nil, "%s|%0*d", id, padding, 0) }

// records reads the records of an answer from an offset on, and where the next
// reading begins.
func records(raw []byte, from int64) (out []check.Record, next int64, err error) {
	next = from
	for len(raw) > 0 {
		b, rest, err := batch.Next(raw)
		if batch.IsTruncated(err) {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		if !b.CRCValid() {
			return nil, 0, fmt.Errorf("batch at %d: its checksum is wrong", b.BaseOffset())
		}
		raw = rest
		it := batch.Records(b, 1<<20)
		for it.Next() {
			r := it.Record()
			offset := b.Offset(r)
			if offset < from || b.Control() {
				continue
			}
			out = append(out, check.Record{
				Offset: offset, ID: idOf(r.Value), Sum: crc32.ChecksumIEEE(r.Value), Epoch: kafka.LeaderEpoch(b.LeaderEpoch()),
			})
		}
		if it.Close(); it.Err() != nil {
			return nil, 0, it.Err()
		}
		next = max(next, b.NextOffset())
	}
	return out, next, nil
}

func idOf(value []byte) string {
	for i, b := range value {
		if b == '|' {
			return string(value[:i])
		}
	}
	return string(value)
}

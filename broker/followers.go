package broker

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/replica/fetcher"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

func (b *Broker) fetcherConfig() fetcher.Config {
	r, keeper := b.node.Replication, b.parts.keeper
	return fetcher.Config{
		Self:           b.node.NodeID,
		Epoch:          func() int64 { return keeper.Epoch(keeper.Image()) },
		Dial:           b.dialBroker,
		PartitionBytes: r.FetchBytes,
		AnswerBytes:    r.AnswerBytes,
		MinBytes:       r.MinBytes,
		Wait:           r.Wait,
		Backoff:        r.Backoff,
		Timeout:        r.Timeout,
		Throttle:       b.parts.slowFollowers,
		Logger:         b.log.With("part", "replica"),
	}
}

// dialBroker connects to another broker on the listener between brokers.
func (b *Broker) dialBroker(ctx context.Context, id kafka.NodeID) (*wire.Client, error) {
	other, ok := b.parts.keeper.Image().Broker(id)
	if !ok {
		return nil, fmt.Errorf("broker %d is not registered", id)
	}
	for _, l := range other.Listeners {
		if l.Name != b.node.InterBroker {
			continue
		}
		nc, err := b.dial(ctx, net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))))
		if err != nil {
			return nil, err
		}
		if tcp, ok := nc.(*net.TCPConn); ok && b.node.Replication.ReceiveBuffer > 0 {
			if err := tcp.SetReadBuffer(b.node.Replication.ReceiveBuffer); err != nil {
				_ = nc.Close()
				return nil, err
			}
		}
		return wire.NewClient(nc, wire.ClientOptions{ClientID: fmt.Sprintf("broker-%d-follower", b.node.NodeID)}), nil
	}
	return nil, fmt.Errorf("broker %d has no listener %s, which brokers use among themselves here (inter.broker.listener.name)", id, b.node.InterBroker)
}

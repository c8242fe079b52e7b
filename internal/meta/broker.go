package meta

import (
	"errors"
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// Broker is a registration (safety 1). One incarnation may rewrite its own
// (Leaving, Offline), under the same lease; another never does.
type Broker struct {
	ID        kafka.NodeID
	Epoch     int64 // create revision of the registration
	ModRev    int64
	Lease     int64  // the lease it is under; 0 on a single node
	StartID   string // of the process
	Listeners []Listener
	Rack      string
	Dirs      []kafka.DirID // every data directory, offline ones too
	Offline   []kafka.DirID
	Cordoned  []kafka.DirID // take no new replicas (KIP-1066)
	Leaving   bool
	Features  map[string][2]int16 // supported min, max; not to be changed

	extra extra
}

// Listener is an advertised address.
type Listener struct {
	Name, Protocol, Host string
	Port                 int32
}

// Clone copies b, so that the copy's flags and lists can be changed.
func (b *Broker) Clone() *Broker {
	c := *b
	c.Listeners = slices.Clone(b.Listeners)
	c.Dirs = slices.Clone(b.Dirs)
	c.Offline = slices.Clone(b.Offline)
	c.Cordoned = slices.Clone(b.Cordoned)
	return &c
}

// Serves says whether b can serve a replica in dir: one of its directories
// that is not offline, or none assigned yet.
func (b *Broker) Serves(dir kafka.DirID) bool {
	if dir == kafka.DirUnassigned {
		return true
	}
	return slices.Contains(b.Dirs, dir) && !slices.Contains(b.Offline, dir)
}

// HasRoom says whether b has a directory that takes new replicas.
func (b *Broker) HasRoom() bool {
	return slices.ContainsFunc(b.Dirs, func(d kafka.DirID) bool { return !slices.Contains(b.Cordoned, d) })
}

type brokerValue struct {
	Version   int                 `json:"version"`
	StartID   string              `json:"start_id"`
	Listeners []listenerValue     `json:"listeners"`
	Rack      string              `json:"rack,omitempty"`
	Dirs      []kafka.DirID       `json:"dirs"`
	Offline   []kafka.DirID       `json:"offline_dirs,omitempty"`
	Cordoned  []kafka.DirID       `json:"cordoned_dirs,omitempty"`
	Leaving   bool                `json:"leaving,omitempty"`
	Features  map[string][2]int16 `json:"features,omitempty"`
}

type listenerValue struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Host     string `json:"host"`
	Port     int32  `json:"port"`
}

var brokerSchema = schemaOf[brokerValue](1)

func (*brokerValue) schema() *schema { return brokerSchema }

// Encode gives the value to store.
func (b *Broker) Encode() []byte {
	v := brokerValue{
		Version: brokerSchema.version, StartID: b.StartID, Listeners: []listenerValue{}, Rack: b.Rack,
		Dirs: b.Dirs, Offline: b.Offline, Cordoned: b.Cordoned, Leaving: b.Leaving, Features: b.Features,
	}
	for _, l := range b.Listeners {
		v.Listeners = append(v.Listeners, listenerValue(l))
	}
	return encode(&v, b.extra)
}

// DecodeBroker reads a registration as a transaction's answer holds it.
func DecodeBroker(id kafka.NodeID, e kv.KV) (*Broker, error) {
	var v brokerValue
	x, err := decode(e.Value, &v)
	if err != nil {
		return nil, err
	}
	if v.StartID == "" || len(v.Dirs) == 0 {
		return nil, errors.New("a registration has a start_id and at least one directory")
	}
	b := &Broker{
		ID: id, Epoch: e.CreateRev, ModRev: e.ModRev, Lease: e.Lease,
		StartID: v.StartID, Rack: v.Rack, Dirs: v.Dirs, Offline: noEmpty(v.Offline), Cordoned: noEmpty(v.Cordoned),
		Leaving: v.Leaving, Features: v.Features, extra: x,
	}
	if len(b.Features) == 0 {
		b.Features = nil
	}
	for _, l := range v.Listeners {
		b.Listeners = append(b.Listeners, Listener(l))
	}
	return b, nil
}

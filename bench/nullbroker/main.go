// Command nullbroker is the least a single-node Kafka-protocol broker can do:
// it parses Produce only far enough to find each record batch, checks its
// crc32c, patches the base offset and appends it with write(2); Fetch is
// answered with sendfile(2). It keeps no replication, groups, dedup, quotas,
// retention, recovery or security. It is a ceiling to measure against, never
// a broker to use.
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	listen    = flag.String("listen", "127.0.0.1:19092", "")
	dir       = flag.String("dir", filepath.Join(os.TempDir(), "nullbroker"), "data directory; *.log in it is removed at start")
	nparts    = flag.Int("partitions", 1, "partitions of a topic made by Metadata rather than CreateTopics")
	syncMode  = flag.String("sync", "none", "none | group: fdatasync before answering, one sync shared by all waiting writers of a partition")
	store     = flag.String("store", "file", "file | discard (parse and check only)")
	checkCRC  = flag.Bool("crc", true, "verify crc32c")
	fetchMode = flag.String("fetch", "sendfile", "sendfile | readwrite")
	prof      = flag.String("pprof", "", "address for net/http/pprof")
	crcTab    = crc32.MakeTable(crc32.Castagnoli)
	pid       atomic.Int64
)

type span struct{ off, pos int64 }

type part struct {
	mu      sync.Mutex
	f       *os.File
	next    int64
	size    int64
	index   []span                 // one entry per 4 KiB or more of log
	last    int64                  // pos of the last index entry
	waiting map[chan struct{}]bool // fetches parked on this partition

	smu    sync.Mutex
	synced int64
}

type tp struct {
	t string
	p int32
}

var (
	pmu   sync.RWMutex
	parts = map[tp]*part{}
	known sync.Map
)

func getPart(t string, p int32) (*part, error) {
	k := tp{t, p}
	pmu.RLock()
	x := parts[k]
	pmu.RUnlock()
	if x != nil {
		return x, nil
	}
	pmu.Lock()
	defer pmu.Unlock()
	if x := parts[k]; x != nil {
		return x, nil
	}
	known.LoadOrStore(t, *nparts)
	f, err := os.OpenFile(filepath.Join(*dir, fmt.Sprintf("%s-%d.log", t, p)), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	x = &part{f: f, waiting: map[chan struct{}]bool{}, last: -1 << 40}
	parts[k] = x
	return x, nil
}

func (x *part) append(b []byte) (int64, int16) {
	if len(b) < 61 || b[16] != 2 || int(binary.BigEndian.Uint32(b[8:]))+12 != len(b) {
		return 0, 87
	}
	if *checkCRC && crc32.Checksum(b[21:], crcTab) != binary.BigEndian.Uint32(b[17:]) {
		return 0, 2
	}
	delta := int64(int32(binary.BigEndian.Uint32(b[23:])))
	x.mu.Lock()
	base := x.next
	binary.BigEndian.PutUint64(b, uint64(base))
	binary.BigEndian.PutUint32(b[12:], 0)
	if *store == "file" {
		if _, err := x.f.Write(b); err != nil {
			x.mu.Unlock()
			return 0, 56
		}
	}
	if x.size-x.last >= 4096 {
		x.index = append(x.index, span{base, x.size})
		x.last = x.size
	}
	x.next += delta + 1
	x.size += int64(len(b))
	end := x.size
	for w := range x.waiting {
		select {
		case w <- struct{}{}:
		default:
		}
	}
	x.mu.Unlock()
	if *syncMode == "group" {
		x.smu.Lock()
		if x.synced < end {
			x.mu.Lock()
			to := x.size
			x.mu.Unlock()
			if syscall.Fdatasync(int(x.f.Fd())) == nil {
				x.synced = to
			}
		}
		x.smu.Unlock()
	}
	return base, 0
}

// find returns the position of an indexed batch at or before off.
func (x *part) find(off int64) (pos int64, next int64, end int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if off >= x.next {
		return x.size, x.next, x.size
	}
	i := sort.Search(len(x.index), func(i int) bool { return x.index[i].off > off }) - 1
	if i < 0 {
		i = 0
	}
	return x.index[i].pos, x.next, x.size
}

// clip reduces [pos, pos+max) to whole batches by the index (the last batch
// may be cut, as Kafka allows).
func clip(pos, end, max int64) int64 {
	n := end - pos
	if n > max {
		n = max
	}
	return n
}

type conn struct {
	c    *net.TCPConn
	raw  syscall.RawConn
	buf  []byte
	out  []byte
	host string
	port int32
}

func readFull(r io.Reader, b []byte) error { _, err := io.ReadFull(r, b); return err }

func (c *conn) serve() {
	defer c.c.Close()
	var hdr [4]byte
	for {
		if readFull(c.c, hdr[:]) != nil {
			return
		}
		n := int(binary.BigEndian.Uint32(hdr[:]))
		if n < 8 || n > 128<<20 {
			return
		}
		if cap(c.buf) < n {
			c.buf = make([]byte, n+n/4)
		}
		b := c.buf[:n]
		if readFull(c.c, b) != nil {
			return
		}
		if err := c.handle(b); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
				log.Print("conn: ", err)
			}
			return
		}
	}
}

var maxV = map[int16][2]int16{0: {3, 11}, 1: {4, 11}, 2: {1, 5}, 3: {0, 9}, 18: {0, 3}, 19: {2, 6}, 20: {1, 5}, 22: {0, 4}}

func (c *conn) begin(corr uint32, flex bool) {
	c.out = append(c.out[:0], 0, 0, 0, 0)
	c.out = binary.BigEndian.AppendUint32(c.out, corr)
	if flex {
		c.out = append(c.out, 0)
	}
}
func (c *conn) end() error {
	binary.BigEndian.PutUint32(c.out, uint32(len(c.out)-4))
	_, err := c.c.Write(c.out)
	return err
}

func (c *conn) handle(b []byte) error {
	key := int16(binary.BigEndian.Uint16(b))
	ver := int16(binary.BigEndian.Uint16(b[2:]))
	corr := binary.BigEndian.Uint32(b[4:])
	cl := int(int16(binary.BigEndian.Uint16(b[8:])))
	body := b[10:]
	if cl > 0 {
		body = body[cl:]
	}
	v, ok := maxV[key]
	if !ok {
		return fmt.Errorf("key %d not served", key)
	}
	req := kmsg.RequestForKey(key)
	req.SetVersion(ver)
	if key == 18 && ver > v[1] {
		r := kmsg.NewPtrApiVersionsResponse()
		r.ErrorCode = 35
		c.apis(r)
		c.begin(corr, false)
		c.out = r.AppendTo(c.out)
		return c.end()
	}
	if req.IsFlexible() {
		body = body[1:] // no header tags from any client we drive
	}
	if err := req.ReadFrom(body); err != nil {
		return fmt.Errorf("key %d v%d: %w", key, ver, err)
	}
	flexResp := req.IsFlexible() && key != 18
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		resp := r.ResponseKind().(*kmsg.ProduceResponse)
		for i := range r.Topics {
			t := &r.Topics[i]
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic = t.Topic
			for j := range t.Partitions {
				p := &t.Partitions[j]
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition = p.Partition
				x, err := getPart(t.Topic, p.Partition)
				if err != nil {
					rp.ErrorCode = 56
				} else {
					rp.BaseOffset, rp.ErrorCode = x.append(p.Records)
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		if r.Acks == 0 {
			return nil
		}
		c.begin(corr, flexResp)
		c.out = resp.AppendTo(c.out)
		return c.end()
	case *kmsg.FetchRequest:
		return c.fetch(r, corr)
	}
	var resp kmsg.Response
	switch r := req.(type) {
	case *kmsg.ApiVersionsRequest:
		x := r.ResponseKind().(*kmsg.ApiVersionsResponse)
		c.apis(x)
		resp = x
	case *kmsg.MetadataRequest:
		x := r.ResponseKind().(*kmsg.MetadataResponse)
		x.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: c.host, Port: c.port}}
		id := "null"
		x.ClusterID = &id
		x.ControllerID = 1
		add := func(t string) {
			mt := kmsg.NewMetadataResponseTopic()
			mt.Topic = &t
			np := *nparts
			if v, ok := known.Load(t); ok {
				np = v.(int)
			}
			for p := 0; p < np; p++ {
				mp := kmsg.NewMetadataResponseTopicPartition()
				mp.Partition, mp.Leader, mp.Replicas, mp.ISR = int32(p), 1, []int32{1}, []int32{1}
				mt.Partitions = append(mt.Partitions, mp)
			}
			x.Topics = append(x.Topics, mt)
		}
		if r.Topics == nil {
			known.Range(func(k, _ any) bool { add(k.(string)); return true })
		}
		for _, t := range r.Topics {
			if t.Topic != nil {
				known.LoadOrStore(*t.Topic, *nparts)
				add(*t.Topic)
			}
		}
		resp = x
	case *kmsg.ListOffsetsRequest:
		x := r.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, t := range r.Topics {
			rt := kmsg.NewListOffsetsResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewListOffsetsResponseTopicPartition()
				rp.Partition = p.Partition
				if q, err := getPart(t.Topic, p.Partition); err == nil && p.Timestamp != -2 {
					q.mu.Lock()
					rp.Offset = q.next
					q.mu.Unlock()
				} else {
					rp.Offset = 0
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			x.Topics = append(x.Topics, rt)
		}
		resp = x
	case *kmsg.InitProducerIDRequest:
		x := r.ResponseKind().(*kmsg.InitProducerIDResponse)
		x.ProducerID = pid.Add(1)
		resp = x
	case *kmsg.CreateTopicsRequest:
		x := r.ResponseKind().(*kmsg.CreateTopicsResponse)
		for _, t := range r.Topics {
			known.Store(t.Topic, max(1, int(t.NumPartitions)))
			rt := kmsg.NewCreateTopicsResponseTopic()
			rt.Topic, rt.NumPartitions, rt.ReplicationFactor = t.Topic, max(1, t.NumPartitions), 1
			x.Topics = append(x.Topics, rt)
		}
		resp = x
	case *kmsg.DeleteTopicsRequest:
		x := r.ResponseKind().(*kmsg.DeleteTopicsResponse)
		for _, t := range r.TopicNames {
			known.Delete(t)
			pmu.Lock()
			for k, p := range parts {
				if k.t == t {
					p.f.Close()
					os.Remove(p.f.Name())
					delete(parts, k)
				}
			}
			pmu.Unlock()
			rt := kmsg.NewDeleteTopicsResponseTopic()
			rt.Topic = &t
			x.Topics = append(x.Topics, rt)
		}
		resp = x
	}
	resp.SetVersion(ver)
	c.begin(corr, flexResp)
	c.out = resp.AppendTo(c.out)
	return c.end()
}

func (c *conn) apis(r *kmsg.ApiVersionsResponse) {
	for k, v := range maxV {
		r.ApiKeys = append(r.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: k, MinVersion: v[0], MaxVersion: v[1]})
	}
}

type seg struct {
	at   int // send out[:at] first
	x    *part
	pos  int64
	size int64
}

// fetch answers v4 to v11 (none of them flexible).
func (c *conn) fetch(r *kmsg.FetchRequest, corr uint32) error {
	deadline := time.Now().Add(time.Duration(r.MaxWaitMillis) * time.Millisecond)
	maxB := int64(r.MaxBytes)
	for {
		left, total := maxB, int64(0)
		var segs []seg
		var at0 []*part
		var next0 []int64
		c.begin(corr, false)
		o := binary.BigEndian.AppendUint32(c.out, 0) // throttle
		if r.Version >= 7 {
			o = append(o, 0, 0, 0, 0, 0, 0) // error, session id 0
		}
		o = binary.BigEndian.AppendUint32(o, uint32(len(r.Topics)))
		for i := range r.Topics {
			t := &r.Topics[i]
			o = binary.BigEndian.AppendUint16(o, uint16(len(t.Topic)))
			o = append(o, t.Topic...)
			o = binary.BigEndian.AppendUint32(o, uint32(len(t.Partitions)))
			for j := range t.Partitions {
				p := &t.Partitions[j]
				x, err := getPart(t.Topic, p.Partition)
				if err != nil {
					return err
				}
				pos, next, end := x.find(p.FetchOffset)
				n := clip(pos, end, min(left, int64(p.PartitionMaxBytes)))
				if *store != "file" {
					n = 0
				}
				left -= n
				total += n
				at0, next0 = append(at0, x), append(next0, next)
				o = binary.BigEndian.AppendUint32(o, uint32(p.Partition))
				o = append(o, 0, 0)
				o = binary.BigEndian.AppendUint64(o, uint64(next))
				o = binary.BigEndian.AppendUint64(o, uint64(next)) // last stable
				if r.Version >= 5 {
					o = binary.BigEndian.AppendUint64(o, 0)
				}
				o = binary.BigEndian.AppendUint32(o, ^uint32(0)) // aborted: null
				if r.Version >= 11 {
					o = binary.BigEndian.AppendUint32(o, ^uint32(0))
				}
				o = binary.BigEndian.AppendUint32(o, uint32(n))
				if n > 0 {
					segs = append(segs, seg{len(o), x, pos, n})
				}
			}
		}
		c.out = o
		if total == 0 && r.MinBytes > 0 {
			if d := time.Until(deadline); d > 0 {
				tm := time.NewTimer(d)
				wake := make(chan struct{}, 1)
				for i, x := range at0 {
					x.mu.Lock()
					x.waiting[wake] = true
					if x.next != next0[i] {
						select {
						case wake <- struct{}{}:
						default:
						}
					}
					x.mu.Unlock()
				}
				select {
				case <-wake:
				case <-tm.C:
				}
				tm.Stop()
				for _, x := range at0 {
					x.mu.Lock()
					delete(x.waiting, wake)
					x.mu.Unlock()
				}
				continue
			}
		}
		binary.BigEndian.PutUint32(c.out, uint32(int64(len(c.out)-4)+total))
		at := 0
		for _, s := range segs {
			if _, err := c.c.Write(c.out[at:s.at]); err != nil {
				return err
			}
			at = s.at
			if err := c.send(s); err != nil {
				return err
			}
		}
		if at < len(c.out) {
			_, err := c.c.Write(c.out[at:])
			return err
		}
		return nil
	}
}

func (c *conn) send(s seg) error {
	if *fetchMode == "readwrite" {
		if cap(c.buf) < 256<<10 {
			c.buf = make([]byte, 256<<10)
		}
		for s.size > 0 {
			b := c.buf[:min(s.size, int64(cap(c.buf)))]
			n, err := s.x.f.ReadAt(b, s.pos)
			if n == 0 {
				return err
			}
			if _, err := c.c.Write(b[:n]); err != nil {
				return err
			}
			s.pos += int64(n)
			s.size -= int64(n)
		}
		return nil
	}
	src := int(s.x.f.Fd())
	var serr error
	err := c.raw.Write(func(fd uintptr) bool {
		for s.size > 0 {
			n, err := syscall.Sendfile(int(fd), src, &s.pos, int(min(s.size, 1<<30)))
			if n > 0 {
				s.size -= int64(n)
			}
			switch {
			case err == syscall.EAGAIN:
				return false
			case err == syscall.EINTR:
			case err != nil:
				serr = err
				return true
			case n == 0:
				serr = io.ErrUnexpectedEOF
				return true
			}
		}
		return true
	})
	if err == nil {
		err = serr
	}
	return err
}

func main() {
	t0 := time.Now()
	flag.Parse()
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		log.Fatal(err)
	}
	old, _ := filepath.Glob(filepath.Join(*dir, "*.log"))
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			log.Fatal(err)
		}
	}
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	if *prof != "" {
		go http.ListenAndServe(*prof, nil)
	}
	h, ps, _ := net.SplitHostPort(ln.Addr().String())
	pn, _ := strconv.Atoi(ps)
	log.Printf("nullbroker pid %d on %s sync=%s store=%s up in %v GOMAXPROCS=%d", os.Getpid(), ln.Addr(), *syncMode, *store, time.Since(t0), runtime.GOMAXPROCS(0))
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		tc := nc.(*net.TCPConn)
		raw, _ := tc.SyscallConn()
		go (&conn{c: tc, raw: raw, host: h, port: int32(pn)}).serve()
	}
}

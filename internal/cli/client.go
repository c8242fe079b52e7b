package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/magiconair/properties"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const defaultBootstrap = "127.0.0.1:9092"

// reachTimeout bounds how long a command tries to find a broker.
const reachTimeout = 10 * time.Second

// client makes Kafka clients from the flags that all commands share.
type client struct {
	app        App
	bootstrap  string
	properties string
}

func (cl *client) flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVarP(&cl.bootstrap, "bootstrap", "b", "", "brokers to ask first, host:port separated by commas (default BARNABAS_BOOTSTRAP, else "+defaultBootstrap+")")
	f.StringVar(&cl.properties, "config", "", "file with client properties in Kafka's format")
}

// seeds are the brokers to ask first: the flag, the file, the environment, the default.
func (cl *client) seeds(p map[string]string) ([]string, error) {
	list := cl.bootstrap
	for _, next := range []string{p["bootstrap.servers"], cl.app.env("BARNABAS_BOOTSTRAP"), defaultBootstrap} {
		if list == "" {
			list = next
		}
	}
	var out []string
	for s := range strings.SplitSeq(list, ",") {
		s = strings.TrimSpace(s)
		if s == "" {
			continue
		}
		if _, port, err := net.SplitHostPort(s); err != nil {
			s = net.JoinHostPort(strings.Trim(s, "[]"), "9092")
		} else if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, usagef("the port of the broker %s must be a number from 1 to 65535", s)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, usagef("--bootstrap names no broker")
	}
	return out, nil
}

// read loads the client properties, if any.
func (cl *client) read() (map[string]string, error) {
	if cl.properties == "" {
		return nil, nil
	}
	text, err := os.ReadFile(cl.properties)
	if err != nil {
		return nil, usagef("--config: %w", err)
	}
	l := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := l.LoadBytes(text)
	if err != nil {
		return nil, usagef("--config %s: %w", cl.properties, err)
	}
	return p.Map(), nil
}

// open connects: it returns a client that has reached a broker. Options of the
// caller win over those of the properties file.
func (cl *client) open(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	p, err := cl.read()
	if err != nil {
		return nil, err
	}
	seeds, err := cl.seeds(p)
	if err != nil {
		return nil, err
	}
	all := []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.ClientID("barnabas"), kgo.SoftwareNameAndVersion("barnabas", softwareVersion(cl.app.Version)),
		kgo.DisableClientMetrics(), kgo.DialTimeout(reachTimeout / 2)}
	fromFile, warnings, err := clientOptions(p)
	if err != nil {
		return nil, usagef("--config %s: %w", cl.properties, err)
	}
	for _, w := range warnings {
		_, _ = fmt.Fprintf(cl.app.Err, "barnabas: %s: %s\n", cl.properties, w)
	}
	all = append(all, fromFile...)
	all = append(all, cl.app.Dial...)
	c, err := kgo.NewClient(append(all, opts...)...)
	if err != nil {
		return nil, usageError{err}
	}
	pctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if err := c.Ping(pctx); err != nil {
		c.Close()
		return nil, unreachable(seeds, err)
	}
	return c, nil
}

// admin is open for the admin requests.
func (cl *client) admin(ctx context.Context) (*kadm.Client, error) {
	c, err := cl.open(ctx)
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(c), nil
}

// answers tells whether every broker answers a request, of the version that it
// has or a later one: one that does not advertise it would close the connection.
func answers(ctx context.Context, adm *kadm.Client, r kmsg.Request) (bool, error) {
	all, err := adm.ApiVersions(ctx)
	if err != nil {
		return false, err
	}
	var away error
	reached := false
	for _, b := range all {
		if b.Err != nil {
			away = b.Err
			continue
		}
		reached = true
		if last, ok := b.KeyMaxVersion(r.Key()); !ok || last < r.GetVersion() {
			return false, nil
		}
	}
	if !reached {
		return false, away
	}
	return true, nil
}

// needs refuses where a broker does not answer a request.
func needs(ctx context.Context, adm *kadm.Client, r kmsg.Request) error {
	ok, err := answers(ctx, adm, r)
	if err == nil && !ok {
		err = fmt.Errorf("the broker does not know the request %s: it is too old for this command", kmsg.NameForKey(r.Key()))
	}
	return err
}

// unreachable says what to do about a broker that does not answer.
func unreachable(seeds []string, err error) error {
	at := strings.Join(seeds, ", ")
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no broker listens at %s: start one with `barnabas serve`, or name another with -b", at)
	case errors.As(err, &dns):
		return fmt.Errorf("the name in %s is not known (%s): name another broker with -b", at, dns.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no broker answered at %s within %v: check the address and the network, or name another with -b", at, reachTimeout)
	}
	return fmt.Errorf("no Kafka broker at %s: %w", at, err)
}

// softwareVersion fits what ApiVersions takes (KIP-511).
func softwareVersion(v string) string {
	v = strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, v)
	if v = strings.Trim(v, ".-"); v == "" {
		return "dev"
	}
	return v
}

// property turns the value of one client property into an option; nil means
// that there is nothing to set.
type property func(v string) (kgo.Opt, error)

func number(make func(n int64) kgo.Opt) property {
	return func(v string) (kgo.Opt, error) {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 0 {
			return nil, errors.New("it must be a whole number from 0 to 2147483647")
		}
		return make(n), nil
	}
}

func millis(make func(d time.Duration) kgo.Opt) property {
	return number(func(n int64) kgo.Opt { return make(time.Duration(n) * time.Millisecond) })
}

// clientProperties are the keys of Kafka's clients that mean something here.
// The commands take bootstrap.servers, acks and compression.type themselves.
var clientProperties = map[string]property{
	"bootstrap.servers": func(string) (kgo.Opt, error) { return nil, nil },
	"acks":              func(v string) (kgo.Opt, error) { _, err := parseAcks(v); return nil, err },
	"compression.type":  func(v string) (kgo.Opt, error) { _, err := parseCodec(v); return nil, err },
	"client.id":         func(v string) (kgo.Opt, error) { return kgo.ClientID(v), nil },
	"client.rack":       func(v string) (kgo.Opt, error) { return kgo.Rack(v), nil },
	"security.protocol": func(v string) (kgo.Opt, error) {
		if strings.EqualFold(v, "PLAINTEXT") {
			return nil, nil
		}
		return nil, errors.New("this version speaks PLAINTEXT only")
	},
	"isolation.level": func(v string) (kgo.Opt, error) {
		switch v {
		case "read_committed":
			return kgo.FetchIsolationLevel(kgo.ReadCommitted()), nil
		case "read_uncommitted":
			return kgo.FetchIsolationLevel(kgo.ReadUncommitted()), nil
		}
		return nil, errors.New("it must be read_committed or read_uncommitted")
	},
	"linger.ms":                 millis(func(d time.Duration) kgo.Opt { return kgo.ProducerLinger(d) }),
	"batch.size":                number(func(n int64) kgo.Opt { return kgo.ProducerBatchMaxBytes(int32(n)) }),
	"delivery.timeout.ms":       millis(func(d time.Duration) kgo.Opt { return kgo.RecordDeliveryTimeout(d) }),
	"request.timeout.ms":        millis(func(d time.Duration) kgo.Opt { return kgo.ProduceRequestTimeout(d) }),
	"metadata.max.age.ms":       millis(func(d time.Duration) kgo.Opt { return kgo.MetadataMaxAge(d) }),
	"connections.max.idle.ms":   millis(func(d time.Duration) kgo.Opt { return kgo.ConnIdleTimeout(d) }),
	"fetch.min.bytes":           number(func(n int64) kgo.Opt { return kgo.FetchMinBytes(int32(n)) }),
	"fetch.max.bytes":           number(func(n int64) kgo.Opt { return kgo.FetchMaxBytes(int32(n)) }),
	"fetch.max.wait.ms":         millis(func(d time.Duration) kgo.Opt { return kgo.FetchMaxWait(d) }),
	"max.partition.fetch.bytes": number(func(n int64) kgo.Opt { return kgo.FetchMaxPartitionBytes(int32(n)) }),
}

// clientOptions turns a properties file into options; keys that mean nothing here are warnings.
func clientOptions(p map[string]string) (opts []kgo.Opt, warnings []string, err error) {
	keys := make([]string, 0, len(p))
	for k := range p {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		make, ok := clientProperties[k]
		if !ok {
			warnings = append(warnings, k+" is ignored")
			continue
		}
		o, err := make(strings.TrimSpace(p[k]))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: the value %q is not allowed: %w", k, p[k], err)
		}
		if o != nil {
			opts = append(opts, o)
		}
	}
	return opts, warnings, nil
}

// orProperty gives a flag the value of a client property when it was not set.
func (cl *client) orProperty(f *pflag.FlagSet, flag, key string) error {
	if f.Changed(flag) {
		return nil
	}
	p, err := cl.read()
	if v := p[key]; err == nil && v != "" {
		err = f.Set(flag, v)
	}
	return err
}

// Package lint holds the rules of the house as tests: which package may import
// which, which packages are pure, and how tidy a file must be. It is run by
// `make check` and imported by nobody.
//
// Changing a table here is a design decision: say so in the first line of the
// commit, and keep ARCHITECTURE.md in step.
package lint

// Module is the path of the module that the rules apply to.
const Module = "github.com/barnabas-mq/barnabas"

// A Row is one package of the house. A package may import packages of lower
// floors, and packages that stand before it on its own floor.
type Row struct {
	Floor   int
	Package string // path below internal/, or from the module root with a leading "/"
	Purpose string
	// Pure packages decide: no clock, goroutine, lock, file, socket or chance.
	Pure bool
	// TestSupport packages may be imported by any test above their floor or on
	// it, whatever the order; product code follows the usual rule.
	TestSupport bool
}

// Floors is the house from the ground up. A row may stand here before its
// package exists; a package may not exist without its row.
var Floors = []Row{
	{0, "kafka", "the words: identifiers and their strings", false, false},
	{0, "invariant", "assertions that cost nothing in production", false, false},
	{0, "life", "start and stop of components", false, false},
	{0, "levels", "how much is logged, by part", false, false},
	{0, "config", "the one table of configuration keys", false, false},
	{0, "vfs", "the file system, real and in memory", false, false},
	{0, "loop", "keyed serial executor", false, false},
	{0, "await", "waiters on an offset or a byte count", false, false},
	{0, "batch", "record batch v2 as a view over bytes", false, false},
	{0, "wire", "frames, headers and error codes", false, false},
	{0, "check", "a history of clients to what is wrong with it", true, false},

	{1, "storage/checkpoint", "small files of a log directory: checkpoints, marks, properties", false, false},
	{1, "storage/segment", "one segment and its indexes", false, false},
	{1, "storage/epochs", "leader epochs of a log", false, false},
	{1, "storage/producers", "producer state and its snapshots", false, false},

	{2, "storage", "the log and its manager", false, false},

	{3, "storage/compact", "the cleaner", false, false},
	{3, "tier/object", "object stores", false, false},

	{4, "tier", "remote segments", false, false},

	{5, "meta/kv", "keys and values of the cluster's state", true, false},
	{5, "meta", "the cluster's state as an immutable image", true, false},
	{5, "meta/plan", "a wish and an image to one transaction", true, false},
	{5, "meta/metatest", "a store and scripts for tests of pure packages", false, true},

	{6, "metastore", "the interface of the metadata engine, and its form in memory", false, false},
	{6, "metastore/storetest", "the conformance suite of metadata engines", false, true},
	{6, "auth", "who speaks", false, false},
	{6, "auth/sasl", "SASL mechanisms", false, false},
	{6, "auth/tlsconf", "TLS configuration", false, false},
	{6, "auth/acl", "who may do what", true, false},
	{6, "replica/isr", "follower positions to a high watermark", true, false},
	{6, "quota", "how many bytes, how long to wait", true, false},
	{6, "telemetry", "who is asked for client metrics, and whose are taken", true, false},

	{7, "metastore/etcdstore", "the metadata engine on etcd", false, false},
	{7, "controller", "an image to the transactions that it asks for", true, false},
	{7, "replica", "a partition's role around its log", false, false},
	{7, "coord", "the runtime of log-backed machines", false, false},
	{7, "telemetry/otlp", "pushed client metrics, opened and shown", false, false},

	{8, "replica/fetcher", "followers that pull", false, false},
	{8, "group/assign", "assignors", true, false},
	{8, "group", "consumer groups", true, false},
	{8, "group/share", "share groups", true, false},
	{8, "txn", "transactions", true, false},
	{8, "registry", "schemas", true, false},

	{9, "server", "listeners, connections and the table of handlers", false, false},

	{10, "api", "one file per request", false, false},
	{10, "rest", "the HTTP interface", false, false},
	{10, "registry/httpapi", "the schema registry over HTTP", false, false},
	{10, "console", "the web console", false, false},
	{10, "admin", "health, metrics and profiles over HTTP", false, false},

	{11, "/broker", "configuration in, wired parts out", false, false},

	{12, "/brokertest", "brokers inside a test", false, true},
	{12, "check/record", "clients that write down what they did and saw", false, true},
	{12, "cli", "the command line", false, false},

	{13, "sim", "seeded histories and their checker", false, false},
	{13, "/cmd/barnabas", "main", false, false},
}

// unhoused packages stand beside the house: nothing imports them.
var unhoused = map[string]string{
	Module + "/internal/lint":   "the rules themselves",
	Module + "/interop":         "tests that run whole programs, under a build tag",
	Module + "/interop/check":   "judges histories in files",
	Module + "/interop/record":  "the recording clients as a program",
	Module + "/interop/compare": "the same requests to two brokers",
	Module + "/packaging/dist":  "makes the release archives",
}

// path is the import path of a row's package.
func (r Row) path() string {
	if r.Package[0] == '/' {
		return Module + r.Package
	}
	return Module + "/internal/" + r.Package
}

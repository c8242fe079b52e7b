// Command apachekafka runs one broker of Apache Kafka 4.4.0 to compare with,
// alone or, by -node and -voters, as one of several. It fetches the jars on first use, formats the directory when it is new, and then
// becomes the broker: its process id is the one to measure and to signal.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

//go:embed pom.xml
var pom []byte

// The options that Apache Kafka's own start script gives the JVM, beside the heap.
const ownOptions = "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true"

var (
	listen  = flag.String("listen", "127.0.0.1:19092", "")
	dir     = flag.String("dir", filepath.Join(os.TempDir(), "apachekafka"), "data directory; what is in it is served again")
	durable = flag.Bool("durable", false, "sync every append before it is answered")
	jvm     = flag.String("jvm", ownOptions, "options of the JVM")
	heap    = flag.String("heap", "1G", "its heap; the default is the start script's")
	node    = flag.Int("node", 1, "node.id")
	voters  = flag.String("voters", "", "controller.quorum.voters of a cluster, such as 1@127.0.0.1:19193,2@...; empty: alone")
)

type settings []string

func (s *settings) String() string     { return strings.Join(*s, " ") }
func (s *settings) Set(v string) error { *s = append(*s, v); return nil }

func main() {
	var set settings
	flag.Var(&set, "set", "key=value of the broker; may be repeated")
	log.SetFlags(0)
	log.SetPrefix("apachekafka: ")
	flag.Parse()
	if err := run(set); err != nil {
		log.Fatal(err)
	}
}

func run(set settings) error {
	java, err := exec.LookPath("java")
	if err != nil {
		return err
	}
	libs, err := jars()
	if err != nil {
		return err
	}
	home, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	if err := os.Chdir(home); err != nil { // it writes its own logs where it stands
		return err
	}
	if err := configure(set); err != nil {
		return err
	}
	path := filepath.Join(libs, "*")
	if _, err := os.Stat("data/meta.properties"); err != nil {
		out, err := exec.Command(java, "-cp", path, "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", "server.properties").CombinedOutput()
		if err != nil {
			return fmt.Errorf("format: %w\n%s", err, out)
		}
	}
	args := append([]string{"java", "-Xmx" + *heap, "-Xms" + *heap}, strings.Fields(*jvm)...)
	return syscall.Exec(java, append(args, "-cp", path, "kafka.Kafka", "server.properties"), os.Environ())
}

// controller is this node's address for the others' controllers. One that
// another start chose stays, because the directory remembers its voters.
func controller() (string, error) {
	for v := range strings.SplitSeq(*voters, ",") {
		if addr, ok := strings.CutPrefix(v, fmt.Sprintf("%d@", *node)); ok {
			return addr, nil
		}
	}
	if *voters != "" {
		return "", fmt.Errorf("node %d is not among the voters %s", *node, *voters)
	}
	const controllerFile = "controller.address"
	if addr, err := os.ReadFile(controllerFile); err == nil {
		return string(addr), nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr := l.Addr().String()
	_ = l.Close()
	return addr, os.WriteFile(controllerFile, []byte(addr), 0o644)
}

// configure writes server.properties.
func configure(set settings) error {
	own, err := controller()
	if err != nil {
		return err
	}
	all := *voters
	if all == "" {
		all = fmt.Sprintf("%d@%s", *node, own)
	}
	replicas := min(3, strings.Count(all, "@"))
	text := fmt.Sprintf(`process.roles=broker,controller
node.id=%[3]d
controller.quorum.voters=%[4]s
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=data
offsets.topic.num.partitions=50
offsets.topic.replication.factor=%[5]d
transaction.state.log.replication.factor=%[5]d
transaction.state.log.min.isr=%[6]d
share.coordinator.state.topic.replication.factor=%[5]d
share.coordinator.state.topic.min.isr=%[6]d
`, *listen, own, *node, all, replicas, max(1, replicas-1))
	if *durable { // the offsets topic has no setting of its own for this
		text += "log.flush.interval.messages=1\n"
	}
	for _, s := range set {
		text += s + "\n"
	}
	return os.WriteFile("server.properties", []byte(text), 0o644)
}

// jars is the directory of Apache Kafka's jars. It shares the cache and the
// variables of the project's interoperability tests.
func jars() (string, error) {
	if libs := os.Getenv("INTEROP_KAFKA_LIBS"); libs != "" {
		return libs, nil
	}
	cache := os.Getenv("INTEROP_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			user = os.TempDir() // no home
		}
		cache = filepath.Join(user, "barnabas-interop")
	}
	libs := filepath.Join(cache, "kafka-4.4.0")
	if found, _ := filepath.Glob(filepath.Join(libs, "kafka-tools-*.jar")); len(found) > 0 {
		return libs, nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", err
	}
	build, err := os.MkdirTemp("", "apachekafka-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(build)
	file := filepath.Join(build, "pom.xml")
	if err := os.WriteFile(file, pom, 0o644); err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	part := libs + ".part"
	out, err := exec.Command(mvn, "-q", "-B", "-f", file, "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+part).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("mvn: %w\n%s", err, out)
	}
	return libs, os.Rename(part, libs)
}

package main

import "strings"

// measurement is one or more runs of bench and the goals that they serve.
type measurement struct {
	args    []string
	against []string // another load on the same broker, in the place of a reference
	durable bool     // records count once they are on disk, on both sides
	ref     reference
	starts  bool // the load starts and ends the broker itself; no reference
	cluster bool // three brokers in the place of one, and three of Apache Kafka
	smoke   bool // part of the short form
	goals   []goal
}

// reference is what a measurement compares with.
type reference int

const (
	nullBroker reference = iota
	kfake
	apacheKafka
	oneBarnabas // one broker, of a cluster
	none        // the figure itself is bounded
)

// goal is a bound on one figure.
type goal struct {
	name, what string
	key        string // of bench's figures
	op         string // ">=" or "<="; "seen" has no bound
	limit      float64
}

// seen is a figure that no document bounds.
const seen = "seen"

// noise is how far a small shared machine moves a figure by itself.
func (g goal) noise() float64 {
	switch {
	case strings.Contains(g.key, "p99"):
		return 0.4
	case strings.Contains(g.key, "MBps"), strings.Contains(g.key, "recps"):
		return 0.15
	}
	return 0.1
}

func load(s string) []string { return strings.Fields(s) }

// measurements are the goals of docs/performance.md that pairs can show.
var measurements = []measurement{
	{args: load("-mode rawproduce -batch 262144"), goals: []goal{
		{"P1", "produce, 256 KiB batches: MB/s", "MBps", ">=", 0.85},
		{"P2", "produce, 256 KiB batches: CPU a GB", "broker_cpu_s_per_GB", "<=", 1.20}}},
	{args: load("-mode rawproduce -batch 16384"), smoke: true, goals: []goal{
		{"P1", "produce, 16 KiB batches: MB/s", "MBps", ">=", 0.75},
		{"P2", "produce, 16 KiB batches: CPU a GB", "broker_cpu_s_per_GB", "<=", 1.40}}},
	{args: load("-mode rawproduce -batch 1100"), goals: []goal{
		{"P1", "produce, one 1 KiB record a request: MB/s", "MBps", ">=", 0.65}}},
	{args: load("-mode rawproduce -batch 16384 -clients 16 -parts 8"), goals: []goal{
		{"P3", "produce, 16 connections to 8 partitions: MB/s", "MBps", ">=", 0.75}}},
	{args: load("-mode rawproduce -batch 16384 -clients 16 -parts 64"), goals: []goal{
		{"P3", "produce, 16 connections to 64 partitions: MB/s", "MBps", ">=", 0.75}}},
	{args: load("-mode produce -linger 5ms"), goals: []goal{
		{"P4", "produce, franz-go, idempotent: MB/s", "MBps", ">=", 0.90}}},
	{args: load("-mode rawfetch -passes 3"), smoke: true, goals: []goal{
		{"P5", "fetch: MB/s", "MBps", ">=", 0.85},
		{"P5", "fetch: CPU a GB", "broker_cpu_s_per_GB", "<=", 1.30}}},
	{args: load("-mode e2e -rate 20000"), goals: []goal{
		{"P6", "20 000 records a second: acknowledged, p50", "ack_p50_ms", "<=", 1.2},
		{"P6", "20 000 records a second: acknowledged, p99", "ack_p99_ms", "<=", 1.5}}},
	{args: load("-mode rawlatency -rate 290000 -batch 16384 -clients 4"), goals: []goal{
		{"P7", "half of the peak: p99", "ack_p99_ms", "<=", 2}}},
	{args: load("-mode rawproduce -batch 16384"), durable: true, smoke: true, goals: []goal{
		{"P8", "durable produce, one connection: MB/s", "MBps", ">=", 1.0},
		{"P8", "durable produce, one connection: p50", "p50_ms", "<=", 1.2}}},
	{args: load("-mode rawproduce -batch 16384 -clients 16"), durable: true, goals: []goal{
		{"P8", "durable produce, sixteen connections: MB/s", "MBps", ">=", 1.2}}},
	{args: load("-mode produce -linger 5ms"), ref: kfake, goals: []goal{
		{"P11", "produce, franz-go, against kfake: MB/s", "MBps", ">=", 1}}},
	{args: load("-mode rawproduce -batch 16384"), ref: kfake, goals: []goal{
		{"P11", "produce, 16 KiB batches, against kfake: MB/s", "MBps", ">=", 1}}},
	{args: load("-mode fetch"), ref: kfake, goals: []goal{
		{"P11", "fetch, franz-go, against kfake: MB/s", "MBps", ">=", 1}}},
	{args: load("-mode produce -linger 5ms -comp lz4"), against: load("-mode produce -linger 5ms"), goals: []goal{
		{"P12", "lz4 against uncompressed: CPU a plain GB", "broker_cpu_s_per_GB", "<=", 0.6}}},
	{args: load("-mode produce -linger 5ms -comp zstd"), against: load("-mode produce -linger 5ms"), goals: []goal{
		{"P12", "zstd against uncompressed: CPU a plain GB", "broker_cpu_s_per_GB", "<=", 0.6}}},
	{args: load("-mode start -reps 1"), starts: true, smoke: true, goals: []goal{
		{"M1", "idle memory, empty: MiB", "rss_idle_MiB", "<=", 48},
		{"M3", "idle CPU: % of a core", "idle_cpu_pct", "<=", 0.5},
		{"S1", "exec to ready, empty directory: ms", "start_ms", "<=", 100},
		{"S3", "clean stop: ms", "stop_ms", "<=", 1000}}},
	{args: load("-mode crowd -reps 1 -parts 10000 -n 5000 -polls 1000 -d 60s"), starts: true, goals: []goal{
		{"M2", "5000 idle connections: KiB each", "KiB_per_conn", "<=", 12},
		{"M2", "10 000 idle partitions: KiB each", "KiB_per_partition", "<=", 12},
		{"M2", "10 000 idle partitions: descriptors each", "fds_per_partition", "<=", 1},
		{"M3", "10 000 partitions, 1000 long polls: % of a core", "idle_cpu_pct", "<=", 1.5},
		{"S1", "exec to all led, 10 000 partitions: ms", "ready_ms", "<=", 3000}}},
	{args: load("-mode crowd -reps 1 -parts 1000 -n 10 -polls 10 -d 1s"), starts: true, goals: []goal{
		{"S1", "exec to all led, 1000 partitions: ms", "ready_ms", "<=", 500},
		{"S3", "clean stop, 1000 partitions: ms", "stop_ms", "<=", 1000}}},
	{args: load("-mode neighbour -d 4s"), ref: none, goals: []goal{
		{"N1", "beside a connection flood: p99, times alone", "flood_x", "<=", 3},
		{"N1", "beside slow readers: p99, times alone", "readers_x", "<=", 3},
		{"N1", "beside slow writers: p99, times alone", "writers_x", "<=", 3}}},
	{args: load("-mode commits -warmup 60s -d 4s"), ref: apacheKafka, goals: []goal{
		{"G1", "one offset a commit, against Apache Kafka: a CPU-second", "commits_per_cpu_s", ">=", 2},
		{"G1", "one offset a commit, against Apache Kafka: p50", "p50_ms", "<=", 1},
		{"G1", "one offset a commit, against Apache Kafka: p99", "p99_ms", "<=", 1}}},
	{args: load("-mode commits -warmup 60s -d 4s -parts 10 -inflight 8"), ref: apacheKafka, goals: []goal{
		{"G1", "ten offsets, 8 in flight, Apache Kafka: a CPU-second", "commits_per_cpu_s", ">=", 2}}},
	{args: load("-mode commits -warmup 60s -d 4s"), ref: apacheKafka, durable: true, goals: []goal{
		{"G1", "durable, one offset, Apache Kafka: a CPU-second", "commits_per_cpu_s", ">=", 2},
		{"G1", "durable, one offset, Apache Kafka: p50", "p50_ms", "<=", 1}}},
	{args: load("-mode commits -warmup 60s -d 4s -parts 10 -inflight 8"), ref: apacheKafka, durable: true, goals: []goal{
		{"G1", "durable, ten offsets, 8 in flight: a CPU-second", "commits_per_cpu_s", ">=", 2}}},
	{args: load("-mode groups -d 60s -reps 1"), ref: none, goals: []goal{
		{"G2", "2000 groups of 5: groups that are not whole", "groups_not_stable", "<=", 0},
		{"G2", "2000 groups of 5: heartbeats that failed", "heartbeats_failed", "<=", 0},
		{"G2", "2000 groups of 5: rebalances for no reason", "rebalances_after_stable", "<=", 0}}},
	{args: load("-mode rebalance -protocol classic"), ref: none, goals: []goal{
		{"G3", "classic, 1000 members, one leaves: ms", "leave_ms", "<=", 2000},
		{"G3", "classic, 1000 members, one joins: ms", "join_ms", "<=", 2000}}},
	{args: load("-mode rebalance -protocol consumer"), ref: none, goals: []goal{
		{"G3", "consumer protocol, one of 1000 leaves: ms", "leave_ms", "<=", 2000},
		{"G3", "consumer protocol, one of 1000 joins: ms", "join_ms", "<=", 2000},
		{"G3", "consumer protocol, leave: interrupted members", "leave_interrupted", "<=", 0},
		{"G3", "consumer protocol, join: interrupted members", "join_interrupted", "<=", 0}}},
	{args: load("-mode reload -reps 1 -groups 10000 -parts 100"), starts: true, goals: []goal{
		{"G4", "kill -9, 10 000 groups of 100 offsets: all answer, ms", "loaded_ms", "<=", 3000},
		{"G4", "kill -9, 10 000 groups of 100 offsets: missing", "offsets_missing", "<=", 0},
		{"G4", "kill -9, 10 000 groups: wrong answers while loading", "answers_wrong_while_loading", "<=", 0}}},
	{args: load("-mode reload -reps 1 -groups 1000 -parts 1000"), starts: true, goals: []goal{
		{"G4", "kill -9, 1000 groups of 1000 offsets: all answer, ms", "loaded_ms", "<=", 3000},
		{"G4", "kill -9, 1000 groups of 1000 offsets: missing", "offsets_missing", "<=", 0}}},
}

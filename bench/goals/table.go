package main

import "strings"

// measurement is one or more runs of bench and the goals that they serve.
type measurement struct {
	args    []string
	against []string // another load on the same broker, in the place of a reference
	durable bool     // records count once they are on disk, on both sides
	kfake   bool     // the reference is kfake in the place of the null broker
	start   bool     // start, idle memory and idle CPU; no reference
	smoke   bool     // part of the short form
	goals   []goal
}

// goal is a bound on one figure.
type goal struct {
	name, what string
	key        string // of bench's figures
	op         string // ">=" or "<="
	limit      float64
}

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
		{"P7", "half of the peak: p99", "p99_ms", "<=", 2}}},
	{args: load("-mode rawproduce -batch 16384"), durable: true, smoke: true, goals: []goal{
		{"P8", "durable produce, one connection: MB/s", "MBps", ">=", 1.0},
		{"P8", "durable produce, one connection: p50", "p50_ms", "<=", 1.2}}},
	{args: load("-mode rawproduce -batch 16384 -clients 16"), durable: true, goals: []goal{
		{"P8", "durable produce, sixteen connections: MB/s", "MBps", ">=", 1.2}}},
	{args: load("-mode produce -linger 5ms"), kfake: true, goals: []goal{
		{"P11", "produce, franz-go, against kfake: MB/s", "MBps", ">=", 1}}},
	{args: load("-mode rawproduce -batch 16384"), kfake: true, goals: []goal{
		{"P11", "produce, 16 KiB batches, against kfake: MB/s", "MBps", ">=", 1}}},
	{args: load("-mode fetch"), kfake: true, goals: []goal{
		{"P11", "fetch, franz-go, against kfake: MB/s", "MBps", ">=", 1}}},
	{args: load("-mode produce -linger 5ms -comp lz4"), against: load("-mode produce -linger 5ms"), goals: []goal{
		{"P12", "lz4 against uncompressed: CPU a plain GB", "broker_cpu_s_per_GB", "<=", 0.6}}},
	{args: load("-mode produce -linger 5ms -comp zstd"), against: load("-mode produce -linger 5ms"), goals: []goal{
		{"P12", "zstd against uncompressed: CPU a plain GB", "broker_cpu_s_per_GB", "<=", 0.6}}},
	{start: true, smoke: true, goals: []goal{
		{"M1", "idle memory, empty: MiB", "rss_idle_MiB", "<=", 48},
		{"M3", "idle CPU: % of a core", "idle_cpu_pct", "<=", 0.5},
		{"S1", "exec to ready, empty directory: ms", "start_ms", "<=", 100},
		{"S3", "clean stop: ms", "stop_ms", "<=", 1000}}},
}

package main

// One connection and one partition for each broker that leads, and the same
// three connections and three partitions where one broker leads all.
const (
	onThree       = " -parts 3 -clients 3 -rf 3"
	onThreeAndOne = onThree + " -refrf 1"
)

// A JVM is at its full speed after some 50 seconds.
const kafkaWarm = " -warmup 60s"

// clusterMeasurements are three brokers against one (P14), where every ratio is
// (what three brokers show) / (what one shows); and three brokers against three
// of Apache Kafka.
//
// P14 bounds MB/s per unit of total CPU, and says that three copies cost three
// writes. So "MB written a CPU-second" is the bytes acknowledged times the
// replicas that each has been written to (3 in the cluster, 1 on one broker),
// divided by the user and system time of all brokers together. "MB acknowledged
// a CPU-second" counts each byte once, and is a third of it.
var clusterMeasurements = []measurement{
	{args: load("-mode rawproduce -batch 262144" + onThreeAndOne), cluster: true, ref: oneBarnabas, goals: threeAndOne("256 KiB")},
	{args: load("-mode rawproduce -batch 16384" + onThreeAndOne), cluster: true, ref: oneBarnabas, smoke: true, goals: threeAndOne("16 KiB")},
	{args: load("-mode rawproduce -batch 262144" + onThreeAndOne), cluster: true, durable: true, ref: oneBarnabas, goals: threeAndOne("durable, 256 KiB")},
	{args: load("-mode rawproduce -batch 16384" + onThreeAndOne), cluster: true, durable: true, ref: oneBarnabas, goals: threeAndOne("durable, 16 KiB")},

	{args: load("-mode rawproduce -batch 262144" + onThree + kafkaWarm), cluster: true, ref: apacheKafka, goals: threeAndKafka("256 KiB")},
	{args: load("-mode rawproduce -batch 16384" + onThree + kafkaWarm), cluster: true, ref: apacheKafka, goals: threeAndKafka("16 KiB")},
	{args: load("-mode rawlatency -batch 16384 -rate 5000" + onThree + kafkaWarm), cluster: true, ref: apacheKafka, goals: []goal{
		{"P14", "3 to 3 of Apache Kafka, 5 MB/s: CPU a GB", "broker_cpu_s_per_GB", seen, 0},
		{"P14", "3 to 3 of Apache Kafka, 5 MB/s: acknowledged, p50", "ack_p50_ms", seen, 0},
		{"P14", "3 to 3 of Apache Kafka, 5 MB/s: acknowledged, p99", "ack_p99_ms", seen, 0}}},
	{args: load("-mode e2e -rate 5000" + onThree + kafkaWarm), cluster: true, ref: apacheKafka, goals: []goal{
		{"P14", "3 to 3 of Apache Kafka, 5000 records/s: CPU a GB", "broker_cpu_s_per_GB", seen, 0},
		{"P14", "3 to 3 of Apache Kafka, 5000 records/s: end to end, p50", "e2e_p50_ms", seen, 0},
		{"P14", "3 to 3 of Apache Kafka, 5000 records/s: end to end, p99", "e2e_p99_ms", seen, 0}}},

	{args: load("-mode cluster -parts 10000 -d 20s -reps 1"), cluster: true, starts: true, goals: manyPartitions("one topic of 10 000")},
	{args: load("-mode cluster -parts 10000 -topics 100 -d 20s -reps 1"), cluster: true, starts: true, goals: manyPartitions("100 topics of 100")},
}

// manyPartitions are figures of three brokers that all hold all partitions.
func manyPartitions(what string) []goal {
	figures := []struct{ what, key string }{
		{"created, in sync everywhere: ms", "create_whole_ms"},
		{"memory of broker 1 at rest: MiB", "rss_1_MiB"},
		{"memory of broker 2 at rest: MiB", "rss_2_MiB"},
		{"memory of broker 3 at rest: MiB", "rss_3_MiB"},
		{"idle CPU of broker 1: % of a core", "idle_cpu_1_pct"},
		{"idle CPU of broker 2: % of a core", "idle_cpu_2_pct"},
		{"idle CPU of broker 3: % of a core", "idle_cpu_3_pct"},
		{"kill -9: all led again, ms", "kill_led_ms"},
		{"restart after it: all in sync, ms", "kill_whole_ms"},
		{"kill -9, quorum's leader: all led, ms", "kill_quorum_leader_led_ms"},
		{"restart after it: all in sync, ms", "kill_quorum_leader_whole_ms"},
		{"clean stop of one: ms", "stop_ms"},
		{"clean stop: all led by others, ms", "stop_led_ms"},
		{"restart after it: all in sync, ms", "restart_whole_ms"},
	}
	var out []goal
	for _, f := range figures {
		out = append(out, goal{"C1", what + ", " + f.what, f.key, seen, 0})
	}
	return out
}

func threeAndOne(what string) []goal {
	return []goal{
		{"P14", "3 to 1, " + what + ": MB written a CPU-second", "written_MBps_per_core", ">=", 0.6},
		{"P14", "3 to 1, " + what + ": MB acknowledged a CPU-second", "broker_MBps_per_core", seen, 0},
		{"P14", "3 to 1, " + what + ": MB/s acknowledged", "MBps", seen, 0},
		{"P14", "3 to 1, " + what + ": CPU a GB acknowledged", "broker_cpu_s_per_GB", seen, 0}}
}

func threeAndKafka(what string) []goal {
	return []goal{
		{"P14", "3 to 3 of Apache Kafka, " + what + ": MB/s", "MBps", seen, 0},
		{"P14", "3 to 3 of Apache Kafka, " + what + ": CPU a GB", "broker_cpu_s_per_GB", seen, 0},
		{"P14", "3 to 3 of Apache Kafka, " + what + ": p50", "p50_ms", seen, 0},
		{"P14", "3 to 3 of Apache Kafka, " + what + ": p99", "p99_ms", seen, 0}}
}

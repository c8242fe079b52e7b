//go:build interop

// Package interop holds the tests that run whole programs against each other:
// the built broker on one side, and on the other what its users have: kcat,
// the Java client, Streams, MirrorMaker and tools of Apache Kafka, librdkafka,
// kafka-python, franz-go, and our own command line. `make interop` runs them.
//
// They find or fetch what they need and skip, with the reason, what is not
// there. Settings, all by environment:
//
//	BARNABAS_BIN        the broker's binary (default ../bin/barnabas)
//	INTEROP_TARGET      HOST:PORT of a running broker: only the tests that need
//	                    nothing but a broker run, against that one
//	INTEROP_CACHE       where downloads are kept (default: the user's cache)
//	INTEROP_KAFKA_LIBS  a directory with Apache Kafka's jars (default: fetched
//	                    with mvn into the cache)
//	INTEROP_PYTHON      a python that has confluent-kafka and kafka-python
//	                    (default: fetched with pip into the cache)
//	INTEROP_FULL        not empty: the long form of every test
//	INTEROP_KILLS       how often the kill tests kill (default 5, full 50)
//	INTEROP_RUNS        how often the failover tests lose a broker in each way
//	INTEROP_MINUTES     TestNemesis makes faults at random for so long
//	INTEROP_SEED        the seed of TestNemesis, to have its faults again
//	INTEROP_CONSUME     the consume command, where it is not the broker's own
//	INTEROP_KEEP        a directory: broker logs, data and histories are left there
package interop

// Package config is the one table of configuration keys, and everything that
// follows from it: reading files, the environment and --set; typed values for
// the components; validation of topic overrides; what DescribeConfigs answers;
// and docs/configuration.md.
//
// Names and value formats are Apache Kafka's, so that its server.properties
// works; keys of our own begin with "barnabas.". What differs from Apache
// Kafka's defaults carries the other default in the row's Kafka field.
//
// A Config is immutable and may be used by any number of goroutines; so may
// the table. Components never take a Config: they take the small structs that
// Broker and Topic give.
package config

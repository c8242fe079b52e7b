package config

// Reasons that several rows share: why a key is ignored, or why a value stops
// the start and what to do then.
const (
	noThreads    = "goroutines do this work, and there is no pool of threads to size"
	ownQuorum    = "etcd keeps the metadata, and elects, batches and compacts by its own clock"
	purgatory    = "requests that wait end by themselves, and leave nothing to purge"
	ownBuffers   = "the broker chooses the size of its buffers itself"
	ownMetrics   = "metrics are Prometheus's, which computes rates itself: see barnabas.admin.listener"
	ownTLS       = "Go's own TLS is used, which has no such choice"
	noPlugins    = "plugins of tiered storage are Java classes, which cannot run here"
	noTiered     = "this version has no remote store, and every segment would stay on the local disk; take it out, and give log.dirs the room"
	policyNeeded = "Java classes cannot run here, and what the policy forbids would be done; take it out"
	noTLS        = "this version does not speak TLS; take it out, and have listeners speak PLAINTEXT where only those reach them who may"
	noSASL       = "this version does not speak SASL; take it out, and have listeners speak PLAINTEXT where only those reach them who may"
)

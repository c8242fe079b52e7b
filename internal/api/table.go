package api

import "github.com/barnabas-mq/barnabas/internal/server"

// Table is every request that is answered, with the versions of Apache Kafka
// 4.4. A key is here from the commit that completes it.
func (a *API) Table() server.Table { return a.table }

func (a *API) newTable() server.Table {
	return server.NewTable(
		server.On(3, 13, soon(a, a.produce)),
		server.On(4, 18, soon(a, a.fetch)),
		server.On(1, 11, soon(a, a.listOffsets)),
		server.On(0, 13, soon(a, a.metadata)),
		server.On(2, 10, soon(a, a.offsetCommit)),
		server.On(1, 10, soon(a, a.offsetFetch)),
		server.On(0, 6, soon(a, a.findCoordinator)),
		server.On(0, 9, soon(a, a.joinGroup)),
		server.On(0, 4, soon(a, a.heartbeat)),
		server.On(0, 5, soon(a, a.leaveGroup)),
		server.On(0, 5, soon(a, a.syncGroup)),
		server.On(0, 6, soon(a, a.describeGroups)),
		server.On(0, 5, soon(a, a.listGroups)),
		server.On(0, 5, soon(a, a.apiVersions)),
		server.On(2, 7, soon(a, a.createTopics)),
		server.On(1, 6, soon(a, current(a, deletedThere, a.deleteTopics))),
		server.On(0, 2, soon(a, a.deleteRecords)),
		server.On(0, 5, soon(a, a.initProducerID)),
		server.On(2, 4, soon(a, a.offsetForLeaderEpoch)),
		server.On(1, 4, soon(a, a.describeConfigs)),
		server.On(0, 2, soon(a, current(a, configuredThere, a.alterConfigs))),
		server.On(1, 2, known(a, a.alterReplicaLogDirs)),
		server.On(1, 5, a.describeLogDirs),
		server.On(0, 3, known(a, current(a, extendedThere, a.createPartitions))),
		server.On(0, 3, soon(a, a.deleteGroups)),
		server.On(0, 2, known(a, current(a, electedThere, a.electLeaders))),
		server.On(0, 1, soon(a, current(a, incrementedThere, a.incrementalAlterConfigs))),
		server.On(0, 1, known(a, current(a, reassignedThere, a.alterPartitionReassignments))),
		server.On(0, 0, known(a, a.listPartitionReassignments)),
		server.On(0, 0, soon(a, a.offsetDelete)),
		server.On(0, 2, known(a, a.describeQuorum)),
		server.On(0, 2, known(a, a.updateFeatures)),
		server.On(0, 2, known(a, a.clusterNodes)),
		server.On(0, 0, known(a, a.describeProducers)),
		server.On(0, 0, known(a, a.unregisterBroker)),
		server.On(0, 1, soon(a, a.consumerGroupHeartbeat)),
		server.On(0, 1, soon(a, a.consumerGroupDescribe)),
		server.On(0, 0, a.getTelemetrySubscriptions),
		server.On(0, 0, a.pushTelemetry),
		server.On(0, 1, known(a, a.listConfigResources)),
		server.On(0, 0, known(a, a.describeTopicPartitions)),
		server.On(0, 1, known(a, a.addRaftVoter)),
		server.On(0, 0, known(a, a.removeRaftVoter)),
	)
}

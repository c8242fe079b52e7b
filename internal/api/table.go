package api

import "github.com/barnabas-mq/barnabas/internal/server"

// Table is every request that is answered, with the versions of Apache Kafka
// 4.4. A key is here from the commit that completes it.
func (a *API) Table() server.Table { return a.table }

func (a *API) newTable() server.Table {
	return server.NewTable(
		server.On(3, 13, a.produce),
		server.On(4, 18, a.fetch),
		server.On(1, 11, a.listOffsets),
		server.On(0, 13, a.metadata),
		server.On(2, 10, a.offsetCommit),
		server.On(1, 10, a.offsetFetch),
		server.On(0, 6, a.findCoordinator),
		server.On(0, 9, a.joinGroup),
		server.On(0, 4, a.heartbeat),
		server.On(0, 5, a.leaveGroup),
		server.On(0, 5, a.syncGroup),
		server.On(0, 6, a.describeGroups),
		server.On(0, 5, a.listGroups),
		server.On(0, 5, a.apiVersions),
		server.On(2, 7, a.createTopics),
		server.On(1, 6, a.deleteTopics),
		server.On(0, 2, a.deleteRecords),
		server.On(0, 5, a.initProducerID),
		server.On(2, 4, a.offsetForLeaderEpoch),
		server.On(1, 4, a.describeConfigs),
		server.On(0, 2, a.alterConfigs),
		server.On(1, 2, a.alterReplicaLogDirs),
		server.On(1, 5, a.describeLogDirs),
		server.On(0, 3, a.createPartitions),
		server.On(0, 3, a.deleteGroups),
		server.On(0, 2, a.electLeaders),
		server.On(0, 1, a.incrementalAlterConfigs),
		server.On(0, 1, a.alterPartitionReassignments),
		server.On(0, 0, a.listPartitionReassignments),
		server.On(0, 0, a.offsetDelete),
		server.On(0, 2, a.describeQuorum),
		server.On(0, 2, a.updateFeatures),
		server.On(0, 2, a.clusterNodes),
		server.On(0, 0, a.describeProducers),
		server.On(0, 0, a.unregisterBroker),
		server.On(0, 1, a.consumerGroupHeartbeat),
		server.On(0, 1, a.consumerGroupDescribe),
		server.On(0, 0, a.getTelemetrySubscriptions),
		server.On(0, 0, a.pushTelemetry),
		server.On(0, 1, a.listConfigResources),
		server.On(0, 0, a.describeTopicPartitions),
		server.On(0, 1, a.addRaftVoter),
		server.On(0, 0, a.removeRaftVoter),
	)
}

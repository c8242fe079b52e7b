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
		server.On(0, 6, a.findCoordinator),
		server.On(0, 5, a.apiVersions),
		server.On(2, 7, a.createTopics),
		server.On(1, 6, a.deleteTopics),
		server.On(0, 5, a.initProducerID),
		server.On(2, 4, a.offsetForLeaderEpoch),
	)
}

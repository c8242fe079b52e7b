package config

// Quotas.
var quotaKeys = []Key{
	{Name: "quota.window.num", Type: Int, Default: value("11"), Check: atLeast(1), State: Planned,
		Doc: "Windows over which the byte rates of clients are measured."},
	{Name: "quota.window.size.seconds", Type: Int, Default: value("1"), Check: atLeast(1), State: Planned,
		Doc: "Length of such a window."},
	{Name: "replication.quota.window.num", Type: Int, Default: value("11"), Check: atLeast(1), State: Planned,
		Doc: "Windows over which replication throttles are measured."},
	{Name: "replication.quota.window.size.seconds", Type: Int, Default: value("1"), Check: atLeast(1), State: Planned,
		Doc: "Length of such a window."},
	{Name: "alter.log.dirs.replication.quota.window.num", Type: Int, Default: value("11"), Check: atLeast(1), State: Planned,
		Doc: "Windows over which moves between directories are measured."},
	{Name: "alter.log.dirs.replication.quota.window.size.seconds", Type: Int, Default: value("1"), Check: atLeast(1), State: Planned,
		Doc: "Length of such a window."},
	{Name: "controller.quota.window.num", Type: Int, Default: value("11"), Check: atLeast(1), State: Planned,
		Doc: "Windows over which changes of topics are measured."},
	{Name: "controller.quota.window.size.seconds", Type: Int, Default: value("1"), Check: atLeast(1), State: Planned,
		Doc: "Length of such a window."},
	{Name: "client.quota.callback.class", Type: Class, State: Refused, Reason: "Java classes cannot run here, and the limits that the class sets would not hold; take it out",
		Doc: "A Java class that decides quotas."},
}

package config

import "strings"

// Setting is one setting of a [Config]: its name, and access to its value as
// text. It fulfils pflag.Value, so that every setting is a flag too.
type Setting struct {
	// Name is the YAML key and the flag.
	Name string
	// Usage is one line for --help.
	Usage string

	value value
}

// Set reads a value. The error says what would have been understood.
func (s Setting) Set(text string) error { return s.value.set(text) }

// String is the value in a form that Set reads. The zero Setting has none.
func (s Setting) String() string {
	if s.value == nil {
		return ""
	}
	return s.value.text()
}

// Type is a word for the values: "string", "int", "duration", …
func (s Setting) Type() string { return s.value.kind() }

// IsBool tells whether the flag may stand without a value.
func (s Setting) IsBool() bool { return s.Type() == "bool" }

// Env is the environment variable of the setting.
func (s Setting) Env() string { return envName(s.Name) }

const envPrefix = "NORN_SERVER_"

func envName(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Settings lists all settings, bound to the fields of c, in the order of the
// documentation.
//
// Long because: it is a table.
func (c *Config) Settings() []Setting {
	return []Setting{
		{"data", "data directory `DIR`", str(&c.Data)},
		{"name", "name of this node (default: the peer address)", str(&c.Name)},
		{"listen", "`ADDR` of the client port", str(&c.Listen)},
		{"peer-listen", "`ADDR` of the port for other nodes", str(&c.PeerListen)},
		{"peer-advertise", "`ADDR` where other nodes reach the peer port (default: --peer-listen)", str(&c.PeerAdvertise)},
		{"http-listen", "`ADDR` of the HTTP API, /livez, /readyz and /metrics", str(&c.HTTPListen)},
		{"http-hosts", "further names of this node for the HTTP port, host or host:port, with commas between", list(&c.HTTPHosts)},
		{"http-cors-origins", "other sites whose pages may use the HTTP API, https://HOST, with commas between", list(&c.HTTPCORSOrigins)},
		{"proxy-from", "addresses of proxies that send a PROXY protocol header, IP or IP/BITS, with commas between", prefixes(&c.ProxyFrom)},
		{"metrics-auth", "whether /metrics asks for what the HTTP API asks for", boolean(&c.MetricsAuth)},
		{"join", "peer `ADDR`s of nodes of the cluster to join, with commas between", list(&c.Join)},
		{"bootstrap-expect", "make a new cluster of so many `NODES`, all in --join, once each has answered that it belongs to none; 0: join one", integer(&c.BootstrapExpect)},
		{"zone", "failure domain of this node", str(&c.Zone)},
		{"weight", "share of the work relative to other nodes", integer(&c.Weight)},
		{"replicas", "replicas of every partition; counts at the first start only, later see norn cluster replicas", integer(&c.Replicas)},
		{"partitions", "partitions, 1 to 4096, about 10 for each node; counts at the first start only", integer(&c.Partitions)},
		{"eta", "bound on clock difference plus delay", duration(&c.Eta)},
		{"buffer", "added to a lease before its task is handed on (0: eta)", duration(&c.Buffer)},
		{"gc-grace", "how long collected tasks are remembered", duration(&c.GCGrace)},
		{"retention", "how long completed and cancelled tasks are kept", duration(&c.Retention)},
		{"retention-policy", "what happens to them then: delete, archive or keep", word(&c.RetentionPolicy, "delete", "archive", "keep")},
		{"dead-retention", "how long dead tasks are kept (0: until they are retried or cancelled)", duration(&c.DeadRetention)},
		{"collect-interval", "in which every partition is searched for tasks to collect (0: never)", duration(&c.CollectInterval)},
		{"archive-dir", "`DIR` or s3://BUCKET/PREFIX where finished tasks are archived", str(&c.ArchiveDir)},
		{"snapshot-to", "`DIR` or s3://BUCKET/PREFIX for snapshots of the register", str(&c.SnapshotTo)},
		{"snapshot-every", "between two snapshots of the register (0: none)", duration(&c.SnapshotEvery)},
		{"snapshot-keep", "snapshots that stay in --snapshot-to", integer(&c.SnapshotKeep)},
		{"backup-tasks-to", "`DIR` or s3://BUCKET/PREFIX for backups of tasks", str(&c.BackupTasksTo)},
		{"backup-tasks-every", "between two backups of tasks", duration(&c.BackupTasksEvery)},
		{"backup-tasks-keep", "backups of tasks that stay in --backup-tasks-to, with those that they build on", integer(&c.BackupTasksKeep)},
		{"backup-tasks-incrementals", "incremental backups of tasks after a full one", integer(&c.BackupTasksIncrementals)},
		{"backup-tasks-rate", "bytes a second that a backup of tasks reads at most (0: as fast as it goes)", &c.BackupTasksRate},
		{"backup-tasks-key-file", "`FILE` with public keys of age that backups of tasks are encrypted to", str(&c.BackupTasksKeyFile)},
		{"restore-from", "`DIR` or s3://BUCKET/PREFIX: begin the cluster anew from a snapshot, when all nodes are lost", str(&c.RestoreFrom)},
		{"max-payload", "largest payload, up to 16MiB", count(&c.MaxPayload)},
		{"max-in-flight", "open requests of one connection", integer(&c.MaxInFlight)},
		{"max-connections", "open client connections", integer(&c.MaxConnections)},
		{"max-http-connections", "connections to the HTTP port that are served; three quarters may wait", integer(&c.MaxHTTPConnections)},
		{"max-inbox", "bytes of requests that may wait for the core", count(&c.MaxInbox)},
		{"max-waiters", "claim and log requests that may wait", integer(&c.MaxWaiters)},
		{"max-claims", "tasks that may be under a claim", integer(&c.MaxClaims)},
		{"max-queues", "queue names that may exist", integer(&c.MaxQueues)},
		{"metrics-queues", "queues of which /metrics has numbers, the others are one, _other (0: none)", integer(&c.MetricsQueues)},
		{"otlp-endpoint", "`URL` of an OpenTelemetry collector (OTLP over HTTP) for metrics and spans (empty: none)", str(&c.OTLPEndpoint)},
		{"otlp-share", "share of the requests that have a span, 0 to 1", float(&c.OTLPShare)},
		{"otlp-interval", "between two sendings of the metrics to it", duration(&c.OTLPInterval)},
		{"hello-timeout", "for a new connection to say hello", duration(&c.HelloTimeout)},
		{"frame-timeout", "for a frame, or each 512 KiB of a larger one", duration(&c.FrameTimeout)},
		{"write-timeout", "for one write of an answer", duration(&c.WriteTimeout)},
		{"idle-timeout", "without a byte from the client (0: never)", duration(&c.IdleTimeout)},
		{"http-idle-timeout", "without a request on a connection to the HTTP port", duration(&c.HTTPIdleTimeout)},
		{"stop-timeout", "for answers on their way, once the server is told to stop", duration(&c.StopTimeout)},
		{"peer-heartbeat", "after what was sent last, a sign of life to another node", duration(&c.PeerHeartbeat)},
		{"peer-timeout", "without a byte from another node, until others lead what it led", duration(&c.PeerTimeout)},
		{"register-heartbeat", "between two heartbeats of the leader of the register", duration(&c.RegisterHeartbeat)},
		{"register-election-timeout", "without the leader of the register, until another one is elected", duration(&c.RegisterElectionTimeout)},
		{"gossip-interval", "between two probes for the life of other nodes", duration(&c.GossipInterval)},
		{"repair-interval", "in which each partition is compared once with every other replica", duration(&c.RepairInterval)},
		{"session-period", "between two heartbeats of a worker", duration(&c.SessionPeriod)},
		{"session-gap", "without a heartbeat for so long a worker gets nothing new", duration(&c.SessionGap)},
		{"session-check", "between two health checks of a worker", duration(&c.SessionCheck)},
		{"session-lose", "so long after that a worker is lost", duration(&c.SessionLose)},
		{"name-lease", "for how long a worker's name is granted (0: 2m)", duration(&c.NameLease)},
		{"session-bump", "whether the name of an unhealthy worker may be taken", boolean(&c.SessionBump)},
		{"default-lease", "lease of claims that ask for none", duration(&c.DefaultLease)},
		{"max-attempts", "attempts before a task is dead", integer(&c.MaxAttempts)},
		{"retry-initial", "delay after the first failure", duration(&c.RetryInitial)},
		{"retry-max", "longest delay between attempts", duration(&c.RetryMax)},
		{"retry-multiplier", "factor between delays", float(&c.RetryMultiplier)},
		{"retry-jitter", "random share of a delay, 0 to 1", float(&c.RetryJitter)},
		{"quarantine", "facts older than gc-grace and unknown to the others that are kept aside at most", &c.Quarantine},
		{"disk-reserve", "free space below which enqueues are refused, the smaller of bytes and a share of the volume", &c.DiskReserve},
		{"disk-stop", "free space below which the server stops, likewise", &c.DiskStop},
		{"disk-check-interval", "between two looks at the free space", duration(&c.DiskCheckInterval)},
		{"disk-stall", "how long a write may wait for the disk before others lead (0: for ever)", duration(&c.DiskStall)},
		{"cache-size", "cache of the store's blocks", &c.CacheSize},
		{"memtable-size", "memtable of the store", &c.MemTableSize},
		{"head-size", "ready tasks in memory per queue and partition", integer(&c.HeadSize)},
		{"auth-token-file", "`FILE` with the token that clients must send, or several of which any will do", str(&c.AuthTokenFile)},
		{"auth", "who must show a token: access (everybody, one of auth-token-file or of norn access) or open (nobody); default: access where there is an auth-token-file", str(&c.Auth)},
		{"auth-anonymous", "`ROLE` of who shows nothing, where others show a token (default: none, it is refused)", str(&c.AuthAnonymous)},
		{"auth-max-stale", "for how long a node that hears no majority of the register takes the tokens it knows (0: for ever)", duration(&c.AuthMaxStale)},
		{"insecure-open", "let auth: open be on addresses that others reach", boolean(&c.InsecureOpen)},
		{"auth-cert", "which names of a client's certificate say who it is: none, san-uri, san-dns or cn", word(&c.AuthCert, "none", "san-uri", "san-dns", "cn")},
		{"auth-jwt-issuer", "iss of the JSON Web Tokens that let in", str(&c.AuthJWTIssuer)},
		{"auth-jwt-audience", "aud that they must have", str(&c.AuthJWTAudience)},
		{"auth-jwt-keys", "`FILE` or https:// URL with the keys that sign them (JWKS)", str(&c.AuthJWTKeys)},
		{"auth-jwt-roles", "claim with names of roles", str(&c.AuthJWTRoles)},
		{"auth-jwt-tenant", "claim with the name of a tenant", str(&c.AuthJWTTenant)},
		{"auth-max-life", "for how long a JWT may still let in when it is shown, at most", duration(&c.AuthMaxLife)},
		{"audit-log", "where it is written down who changed what: off, stderr, syslog or a `FILE`", str(&c.AuditLog)},
		{"audit-data", "which requests for tasks are written down: off, denied or all", word(&c.AuditData, "off", "denied", "all")},
		{"tls-cert", "certificate chain of the client port, PEM `FILE`", str(&c.TLSCert)},
		{"tls-key", "private key of the certificate, PEM `FILE`", str(&c.TLSKey)},
		{"tls-client-ca", "CA of the certificates clients must show, PEM `FILE`", str(&c.TLSClientCA)},
		{"tls-reload", "after which certificates are read again", duration(&c.TLSReload)},
		{"peer-tls-cert", "certificate chain shown to other nodes, PEM `FILE`", str(&c.PeerTLSCert)},
		{"peer-tls-key", "private key of that certificate, PEM `FILE`", str(&c.PeerTLSKey)},
		{"peer-tls-ca", "CA of the certificates other nodes must show, PEM `FILE`", str(&c.PeerTLSCA)},
		{"peer-tls-names", "patterns of the names in nodes' certificates, with commas between; {name} is the node's", list(&c.PeerTLSNames)},
		{"peer-secret-file", "`FILE` with the secret that all nodes must know, and those it takes the place of", str(&c.PeerSecretFile)},
		{"insecure-peers", "let whoever reaches the peer port pass for a node", boolean(&c.InsecurePeers)},
		{"gossip-key-file", "`FILE` with the keys that gossip is encrypted with", str(&c.GossipKeyFile)},
		{"force-new-register", "`CLUSTER:GENERATION`: go on without the register's lost majority; see norn.example.yaml", str(&c.ForceNewRegister)},
		{"log-level", "debug, info, warn or error", word(&c.LogLevel, "debug", "info", "warn", "error")},
		{"log-format", "text or json", word(&c.LogFormat, "text", "json")},
		{"pprof", "serve /debug/pprof on the HTTP port", boolean(&c.Pprof)},
		{"test-clock-offset", "how far this node's wall clock is off; only in builds for tests", duration(&c.TestClockOffset)},
		{"test-clock-rate", "how much faster its clocks run, parts per million; only in builds for tests", integer(&c.TestClockRate)},
		{"test-clock-file", "`FILE` that says both while the node runs; only in builds for tests", str(&c.TestClockFile)},
	}
}

package config

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/proto"
)

// Config is the configuration of one server. Each field says its unit, its
// default, what it trades for what, and what is dangerous about it.
//
// "Cluster" marks what is fixed when the first server formats its directory:
// later values are ignored there, the cluster's own count.
type Config struct {
	// Data is the data directory. Default ./norn-data. Put it on a disk of its
	// own if you can: every acknowledgement waits for an fsync there. Danger:
	// a copy of it must never be started beside the original.
	Data string
	// Name of this node, unique in the cluster. Default: PeerAdvertise, or
	// PeerListen. It is written into the data directory, which starts under no
	// other name.
	Name string
	// Listen is the address of the client port. Default 127.0.0.1:7711. Danger:
	// on another address than loopback everybody who reaches it may do
	// everything, unless there is an auth token or a client CA.
	Listen string
	// PeerListen is the address of the port for other nodes, TCP and UDP. Default
	// 127.0.0.1:7712. Danger: who reaches it can pass for a node, unless there
	// is PeerTLSCert; keep it in a network of your own. On another address than
	// loopback a first start is refused without PeerTLSCert and PeerSecretFile, unless
	// InsecurePeers is set.
	PeerListen string
	// PeerAdvertise is where other nodes reach PeerListen, host:port; a name is
	// looked up by those who dial it. Default PeerListen; required where that is
	// every address (0.0.0.0), or behind address translation.
	PeerAdvertise string
	// HTTPListen is the address of the HTTP API, /livez, /readyz and /metrics. Default
	// 127.0.0.1:7713. The API asks for what the client port asks for: AuthTokenFile as
	// a bearer token, and TLS with TLSCert. Danger: as with Listen; and /metrics is
	// for everybody who reaches it, unless MetricsAuth is set.
	HTTPListen string
	// HTTPHosts are further names by which browsers and clients ask for the HTTP port:
	// host, or host:port where browsers see another port than 80 and 443. Default none.
	// Addresses, localhost, Name, PeerAdvertise, the machine's name and those in TLSCert
	// need not be here. Without AuthTokenFile a request by any other name is refused, as
	// whoever owns a name can let it point here. A page under one of these names may use
	// the API also behind a proxy that changes Host.
	HTTPHosts []string
	// HTTPCORSOrigins are other sites whose pages may use the HTTP API: https://HOST or
	// https://HOST:PORT. Default none. Danger: without AuthTokenFile everybody who opens
	// such a page lends it their access.
	HTTPCORSOrigins []string
	// ProxyFrom are the addresses of proxies (10.0.0.5, 10.1.0.0/16) whose word counts for
	// who connects to the ports for clients and for HTTP: they begin a connection with a
	// header of the PROXY protocol, version 1 or 2. Default none: such a header is refused.
	// Danger: who connects from there can pass for any address.
	ProxyFrom []netip.Prefix
	// MetricsAuth lets /metrics ask for what the HTTP API asks for: TLS, a certificate,
	// the token. Default false: it is for everybody who reaches the port.
	MetricsAuth bool
	// Join are peer addresses of nodes of the cluster to join, host:port. Default
	// none: an empty directory makes a cluster of one. They matter until this
	// node has joined, and are hints for finding the others ever after; its own
	// address may be among them.
	Join []string
	// BootstrapExpect is with how many nodes a new cluster begins. All of them are started
	// alike, with empty directories and the addresses of all in Join. Once every one has
	// answered that it belongs to no cluster the first by name makes it, and the others
	// join; it takes tasks when every partition has as many copies, or Replicas. Default 0:
	// a node with Join waits for a cluster that is there. It counts at the first start.
	BootstrapExpect int
	// Zone is the failure domain of this node (rack, availability zone). Default
	// none. Replicas go to different zones where there are enough.
	Zone string
	// Weight is this node's share of the work relative to the others'. Default
	// 100. Give a machine with twice the disk and processors twice the weight.
	Weight int

	// Replicas of every partition, N. Cluster. Default 3: survives the loss of
	// (N-1)/2 nodes. A smaller cluster runs with the members it has. Counts at the
	// first start: later an operator changes it in the register.
	Replicas int
	// Partitions of the ID space, P. Cluster, and fixed for ever. Default 64.
	// Take about 10 times the nodes you will ever have: P bounds how evenly work
	// spreads, and every partition costs an election, counters and memory.
	Partitions int
	// Eta bounds clock difference plus delay between nodes. Default 5s. Two
	// workers never hold one task while clocks differ by less. Larger: a dead
	// worker's task waits longer (lease + buffer). Danger: smaller than what NTP
	// gives you, and exclusion is an illusion.
	Eta time.Duration
	// Buffer is added to a lease before its task is handed on. Default 0, which
	// means Eta; never less than Eta.
	Buffer time.Duration
	// GCGrace is how long the cluster remembers what it has collected. Default
	// 168h. An ID older than this that nobody knows is refused, so a producer
	// may be cut off for so long and still deliver. Danger: shorter than your
	// longest outage, and late tasks are refused.
	GCGrace time.Duration

	// Retention is how long completed and cancelled tasks are kept, for queues
	// that do not say. Default 24h. Longer: more disk, nothing else.
	Retention time.Duration
	// RetentionPolicy says what happens then: delete, archive (to ArchiveDir,
	// then delete) or keep. Default delete. Danger: keep fills the disk in the
	// end.
	RetentionPolicy string
	// DeadRetention is how long dead tasks are kept. Default 0: until somebody
	// retries or cancels them.
	DeadRetention time.Duration
	// CollectInterval is in which every partition is looked at once for tasks
	// whose retention is over. Default 1m. 0: nothing is ever collected.
	CollectInterval time.Duration
	// ArchiveDir is where finished tasks are archived before they are deleted: a
	// directory, or s3://BUCKET/PREFIX (docs/how-to/backup.md). Default none: no queue can
	// ask for it. Nodes may share one.
	ArchiveDir string

	// SnapshotTo is a second place for snapshots of the register (queue settings,
	// schedules, members): a directory, better one on another machine, or
	// s3://BUCKET/PREFIX (docs/how-to/backup.md). The register's leader writes there, so it
	// is to be the same on all nodes. Default none: then losing all nodes loses the
	// settings and schedules too.
	SnapshotTo string
	// SnapshotEvery is between two snapshots of a register that has changed, in
	// SnapshotTo and in the data directory. Default 5m: what was set since is lost
	// with all nodes. 0: none are made.
	SnapshotEvery time.Duration
	// SnapshotKeep is how many stay in SnapshotTo. Default 288: a day at 5m.
	SnapshotKeep int
	// BackupTasksTo is where backups of tasks are written (docs/how-to/backup-tasks.md): a directory that all
	// nodes reach, or s3://BUCKET/PREFIX. The register's leader does it, so it is to be the
	// same on all nodes. Default none: no backups of tasks are taken by themselves.
	BackupTasksTo string
	// BackupTasksEvery is between the beginnings of two. Default 1h: what happens to tasks
	// since the last one is lost with the cluster.
	BackupTasksEvery time.Duration
	// BackupTasksKeep is how many stay, and with them those that they build on. Default 48.
	BackupTasksKeep int
	// BackupTasksIncrementals is how many incremental ones follow a full one. Default 23. 0: all are
	// full ones. More: less is read and written, and a restore reads more objects.
	BackupTasksIncrementals int
	// BackupTasksRate bounds what a backup reads from the nodes, bytes a second. Default 20MiB, so
	// that the queues hardly feel it. 0: nothing bounds it.
	BackupTasksRate Size
	// BackupTasksKeyFile has public keys of age, one a line: backups are encrypted to them.
	// Default none: who can read the place can read the payloads. The private key does not belong
	// on the nodes.
	BackupTasksKeyFile string
	// RestoreFrom is where a node with an empty data directory finds the snapshot
	// from which it begins the cluster anew: what SnapshotTo was, or one snapshot in
	// it. Default none. It does nothing where there is a directory already. Danger:
	// only when all nodes are lost, and for one node; the others join it. The tasks
	// are not in it: they are where the old nodes' disks are.
	RestoreFrom string

	// MaxPayload is the largest payload in bytes. Default 1 MiB, at most 16 MiB.
	// Memory: a node may hold MaxInbox of them at once. Better: store large
	// things elsewhere and enqueue a reference.
	MaxPayload int
	// MaxInFlight is how many requests one connection may have open. Default
	// 4096. Past it the server stops reading from that connection.
	MaxInFlight int
	// MaxConnections is how many client connections are open at once. Default
	// 16384; each costs a file descriptor and about 20 KiB. It is lowered where the
	// process may not have enough of those (ulimit -n).
	MaxConnections int
	// MaxHTTPConnections is how many connections to the HTTP port are served at once.
	// Default 4096: a claim that waits there has one of its own, and three quarters may
	// wait. A sixteenth more (1 to 64) may be open, for probes: then one that is not being
	// served gives way to a new one.
	MaxHTTPConnections int
	// MaxInbox is how many bytes of requests may wait for the core. Default
	// 64 MiB; at least one frame (24 MiB). Past it a request is answered
	// `overloaded`. Larger: longer queues before anybody is told.
	MaxInbox int
	// MaxWaiters is how many claim and log requests may wait for something to
	// happen. Default 65536, about 300 bytes each.
	MaxWaiters int
	// MaxClaims is how many tasks may be under a claim at once. Default
	// 1000000, about 500 bytes each. Past it claims are `overloaded`.
	MaxClaims int
	// MaxQueues is how many queue names may exist. Default 10000. Each has
	// counters in every partition and, while it has ready tasks, heads of up to
	// HeadSize entries. It stops a program that puts IDs into queue names. Names without
	// settings, unfinished tasks and use for a minute do not count. At most
	// [MostQueues].
	MaxQueues int
	// MetricsQueues is of how many queues /metrics has numbers: 60 lines each, of what this node
	// has decided and leads, and as many again by kind. Default 250; 0: of none.
	MetricsQueues int
	// OTLPEndpoint is an OpenTelemetry collector that takes OTLP over HTTP, such as
	// http://collector:4318: it is sent the metrics, and spans of some requests. Default none. What
	// waits for it is bounded, and nothing here waits for it. Headers and certificates are those
	// of the SDK's variables (OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_CERTIFICATE).
	OTLPEndpoint string
	// OTLPShare is of how many requests there is a span, 0 to 1. Default 0.01. A request over HTTP
	// whose caller says that it is traced has one in any case.
	OTLPShare float64
	// OTLPInterval is between two sendings of the metrics. Default 30s.
	OTLPInterval time.Duration

	// HelloTimeout is how long a new connection may take to say who it is, and the
	// head of an HTTP request to come. Default 10s.
	HelloTimeout time.Duration
	// FrameTimeout is for a frame, or each 512 KiB of a larger one, and from the first to
	// the last byte of an HTTP request. Default 30s.
	// Danger: too short for slow lines (512 KiB in 30s is 140 kbit/s).
	FrameTimeout time.Duration
	// WriteTimeout is for one write of an answer. Default 30s. A client that
	// does not read for so long is cut off.
	WriteTimeout time.Duration
	// IdleTimeout cuts connections without a byte from the client. Default 0:
	// never. Danger: workers that wait for tasks are silent; over 5m is safe.
	IdleTimeout time.Duration
	// HTTPIdleTimeout is how long a connection to the HTTP port may stay without a
	// request. Default 2m.
	HTTPIdleTimeout time.Duration
	// StopTimeout is how long the first signal to stop waits for answers on their way,
	// before connections are cut. Default 10s. Longer: clients that do not read hold
	// the process up for as long.
	StopTimeout time.Duration
	// PeerHeartbeat is after what was sent to another node last: then it is told that
	// this one lives. Default 1s. The same on all nodes.
	PeerHeartbeat time.Duration
	// PeerTimeout is after how long without a byte another node is out of reach, and
	// what it led is led by others. Default 2.5s, at least two heartbeats. Longer: for
	// lines that fail for seconds, and a dead machine is noticed later; a process that
	// ends is noticed at once in any case. The same on all nodes.
	PeerTimeout time.Duration
	// RegisterHeartbeat is between two heartbeats of the leader of the register.
	// Default 100ms. The same on all nodes.
	RegisterHeartbeat time.Duration
	// RegisterElectionTimeout is how long the leader of the register is waited for
	// before another one is elected; up to as long again is added at random. Default
	// 1s, at least two of those heartbeats, of which it is a whole number. Longer than
	// several times the way there and back between nodes. The same on all nodes.
	RegisterElectionTimeout time.Duration
	// GossipInterval is between two probes of this node for the life of others.
	// Default 1s. One that does not answer seems dead after about ten. Shorter:
	// noticed sooner, more packets, more false alarms; nothing depends on it but
	// how soon hints come. The same on all nodes.
	GossipInterval time.Duration
	// RepairInterval is in which each partition is compared once with every other
	// replica. Default 10s. What a replica has missed is there after it at the
	// latest. Shorter: more messages, of about 100 bytes per pair of replicas.
	RepairInterval time.Duration

	// SessionPeriod is between two heartbeats of a worker that keeps a session, each of
	// which renews all it holds. Default 5s. Longer: fewer messages, and whatever a
	// worker hears with the next answer comes later.
	SessionPeriod time.Duration
	// SessionGap: without a heartbeat for so long a worker gets nothing new. Default
	// 15s, at least two periods.
	SessionGap time.Duration
	// SessionCheck is between two health checks of a worker, which are tasks that do
	// nothing. Default 30s. Without one that passes for twice as long and three periods
	// it gets nothing new.
	SessionCheck time.Duration
	// SessionLose: so long after that it is lost. Default 30s. Its handlers may take
	// half of it to stop. Shorter: the tasks of a worker with long leases run elsewhere
	// sooner, and more workers are lost that were only slow.
	SessionLose time.Duration
	// NameLease is for how long a worker's name is granted. Default 0, which means 2m, or
	// twice SessionGap and SessionLose together where that is longer; never less. A name
	// is taken for so long when worker and node have died together.
	NameLease time.Duration
	// SessionBump lets a worker that asks for the name of an unhealthy one have it at
	// once, not when that one is lost. Default false.
	SessionBump bool

	// DefaultLease of claims that ask for none. Default 30s, from 1s to 24h.
	// Workers renew at a third of it. Longer: a dead worker's task waits longer;
	// shorter: more renewals.
	DefaultLease time.Duration
	// MaxAttempts before a task is dead, for tasks that do not say. Default 25:
	// with the back-off below about 20 hours.
	MaxAttempts int
	// RetryInitial is the delay after the first failure. Default 1s.
	RetryInitial time.Duration
	// RetryMax bounds the delay: after failure n it is
	// min(RetryMax, RetryInitial * RetryMultiplier^(n-1)). Default 1h.
	RetryMax time.Duration
	// RetryMultiplier is the factor between delays, 1 to 1000. Default 2.
	RetryMultiplier float64
	// RetryJitter is the random share of a delay, 0 to 1. Default 0.2, so that
	// what failed together does not come back together.
	RetryJitter float64

	// Quarantine is how many bytes of facts this node keeps aside at most: facts
	// older than gc-grace of tasks that no member of their cohort knows. Default
	// 256 MiB. A node with more of them than fits stays out of the cohorts of
	// their partitions, and keeps them.
	Quarantine Size

	// DiskReserve: below so many free bytes enqueues are refused, while
	// completions are taken. Default 512 MiB, and no more than
	// 40 % of the volume.
	DiskReserve Space
	// DiskStop: below so many free bytes the server stops. Default 64 MiB, and no
	// more than 10 % of the volume, and no less than a memtable and a segment of the log;
	// a restart needs that for compactions. Danger: 0 lets
	// the disk run full, and the store may not open again until there is space.
	DiskStop Space
	// DiskCheckInterval is between two looks at the free space. Default 5s: the
	// reserve must hold what is written meanwhile.
	DiskCheckInterval time.Duration
	// DiskStall is how long a write may wait for the disk before this node stops
	// leading and lets go of the other nodes, until the disk answers. Default 5s;
	// 0: never. Shorter: partitions are led elsewhere sooner. Danger: shorter than
	// the pauses your disk makes under load, and leaders change for nothing.
	DiskStall time.Duration
	// CacheSize of the store's blocks; a quarter without load. Default 14 MiB. Larger: faster reads of
	// old tasks; claims do not need it.
	CacheSize Size
	// MemTableSize of the store, at most a 256th of the volume. Default 24 MiB. Larger: fewer, larger flushes
	// and less merging (docs/archive/performance.md), and a longer replay at start.
	// Memory: two of them. Disk: as much again for the logs, and a spare one.
	MemTableSize Size
	// HeadSize is how many ready tasks are kept in memory per queue and
	// partition. Default 256, about 60 bytes each and up to 1 KiB more for a small
	// task that was never claimed; memory is at most
	// HeadSize * 1 KiB * Partitions * queues with ready tasks. Smaller: more reads
	// of the index, never a scan.
	HeadSize int

	// AuthTokenFile holds the token that clients must send; where it has several lines,
	// any of them will do, while one takes the place of another. White space around a
	// line is cut off, empty lines and those that begin with # do not count. Default
	// none: everybody may do everything. It is read again like certificates (TLSReload); what
	// cannot be read then leaves the tokens of before in use.
	AuthTokenFile string
	// Auth says who must show a token: access, everybody, one of AuthTokenFile or one of the
	// register (norn access token create); open, nobody. Default empty: access where there is an
	// AuthTokenFile, else open. Tokens of AuthTokenFile may do everything: without any, and with
	// access, nobody may make the first token.
	Auth string
	// AuthAnonymous is the role of who shows neither a token nor a certificate, where others do: viewer for a
	// wall, or a role of norn access role set. It never has the verbs cluster and access. Default none:
	// such a one is refused.
	AuthAnonymous string
	// AuthMaxStale is for how long a node that hears no majority of the register takes tokens of
	// the register. Default 0: for ever, so that data goes on for those who were let in.
	AuthMaxStale time.Duration
	// InsecureOpen allows to ask nobody who they are (auth: open) on another address than loopback.
	// Default false. Danger: whoever reaches it may do everything.
	InsecureOpen bool
	// AuthCert says which names of a client's certificate say who it is, and with norn access map
	// what it may do: none, san-uri, san-dns or cn. Default none. With Auth access and TLSClientCA.
	AuthCert string
	// AuthJWTIssuer, AuthJWTAudience and AuthJWTKeys have JSON Web Tokens let in: what must be in
	// iss and aud of each, and the keys, a JWKS in a file or at an https:// URL, which is read
	// again while the server runs. Default none. All three or none, with Auth access.
	AuthJWTIssuer, AuthJWTAudience, AuthJWTKeys string
	// AuthJWTRoles is the claim with names of roles, AuthJWTTenant that with the name of a tenant.
	// Defaults norn_roles and norn_tenant.
	AuthJWTRoles, AuthJWTTenant string
	// AuthMaxLife is for how long a JWT may still let in when it is shown, at most. Default 24h.
	AuthMaxLife time.Duration
	// AuditLog is where it is written down who changed what: settings of queues, schedules,
	// workers, members, tasks cancelled or retried by an operator, and what was refused. off,
	// stderr, syslog, or a file, which is renamed to FILE.1 (up to FILE.7) at 64 MiB. One line of
	// JSON each, never a payload or a secret. Default stderr.
	AuditLog string
	// AuditData says whether requests for tasks are written down too: off, denied (those that
	// were refused, at most one a second for each principal and verb) or all. Default denied.
	AuditData string
	// TLSCert is the certificate chain of the client port, PEM. Default none:
	// plain. With TLSKey only.
	TLSCert string
	// TLSKey is the private key of TLSCert, PEM.
	TLSKey string
	// TLSClientCA: clients must show a certificate signed by one of these, PEM.
	// Default none. With TLSCert only.
	TLSClientCA string
	// TLSReload is after how long certificates and their authorities are read again
	// when somebody connects. Default 30s. What cannot be read then leaves those of
	// before in use.
	TLSReload time.Duration
	// PeerTLSCert is the certificate chain that this node shows to others and to
	// those that dial it, PEM. Default none: nodes talk in plain. With PeerTLSKey and
	// PeerTLSCA only, and on all nodes at once: a node with and one without do not
	// talk to each other.
	PeerTLSCert string
	// PeerTLSKey is the private key of PeerTLSCert, PEM.
	PeerTLSKey string
	// PeerTLSCA: other nodes must show a certificate signed by one of these, PEM.
	// A certificate that says what it may be used for must have serverAuth and clientAuth.
	// Danger: without PeerTLSNames whoever has such a certificate is a node, whatever name
	// is in it; have an authority for nothing else.
	PeerTLSCA string
	// PeerTLSNames are patterns, one of which a name in a node's certificate must fit (its
	// DNS names, addresses and URIs; the subject does not count). * stands for characters
	// up to the next dot or slash, {name} for the name of the node: with it a certificate
	// is good for one node alone. Default none: any name will do. With PeerTLSCert only,
	// and the same on all nodes.
	PeerTLSNames []string
	// PeerSecretFile holds a secret that all nodes must know, the same on all. Where it
	// has several lines, this node says the first, and others may say any of them:
	// to replace a secret, have the new one come second on all nodes, then first on
	// all, then alone, starting them one after the other each time. White space around
	// a line is cut off, empty lines and those that begin with # do not count. Default
	// none. It keeps nodes of different clusters apart, and is what gossip is encrypted
	// with where there is no GossipKeyFile.
	// Danger: without PeerTLSCert it travels in plain.
	PeerSecretFile string
	// InsecurePeers allows a first start with PeerListen on another address than loopback
	// without PeerTLSCert and PeerSecretFile. Default false. Danger: whoever reaches it
	// can pass for a node, and change and delete everything.
	InsecurePeers bool
	// GossipKeyFile holds the keys that gossip is encrypted with, the same on all
	// nodes: one per line, 16, 24 or 32 bytes in base64. The first one encrypts,
	// all decrypt. Default none: keys that follow from PeerSecretFile; without that
	// gossip is in plain. Danger: then who listens to nodes, or knows the cluster's UUID
	// and reaches the peer port, can spread false hints of who is alive (never false data).
	GossipKeyFile string

	// ForceNewRegister makes this node the only member of the register, with what
	// its own disk has of it: the way out when the majority of the voters is lost for
	// good. Default none. The value is the cluster's ID, a colon, and the generation
	// that begins; a wrong one is refused with the right one. It does nothing where
	// that generation has begun. Danger: stop all other nodes first. What only they
	// had of the register is gone; they count as removed, and hand over what they
	// have of tasks when they are started again.
	ForceNewRegister string

	// LogLevel is debug, info, warn or error. Default info.
	LogLevel string
	// LogFormat is text or json. Default text.
	LogFormat string
	// Pprof serves /debug/pprof on the HTTP port. Default false. Danger: a
	// profile shows memory and costs time; not on a public address.
	Pprof bool

	// TestClockOffset is how far this node's wall clock is ahead of the machine's.
	// Default 0. Refused unless the program was built for tests (make build-test), as
	// are the next two: whoever has a wrong clock breaks promises to workers.
	TestClockOffset time.Duration
	// TestClockRate is how much faster this node's wall and monotonic clocks run, in
	// parts per million from -900000 to 900000. Default 0.
	TestClockRate int
	// TestClockFile is read every 10 ms. It holds an offset and, after a blank, a rate
	// ("-1.5s 100000"), which count from then on; and after another one for how long the
	// program must stand still to count as a machine that was suspended ("0s 0 500ms"):
	// its monotonic clock misses that time. Replace it by renaming another one.
	// Default none.
	TestClockFile string
}

// Default is the configuration of a server that is told nothing. It is valid,
// and no field depends on another: see [Config.Complete].
func Default() *Config {
	return &Config{
		Data: "./norn-data", BackupTasksEvery: time.Hour, BackupTasksKeep: 48, BackupTasksIncrementals: 23, BackupTasksRate: 20 << 20,
		Listen: "127.0.0.1:7711", PeerListen: "127.0.0.1:7712", HTTPListen: "127.0.0.1:7713", Weight: 100,
		Replicas: 3, Partitions: 64, Eta: 5 * time.Second, GCGrace: 168 * time.Hour,
		Retention: 24 * time.Hour, RetentionPolicy: "delete", CollectInterval: time.Minute,
		SnapshotEvery: 5 * time.Minute, TLSReload: 30 * time.Second, SnapshotKeep: 288,
		MaxPayload: proto.MaxPayload, MaxInFlight: proto.MaxInFlight, MaxConnections: 16384, MaxHTTPConnections: 4096, MaxInbox: 64 << 20,
		MaxWaiters: 65536, MaxClaims: 1_000_000, MaxQueues: 10000, MetricsQueues: 250, OTLPShare: 0.01, OTLPInterval: 30 * time.Second,
		HelloTimeout: 10 * time.Second, FrameTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, GossipInterval: time.Second, RepairInterval: 10 * time.Second,
		HTTPIdleTimeout: 2 * time.Minute, StopTimeout: 10 * time.Second, PeerHeartbeat: time.Second, PeerTimeout: 2500 * time.Millisecond,
		RegisterHeartbeat: 100 * time.Millisecond, RegisterElectionTimeout: time.Second,
		DefaultLease: proto.DefaultLease, MaxAttempts: proto.DefaultAttempts,
		RetryInitial: time.Second, RetryMax: time.Hour, RetryMultiplier: 2, RetryJitter: 0.2,
		SessionPeriod: 5 * time.Second, SessionGap: 15 * time.Second, SessionCheck: 30 * time.Second, SessionLose: 30 * time.Second,
		Quarantine: 256 << 20, DiskReserve: spaceOf(512<<20, 40), DiskStop: spaceOf(64<<20, 10), DiskCheckInterval: 5 * time.Second, DiskStall: 5 * time.Second,
		CacheSize: 14 << 20, MemTableSize: 24 << 20, HeadSize: 256,
		LogLevel: "info", LogFormat: "text", AuditLog: "stderr", AuditData: "denied",
		AuthCert: "none", AuthJWTRoles: "norn_roles", AuthJWTTenant: "norn_tenant", AuthMaxLife: 24 * time.Hour,
	}
}

// Complete fills in what follows from other fields: Name from PeerAdvertise or
// PeerListen, and Buffer from Eta.
func (c *Config) Complete() {
	if c.Name == "" {
		c.Name = cmp.Or(c.PeerAdvertise, c.PeerListen)
	}
	c.Buffer = c.EffectiveBuffer()
}

// EffectiveBuffer is Buffer, or Eta where Buffer is 0.
func (c *Config) EffectiveBuffer() time.Duration {
	if c.Buffer == 0 {
		return c.Eta
	}
	return c.Buffer
}

// DiskLimits gives the free bytes below which enqueues are refused, and below which
// the server stops, on a volume of so many bytes; 0: its size is not known. A server that
// stops has room for a memtable and a segment of the log, so that it can start again.
func (c *Config) DiskLimits(volume uint64) (reserve, stop uint64) {
	if stop = c.DiskStop.of(volume); stop > 0 {
		memTable := uint64(c.MemTableSize)
		if volume > 0 {
			memTable = min(memTable, volume/memTablesOfVolume)
		}
		stop = max(stop, memTable+min(memTable/2, largestSegment))
	}
	return max(c.DiskReserve.of(volume), stop), stop
}

// Bounds that [Config.Validate] checks and that are not bounds of the protocol.
const (
	maxPartitions = 4096
	maxReplicas   = 9
	maxName       = 255
	maxJoin       = 256
	maxNames      = 64
	longestRetry  = 365 * 24 * time.Hour
	// longestRetention is ten years: beyond it, keep.
	longestRetention = 10 * 365 * 24 * time.Hour
	minMemTable      = 64 << 10
	maxMemTable      = 1 << 30
	// What the store makes of them: the volume holds so many memtables at least, and no
	// segment of the log is larger.
	memTablesOfVolume = 256
	largestSegment    = 8 << 20
	minLease          = clock.MinLease
	maxLease          = clock.MaxLease
)

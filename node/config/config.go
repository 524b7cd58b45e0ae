package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/ring"
)

// Config is the configuration of a server.
type Config struct {
	// Data is the directory of everything the node keeps. Danger: two nodes
	// must never share one, and a copy of one is not a second node.
	Data string
	// Name is the node's name in the cluster; empty: the peer address. It is
	// fixed when the data directory is made.
	Name string
	// Listen is the address of the client port, host:port.
	Listen string
	// PeerListen is the address for other nodes, host:port.
	PeerListen string
	// HTTPListen is the address for health and metrics, host:port; empty: none.
	HTTPListen string
	// Zone is the failure domain of the node; replicas go to different ones.
	Zone string

	// Replicas is the number of copies of each task. It counts when the
	// cluster is made, and a smaller cluster keeps as many as it has nodes.
	Replicas int
	// Partitions is the number of slices of the ID space, fixed when the
	// cluster is made. More spread better over many nodes and cost memory: 64
	// do for up to about 20 nodes, 3 to 10 per node beyond.
	Partitions int

	// Eta is the declared bound on clock difference plus delay. Danger: when
	// clocks differ by more, two workers may hold one task. Larger only delays
	// the taking over from dead workers.
	Eta time.Duration
	// Buffer is added to each lease before its task may be handed on; at least
	// eta, which 0 stands for.
	Buffer time.Duration
	// GCGrace is how long finished and deleted tasks are remembered, so that
	// late repetitions do not bring them back. IDs older than this and unknown
	// are refused.
	GCGrace time.Duration

	// MaxPayload is the largest payload of a task in bytes, up to 16 MiB.
	MaxPayload Size
	// MaxInFlight is how many requests a connection may have open.
	MaxInFlight int
	// MaxConnections bounds the client connections; each costs about 10 KiB.
	MaxConnections int
	// MaxWaiters bounds the requests that wait for work or updates.
	MaxWaiters int
	// MaxQueues bounds the queue names; each costs some KiB per partition with
	// ready tasks.
	MaxQueues int
	// MaxInbox bounds the request bytes that wait for the core; past it
	// enqueues and claims are sent away with Overloaded.
	MaxInbox Size

	// HelloTimeout is how long a new connection has for its first frame.
	HelloTimeout time.Duration
	// FrameTimeout is how long a frame may take from first to last byte.
	FrameTimeout time.Duration
	// WriteTimeout is how long a client may let an answer wait in its socket.
	WriteTimeout time.Duration
	// IdleTimeout closes connections without any byte; 0: never.
	IdleTimeout time.Duration
	// ShutdownTimeout is how long a stopping server waits for its clients.
	ShutdownTimeout time.Duration

	// DefaultLease is the lease of a claim that asks for none.
	DefaultLease time.Duration
	// MaxAttempts is how often a task is tried before it is dead.
	MaxAttempts int
	// RetryInitial is the delay after the first failure.
	RetryInitial time.Duration
	// RetryMax bounds the delay.
	RetryMax time.Duration
	// RetryMultiplier is the factor between delays.
	RetryMultiplier float64
	// RetryJitter is the random share of a delay, 0 to 1.
	RetryJitter float64

	// DiskReserve is the free space in bytes below which enqueues are refused;
	// completions go on.
	DiskReserve Size
	// DiskStop is the free space in bytes below which the server stops, so that
	// it can be started again.
	DiskStop Size
	// DiskCheckInterval is how often the free space is looked at.
	DiskCheckInterval time.Duration
	// CacheSize is the block cache in bytes. It counts fully as memory.
	CacheSize Size
	// MemTableSize is the size of a memtable in bytes; up to four are in memory
	// at a time. Larger ones write less to disk and make restarts slower.
	MemTableSize Size
	// HeadSize is how many ready tasks are kept in memory per queue and
	// partition, 33 bytes each.
	HeadSize int

	// AuthTokenFile holds the token that clients must send; empty: none.
	AuthTokenFile string
	// TLSCert and TLSKey are PEM files for the client port; empty: no TLS.
	TLSCert string
	// TLSKey is the private key of TLSCert.
	TLSKey string
	// TLSClientCA is a PEM file of authorities; with it clients must show a
	// certificate.
	TLSClientCA string

	// LogLevel is debug, info, warn or error.
	LogLevel string
	// LogFormat is text or json.
	LogFormat string
}

// Default gives the defaults.
func Default() Config {
	return Config{
		Data: "./norn-data", Listen: "127.0.0.1:7711", PeerListen: "127.0.0.1:7712", HTTPListen: "127.0.0.1:7713",
		Replicas: 3, Partitions: 64, Eta: 5 * time.Second, GCGrace: 168 * time.Hour,
		MaxPayload: proto.MaxPayload, MaxInFlight: proto.MaxInFlight, MaxConnections: 16384,
		MaxWaiters: 65536, MaxQueues: 10_000, MaxInbox: 64 << 20,
		HelloTimeout: 10 * time.Second, FrameTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
		ShutdownTimeout: 10 * time.Second,
		DefaultLease:    proto.DefaultLease, MaxAttempts: proto.DefaultAttempts,
		RetryInitial: time.Second, RetryMax: time.Hour, RetryMultiplier: 2, RetryJitter: 0.2,
		DiskReserve: 512 << 20, DiskStop: 64 << 20, DiskCheckInterval: 5 * time.Second,
		CacheSize: 16 << 20, MemTableSize: 16 << 20, HeadSize: 1024,
		LogLevel: "info", LogFormat: "text",
	}
}

// NodeName is Name, or what it defaults to.
func (c *Config) NodeName() string {
	if c.Name == "" {
		return c.PeerListen
	}
	return c.Name
}

// LapseBuffer is Buffer, or what it defaults to.
func (c *Config) LapseBuffer() time.Duration {
	if c.Buffer == 0 {
		return c.Eta
	}
	return c.Buffer
}

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var problems []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	must(c.Data != "", "data: a directory is needed")
	must(c.Listen != "", "listen: an address is needed")
	must(c.PeerListen != "" || c.Name != "", "name: needed when there is no peer-listen")
	must(c.Replicas >= 1 && c.Replicas <= 7, "replicas: %d is outside 1 to 7", c.Replicas)
	must(ring.ValidPartitions(c.Partitions) == nil, "partitions: %d is outside 1 to %d", c.Partitions, ring.MaxPartitions)
	must(c.Eta > 0, "eta: %v is not above 0", c.Eta)
	must(c.DefaultLease >= clock.MinLease && c.DefaultLease <= clock.MaxLease, "default-lease: %v is outside %v to %v", c.DefaultLease, clock.MinLease, clock.MaxLease)
	must(c.LapseBuffer() >= c.Eta, "buffer: %v is below eta (%v): clocks within eta could break leases", c.Buffer, c.Eta)
	must(c.MaxPayload > 0 && c.MaxPayload <= proto.MaxPayloadCeiling, "max-payload: %v is outside 1 B to 16 MiB", c.MaxPayload)
	must(c.MaxInbox >= proto.MaxFrame, "max-inbox: %v is below one frame (%v)", c.MaxInbox, Size(proto.MaxFrame))
	for name, n := range map[string]int{
		"max-in-flight": c.MaxInFlight, "max-connections": c.MaxConnections, "max-waiters": c.MaxWaiters,
		"max-queues": c.MaxQueues, "head-size": c.HeadSize, "max-attempts": c.MaxAttempts,
	} {
		must(n >= 1, "%s: %d is not above 0", name, n)
	}
	for name, d := range map[string]time.Duration{
		"gc-grace": c.GCGrace, "hello-timeout": c.HelloTimeout, "frame-timeout": c.FrameTimeout, "write-timeout": c.WriteTimeout,
		"disk-check-interval": c.DiskCheckInterval, "shutdown-timeout": c.ShutdownTimeout,
	} {
		must(d > 0, "%s: %v is not above 0", name, d)
	}
	must(c.IdleTimeout >= 0, "idle-timeout: %v is below 0", c.IdleTimeout)
	must(c.RetryInitial > 0 && c.RetryMax >= c.RetryInitial, "retry-initial, retry-max: %v to %v is no range", c.RetryInitial, c.RetryMax)
	must(c.RetryMultiplier >= 1 && c.RetryMultiplier <= 1000, "retry-multiplier: %v is outside 1 to 1000", c.RetryMultiplier)
	must(c.RetryJitter >= 0 && c.RetryJitter <= 1, "retry-jitter: %v is outside 0 to 1", c.RetryJitter)
	must(c.DiskReserve >= c.DiskStop, "disk-reserve: %v is below disk-stop (%v)", c.DiskReserve, c.DiskStop)
	must(c.CacheSize >= 1<<20, "cache-size: %v is below 1 MiB", c.CacheSize)
	must(c.MemTableSize >= 1<<20 && c.MemTableSize <= 1<<30, "memtable-size: %v is outside 1 MiB to 1 GiB", c.MemTableSize)
	must((c.TLSCert == "") == (c.TLSKey == ""), "tls-cert, tls-key: both or none")
	must(c.TLSClientCA == "" || c.TLSCert != "", "tls-client-ca: needs tls-cert")
	must(oneOf(c.LogLevel, "debug", "info", "warn", "error"), "log-level: %q is not debug, info, warn or error", c.LogLevel)
	must(oneOf(c.LogFormat, "text", "json"), "log-format: %q is not text or json", c.LogFormat)
	return errors.Join(problems...)
}

func oneOf(s string, all ...string) bool {
	for _, a := range all {
		if s == a {
			return true
		}
	}
	return false
}

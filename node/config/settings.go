package config

import (
	"time"

	"github.com/spf13/pflag"
)

// Setting is one setting of a server by its name.
type Setting struct {
	Name  string // flag, key of the file, and in upper case the variable
	Help  string
	Value pflag.Value
}

// Settings gives every setting of a configuration; setting a value changes the
// configuration.
func (c *Config) Settings() []Setting {
	text := func(p *string) pflag.Value { return textValue{p} }
	number := func(p *int) pflag.Value { return intValue{p} }
	share := func(p *float64) pflag.Value { return floatValue{p} }
	span := func(p *time.Duration) pflag.Value { return durationValue{p} }
	return []Setting{
		{"data", "directory of everything the node keeps; never shared, never copied to make a second node", text(&c.Data)},
		{"name", "name of the node, fixed with the data directory (default: the peer address)", text(&c.Name)},
		{"listen", "address of the client port", text(&c.Listen)},
		{"peer-listen", "address for other nodes", text(&c.PeerListen)},
		{"http-listen", "address for health and metrics; empty: none", text(&c.HTTPListen)},
		{"zone", "failure domain of the node", text(&c.Zone)},
		{"replicas", "copies of each task; counts when the cluster is made", number(&c.Replicas)},
		{"partitions", "slices of the ID space, 1 to 4096; fixed when the cluster is made", number(&c.Partitions)},
		{"eta", "bound on clock difference plus delay; larger delays the take-over from dead workers, too small breaks exclusion", span(&c.Eta)},
		{"buffer", "added to a lease before its task may be handed on, at least eta; 0: eta", span(&c.Buffer)},
		{"gc-grace", "how long deleted tasks are remembered; unknown IDs older than this are refused", span(&c.GCGrace)},
		{"max-payload", "largest payload of a task, up to 16MiB", &c.MaxPayload},
		{"max-in-flight", "open requests per connection; past it the server stops reading", number(&c.MaxInFlight)},
		{"max-connections", "client connections, about 10 KiB each", number(&c.MaxConnections)},
		{"max-waiters", "requests that wait for work or updates; past it Overloaded", number(&c.MaxWaiters)},
		{"max-queues", "queue names; past it Overloaded", number(&c.MaxQueues)},
		{"max-inbox", "request bytes waiting for the core; past it Overloaded", &c.MaxInbox},
		{"hello-timeout", "time for the first frame of a connection", span(&c.HelloTimeout)},
		{"frame-timeout", "time from first to last byte of a frame", span(&c.FrameTimeout)},
		{"write-timeout", "time a client may leave an answer unread", span(&c.WriteTimeout)},
		{"idle-timeout", "closes connections without any byte; 0: never", span(&c.IdleTimeout)},
		{"shutdown-timeout", "how long a stopping server waits for its clients", span(&c.ShutdownTimeout)},
		{"default-lease", "lease of a claim that asks for none, 1s to 24h", span(&c.DefaultLease)},
		{"max-attempts", "attempts before a task is dead", number(&c.MaxAttempts)},
		{"retry-initial", "delay after the first failure", span(&c.RetryInitial)},
		{"retry-max", "longest delay between attempts", span(&c.RetryMax)},
		{"retry-multiplier", "factor between delays, 1 to 1000", share(&c.RetryMultiplier)},
		{"retry-jitter", "random share of a delay, 0 to 1", share(&c.RetryJitter)},
		{"disk-reserve", "free space below which enqueues are refused", &c.DiskReserve},
		{"disk-stop", "free space below which the server stops", &c.DiskStop},
		{"disk-check-interval", "how often the free space is looked at", span(&c.DiskCheckInterval)},
		{"cache-size", "block cache; counts fully as memory", &c.CacheSize},
		{"memtable-size", "one memtable, up to four are in memory; larger writes less and restarts slower", &c.MemTableSize},
		{"head-size", "ready tasks in memory per queue and partition, 33 bytes each", number(&c.HeadSize)},
		{"auth-token-file", "file with the token that clients must send; empty: none", text(&c.AuthTokenFile)},
		{"tls-cert", "PEM certificate of the client port; empty: no TLS", text(&c.TLSCert)},
		{"tls-key", "PEM key of the certificate", text(&c.TLSKey)},
		{"tls-client-ca", "PEM authorities; with it clients must show a certificate", text(&c.TLSClientCA)},
		{"log-level", "debug, info, warn or error", text(&c.LogLevel)},
		{"log-format", "text or json", text(&c.LogFormat)},
	}
}

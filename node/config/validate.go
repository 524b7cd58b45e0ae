package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/ring"
)

// problems collects what is wrong.
type problems []error

func (p *problems) add(bad bool, format string, args ...any) {
	if bad {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

// between checks a number, and says which numbers are good.
func between[T int | Size | float64](p *problems, name string, v, low, high T) {
	p.add(!(v >= low && v <= high), "%s: %v is not between %v and %v", name, v, low, high)
}

func lasts(p *problems, name string, v, low, high time.Duration) {
	p.add(v < low || v > high, "%s: %s is not between %s and %s", name, formatDuration(v), formatDuration(low), formatDuration(high))
}

// label checks what people call something. Other nodes take no text that is not
// UTF-8, and the directory would keep the name by then.
func label(p *problems, name, text string) {
	p.add(len(text) > maxName, "%s: %d bytes are over %d", name, len(text), maxName)
	p.add(!utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl), "%s: %q has characters that cannot be printed, or is not UTF-8", name, text)
}

// Validate checks everything that can be checked without looking at the
// machine. The error joins one error per problem, nil when there is none.
func (c *Config) Validate() error {
	var p problems
	p.add(c.Data == "", "data: the data directory has no path")
	label(&p, "name", c.Name)
	label(&p, "zone", c.Zone)
	between(&p, "weight", c.Weight, 1, ring.MaxWeight)
	c.checkAddresses(&p)
	c.checkPeers(&p)
	c.checkSites(&p)
	between(&p, "replicas", c.Replicas, 1, maxReplicas)
	between(&p, "partitions", c.Partitions, 1, maxPartitions)
	lasts(&p, "eta", c.Eta, time.Millisecond, 5*time.Minute)
	p.add(c.Buffer != 0 && c.Buffer < c.Eta, "buffer: %s is less than eta (%s); leases would not be exclusive; 0 means eta", formatDuration(c.Buffer), formatDuration(c.Eta))
	p.add(c.GCGrace <= 2*c.Eta, "gc-grace: %s is not more than twice eta (%s)", formatDuration(c.GCGrace), formatDuration(c.Eta))
	lasts(&p, "retention", c.Retention, 0, longestRetention)
	lasts(&p, "dead-retention", c.DeadRetention, 0, longestRetention)
	p.add(c.CollectInterval != 0 && (c.CollectInterval < time.Second || c.CollectInterval > 24*time.Hour), "collect-interval: %s is not between 1s and 24h, nor 0", formatDuration(c.CollectInterval))
	p.add(c.RetentionPolicy == "archive" && c.ArchiveDir == "", "retention-policy: archive needs archive-dir")
	c.checkSnapshots(&p)
	c.checkLimits(&p)
	c.checkTimes(&p)
	p.add(c.DiskStop < 0 || c.DiskReserve.bytes() < c.DiskStop.bytes(), "disk-reserve: %s is less than disk-stop (%s); the server would stop before it refuses", c.DiskReserve.bytes(), c.DiskStop.bytes())
	p.add(c.DiskReserve.share() != 0 && c.DiskStop.share() > c.DiskReserve.share(), "disk-reserve: %d%% of the volume is less than disk-stop (%d%%); the server would stop before it refuses", c.DiskReserve.share(), c.DiskStop.share())
	p.add(c.CacheSize < 1<<20, "cache-size: %s is less than 1MiB", c.CacheSize)
	between(&p, "memtable-size", c.MemTableSize, minMemTable, maxMemTable)
	p.add((c.TLSCert == "") != (c.TLSKey == ""), "tls-cert, tls-key: one is useless without the other")
	peerTLS := 0
	for _, file := range []string{c.PeerTLSCert, c.PeerTLSKey, c.PeerTLSCA} {
		if file != "" {
			peerTLS++
		}
	}
	p.add(peerTLS != 0 && peerTLS != 3, "peer-tls-cert, peer-tls-key, peer-tls-ca: all three or none; nodes show each other certificates, and know by whom they must be signed")
	p.add(len(c.PeerTLSNames) > 0 && c.PeerTLSCert == "", "peer-tls-names: they are looked for in certificates of nodes: needs peer-tls-cert, peer-tls-key and peer-tls-ca")
	p.add(len(c.PeerTLSNames) > maxNames, "peer-tls-names: %d patterns are over %d", len(c.PeerTLSNames), maxNames)
	lasts(&p, "tls-reload", c.TLSReload, 0, 24*time.Hour)
	p.add(c.Auth != "" && c.Auth != "access" && c.Auth != "open", "auth: %q is neither access nor open, nor empty", c.Auth)
	p.add(c.AuthMaxStale < 0, "auth-max-stale: %v is negative", c.AuthMaxStale)
	p.add(c.Auth == "open" && c.AuthTokenFile != "", "auth: open asks nobody for a token, and auth-token-file is given; take one of them out")
	c.checkIdentities(&p)
	p.add(c.AuditLog == "", "audit-log: say off, stderr, syslog or a file")
	p.add(c.TLSClientCA != "" && c.TLSCert == "", "tls-client-ca: needs tls-cert and tls-key")
	p.add(!ForTests && (c.TestClockOffset != 0 || c.TestClockRate != 0 || c.TestClockFile != ""),
		"test-clock-offset, test-clock-rate, test-clock-file: the clock of this program cannot be set wrong, it was not built for tests (make build-test)")
	between(&p, "test-clock-rate", c.TestClockRate, -clock.MaxRate, clock.MaxRate)
	for _, s := range c.Settings() {
		// A struct that was filled in by hand can hold what no text would set.
		if s.Name == "retention-policy" || s.Name == "log-level" || s.Name == "audit-data" || s.Name == "auth-cert" || s.Name == "log-format" {
			if err := s.Set(s.String()); err != nil {
				p.add(true, "%s: %w", s.Name, err)
			}
		}
	}
	return errors.Join(p...)
}

// checkIdentities checks how clients may say who they are, beside tokens of the register.
func (c *Config) checkIdentities(p *problems) {
	p.add(c.AuthCert != "none" && (c.Auth != "access" || c.TLSClientCA == ""), "auth-cert: %s asks for certificates; it needs auth: access and tls-client-ca", c.AuthCert)
	p.add(c.AuthAnonymous != "" && c.Auth != "access" && (c.AuthTokenFile == "" || c.Auth == "open"), "auth-anonymous: nobody is asked for a token; it needs auth: access or auth-token-file")
	if err := guard.CheckName(c.AuthAnonymous); c.AuthAnonymous != "" && err != nil {
		p.add(true, "auth-anonymous: %w", err)
	}
	given := 0
	for _, text := range []string{c.AuthJWTIssuer, c.AuthJWTAudience, c.AuthJWTKeys} {
		if text != "" {
			given++
		}
	}
	p.add(given != 0 && given != 3, "auth-jwt-issuer, auth-jwt-audience, auth-jwt-keys: all three or none")
	p.add(given != 0 && c.Auth != "access", "auth-jwt-keys: needs auth: access")
	p.add(given != 0 && (c.AuthJWTRoles == "" || c.AuthJWTTenant == ""), "auth-jwt-roles, auth-jwt-tenant: name a claim")
	lasts(p, "auth-max-life", c.AuthMaxLife, time.Minute, 30*24*time.Hour)
}

// checkSnapshots checks where archives and snapshots go, and come from.
func (c *Config) checkSnapshots(p *problems) {
	for _, a := range []struct{ name, address string }{{"archive-dir", c.ArchiveDir}, {"snapshot-to", c.SnapshotTo}, {"backup-tasks-to", c.BackupTasksTo}, {"restore-from", c.RestoreFrom}} {
		if a.address != "" {
			s, err := objects.Open(a.address)
			p.add(err != nil, "%s: %w", a.name, err)
			if err == nil {
				_ = s.Close() // it has done nothing yet
			}
		}
	}
	p.add(c.SnapshotEvery != 0 && (c.SnapshotEvery < time.Second || c.SnapshotEvery > 24*time.Hour), "snapshot-every: %s is not between 1s and 24h, nor 0", formatDuration(c.SnapshotEvery))
	p.add(c.SnapshotTo != "" && c.SnapshotEvery == 0, "snapshot-to: nothing is ever written there with snapshot-every 0")
	lasts(p, "backup-tasks-every", c.BackupTasksEvery, time.Second, 30*24*time.Hour)
	between(p, "backup-tasks-keep", c.BackupTasksKeep, 1, 100_000)
	between(p, "backup-tasks-incrementals", c.BackupTasksIncrementals, 0, 1000)
	p.add(c.BackupTasksRate < 0, "backup-tasks-rate: %s is less than nothing", c.BackupTasksRate)
	p.add(c.BackupTasksKeyFile != "" && c.BackupTasksTo == "", "backup-tasks-key-file: nothing is encrypted without backup-tasks-to")
	between(p, "snapshot-keep", c.SnapshotKeep, 1, 100_000)
	p.add(c.RestoreFrom != "" && len(c.Join) > 0, "restore-from, join: a restore begins a cluster anew, and joining enters one that is there; give restore-from to one node and have the others join it")
}

func (c *Config) checkAddresses(p *problems) {
	taken := make(map[string]string)
	for _, a := range []struct{ name, addr string }{{"listen", c.Listen}, {"peer-listen", c.PeerListen}, {"http-listen", c.HTTPListen}} {
		_, port, err := net.SplitHostPort(a.addr)
		if err != nil {
			p.add(true, "%s: %q is not host:port", a.name, a.addr)
			continue
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || port == "" {
			p.add(true, "%s: %q has no port between 0 and 65535", a.name, a.addr)
		} else if n != 0 {
			p.add(taken[a.addr] != "", "%s: %s is taken by %s", a.name, a.addr, taken[a.addr])
			taken[a.addr] = a.name
		}
	}
}

// checkPeers checks what other nodes are told, and where they are looked for.
func (c *Config) checkPeers(p *problems) {
	dialled := func(name, addr string) {
		host, port, err := net.SplitHostPort(addr)
		n, bad := strconv.ParseUint(port, 10, 16)
		p.add(err != nil || bad != nil || n == 0 || wildcard(host) || len(addr) > maxName, "%s: %q is not host:port of one node", name, addr)
	}
	p.add(len(c.Join) > maxJoin, "join: %d addresses are over %d", len(c.Join), maxJoin)
	for _, addr := range c.Join {
		dialled("join", addr)
	}
	p.add(c.BootstrapExpect < 0 || c.BootstrapExpect == 1 || c.BootstrapExpect > maxJoin, "bootstrap-expect: %d is not between 2 and %d, nor 0; a cluster of one needs neither it nor join", c.BootstrapExpect, maxJoin)
	p.add(c.BootstrapExpect > len(c.Join)+1, "bootstrap-expect, join: %d nodes are expected, and join names %d; name all of them", c.BootstrapExpect, len(c.Join))
	if c.PeerAdvertise != "" {
		dialled("peer-advertise", c.PeerAdvertise)
		return
	}
	host, _, err := net.SplitHostPort(c.PeerListen)
	p.add(err == nil && wildcard(host), "peer-listen: %s is every address of this machine; say with peer-advertise at which one other nodes reach it", c.PeerListen)
}

// maxSites bounds the lists of hosts and of other sites.
const maxSites = 100

// checkSites checks by which names the HTTP port is asked, and by whose pages.
func (c *Config) checkSites(p *problems) {
	p.add(len(c.HTTPHosts) > maxSites, "http-hosts: %d names are over %d", len(c.HTTPHosts), maxSites)
	for _, name := range c.HTTPHosts {
		p.add(!hostAndPort(name), "http-hosts: %q is not host or host:port, such as norn.example.com; neither https:// nor a path belongs there", name)
	}
	p.add(len(c.HTTPCORSOrigins) > maxSites, "http-cors-origins: %d sites are over %d", len(c.HTTPCORSOrigins), maxSites)
	for _, origin := range c.HTTPCORSOrigins {
		scheme, host, ok := strings.Cut(origin, "://")
		p.add(!ok || scheme != "https" && scheme != "http" || !hostAndPort(host), "http-cors-origins: %q is not https://HOST or https://HOST:PORT; every site is named, * is none", origin)
	}
	p.add(len(c.ProxyFrom) > maxSites, "proxy-from: %d networks are over %d", len(c.ProxyFrom), maxSites)
	p.add(c.MetricsAuth && c.Auth != "access" && c.AuthTokenFile == "" && c.TLSClientCA == "", "metrics-auth: there is nothing to ask for; it needs auth-token-file or tls-client-ca")
}

// hostAndPort tells whether a text is a host as it stands in an address, with a port or
// without.
func hostAndPort(text string) bool {
	u, err := url.Parse("http://" + text)
	if err != nil || u.Host != text || u.Hostname() == "" || strings.HasSuffix(text, ":") || len(text) > maxName {
		return false
	}
	return !strings.ContainsFunc(u.Hostname(), func(r rune) bool {
		return !(r == '.' || r == '-' || r == '_' || r == ':' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	})
}

// wildcard tells whether a host stands for every address.
func wildcard(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// MostQueues bounds [Config.MaxQueues]: the counters of all queues are one answer, and it
// has to fit a frame.
const MostQueues = 100_000

func (c *Config) checkLimits(p *problems) {
	size := func(name string, v, low, high int) {
		p.add(v < low || v > high, "%s: %s is not between %s and %s", name, Size(v), Size(low), Size(high))
	}
	size("max-payload", c.MaxPayload, 1, proto.MaxPayloadCeiling)
	size("max-inbox", c.MaxInbox, proto.MaxFrame, 16<<30)
	p.add(c.Quarantine < 1 || c.Quarantine > 1<<40, "quarantine: %s is not between 1 byte and 1 TiB", c.Quarantine)
	const many = 1 << 24
	between(p, "max-in-flight", c.MaxInFlight, 1, many)
	between(p, "max-connections", c.MaxConnections, 1, many)
	between(p, "max-http-connections", c.MaxHTTPConnections, 1, many)
	between(p, "max-claims", c.MaxClaims, 1, many)
	between(p, "max-waiters", c.MaxWaiters, 1, many)
	between(p, "max-queues", c.MaxQueues, 1, MostQueues)
	between(p, "metrics-queues", c.MetricsQueues, 0, MostQueues)
	between(p, "head-size", c.HeadSize, 2, many)
	between(p, "max-attempts", c.MaxAttempts, 1, 1_000_000)
	between(p, "retry-multiplier", c.RetryMultiplier, 1, 1000)
	between(p, "retry-jitter", c.RetryJitter, 0, 1)
	between(p, "otlp-share", c.OTLPShare, 0, 1)
	if u, err := url.Parse(c.OTLPEndpoint); c.OTLPEndpoint != "" {
		p.add(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "", "otlp-endpoint: %q is no address such as http://collector:4318", c.OTLPEndpoint)
	}
}

func (c *Config) checkTimes(p *problems) {
	const soon, late = 10 * time.Millisecond, 24 * time.Hour
	lasts(p, "otlp-interval", c.OTLPInterval, time.Second, late)
	lasts(p, "hello-timeout", c.HelloTimeout, soon, late)
	lasts(p, "frame-timeout", c.FrameTimeout, soon, late)
	lasts(p, "write-timeout", c.WriteTimeout, soon, late)
	p.add(c.IdleTimeout < 0, "idle-timeout: %s is negative; 0 means never", c.IdleTimeout)
	lasts(p, "http-idle-timeout", c.HTTPIdleTimeout, soon, late)
	lasts(p, "stop-timeout", c.StopTimeout, soon, time.Hour)
	lasts(p, "peer-heartbeat", c.PeerHeartbeat, soon, time.Minute)
	lasts(p, "peer-timeout", c.PeerTimeout, soon, 5*time.Minute)
	p.add(c.PeerTimeout < 2*c.PeerHeartbeat, "peer-timeout: %s is less than two heartbeats (peer-heartbeat, %s)", formatDuration(c.PeerTimeout), formatDuration(c.PeerHeartbeat))
	lasts(p, "register-heartbeat", c.RegisterHeartbeat, soon, time.Minute)
	lasts(p, "register-election-timeout", c.RegisterElectionTimeout, soon, 5*time.Minute)
	p.add(c.RegisterElectionTimeout < 2*c.RegisterHeartbeat, "register-election-timeout: %s is less than two heartbeats (register-heartbeat, %s)", formatDuration(c.RegisterElectionTimeout), formatDuration(c.RegisterHeartbeat))
	lasts(p, "repair-interval", c.RepairInterval, soon, time.Hour)
	lasts(p, "gossip-interval", c.GossipInterval, soon, time.Minute)
	lasts(p, "default-lease", c.DefaultLease, minLease, maxLease)
	lasts(p, "disk-check-interval", c.DiskCheckInterval, soon, time.Minute)
	p.add(c.DiskStall != 0 && (c.DiskStall < soon || c.DiskStall > time.Hour), "disk-stall: %s is not from %s to %s, and not 0", c.DiskStall, soon, time.Hour)
	lasts(p, "retry-initial", c.RetryInitial, time.Millisecond, longestRetry)
	lasts(p, "retry-max", c.RetryMax, time.Millisecond, longestRetry)
	lasts(p, "session-period", c.SessionPeriod, soon, proto.MaxSessionTimeout)
	lasts(p, "session-gap", c.SessionGap, soon, proto.MaxSessionTimeout)
	lasts(p, "session-check", c.SessionCheck, soon, proto.MaxSessionTimeout/4)
	lasts(p, "session-lose", c.SessionLose, soon, proto.MaxSessionTimeout)
	p.add(c.SessionGap < 2*c.SessionPeriod, "session-gap: %s is less than two periods (session-period, %s)", formatDuration(c.SessionGap), formatDuration(c.SessionPeriod))
	p.add(2*c.SessionCheck+3*c.SessionPeriod > proto.MaxSessionTimeout, "session-check: twice %s and three periods (session-period) are over %s", formatDuration(c.SessionCheck), formatDuration(proto.MaxSessionTimeout))
	life := c.SessionGap + c.SessionLose
	p.add(c.NameLease != 0 && (c.NameLease < 2*life || c.NameLease > 24*time.Hour), "name-lease: %s is not between %s, twice session-gap and session-lose together, and 24h, nor 0", formatDuration(c.NameLease), formatDuration(2*life))
	p.add(c.RetryMax < c.RetryInitial, "retry-max: %s is less than retry-initial (%s)", formatDuration(c.RetryMax), formatDuration(c.RetryInitial))
}

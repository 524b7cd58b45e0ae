package logins

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/norn-dev/norn/internal/seldom"

	"github.com/prometheus/client_golang/prometheus"
)

// Ports that people and nodes log in at.
const (
	Client = "client"
	HTTP   = "http"
	Peer   = "peer"
)

// Reasons of failures. Those that guess are slowed.
const (
	NoToken     = "missing_token"
	WrongToken  = "wrong_token"
	NoSecret    = "missing_secret"
	WrongSecret = "wrong_secret"
	Certificate = "certificate" // none was shown, or one that is not good
	Name        = "name"        // the certificate is another node's
)

const (
	// free is how many wrong guesses in a row are answered at once: people mistype.
	free = 3
	// firstWait is before the answer to the next one, doubling up to longestWait, which a
	// client's time-out has room for.
	firstWait   = 100 * time.Millisecond
	longestWait = 2 * time.Second
	// forgets is after how long without a failure an address begins anew.
	forgets = time.Minute
	// trusts is for how long it is known that somebody has logged in from an address.
	trusts = time.Hour
	// maxWaiting bounds the answers that wait for one address: each holds a connection.
	maxWaiting = 16
	// maxAddresses bounds what is remembered.
	maxAddresses = 8192
)

// Try is one attempt to log in.
type Try struct {
	// Port is where: Client, HTTP or Peer.
	Port string
	// Remote is where from.
	Remote net.Addr
	// Reason is why it has failed; "": it has not.
	Reason string
	// Shared says that the address is not a client's own, as that of a proxy.
	Shared bool
}

// Watch looks at all logins of a node. A nil Watch looks at none.
type Watch struct {
	log      *slog.Logger
	failures *prometheus.CounterVec

	mu    sync.Mutex // guards what follows
	lines map[[2]string]*seldom.Line
	from  map[netip.Prefix]*address
}

// address is what is known of who comes from one.
type address struct {
	failed  int
	last    time.Time // failure
	right   time.Time // the last right login
	waiting int
}

// New makes a watch; it is a Collector.
func New(log *slog.Logger) *Watch {
	w := &Watch{
		log: log, lines: make(map[[2]string]*seldom.Line), from: make(map[netip.Prefix]*address),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "norn_auth_failures_total",
			Help: "Connections and requests that were refused because of who sends them, or who they do not say that they are."}, []string{"port", "reason"}),
	}
	for port, reasons := range map[string][]string{ // there from the start on, so that a rise can be seen
		Client: {NoToken, WrongToken, Certificate}, HTTP: {NoToken, WrongToken, Certificate}, Peer: {NoSecret, WrongSecret, Certificate, Name},
	} {
		for _, reason := range reasons {
			w.failures.WithLabelValues(port, reason)
		}
	}
	return w
}

// Describe gives the one metric.
func (w *Watch) Describe(to chan<- *prometheus.Desc) { w.failures.Describe(to) }

// Collect gives the counts.
func (w *Watch) Collect(to chan<- prometheus.Metric) { w.failures.Collect(to) }

// Close says what waits to be logged.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lines { // Any order: each is a line by itself.
		l.Close()
	}
}

// Judge takes one attempt, and returns when it may be answered. false: it is not to be
// answered as it is, but refused for now, because too many answers to its address wait. ctx
// ends the wait.
func (w *Watch) Judge(ctx context.Context, t Try) bool {
	if w == nil {
		return true
	}
	if t.Reason != "" {
		w.note(&t)
	}
	from, own := ownAddress(&t)
	if !own || t.Reason != "" && t.Reason != WrongToken && t.Reason != WrongSecret {
		return true
	}
	a, wait, ok := w.weigh(from, t.Reason == "")
	if wait == 0 || !ok {
		return ok
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a.waiting--
	if t.Reason == "" {
		a.right = time.Now()
	}
	return true
}

// weigh says for how long an attempt from an address waits, and whether it may.
func (w *Watch) weigh(from netip.Prefix, right bool) (a *address, wait time.Duration, ok bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if a = w.from[from]; a == nil {
		w.room(now)
		a = &address{}
		w.from[from] = a
	}
	if now.Sub(a.last) > forgets {
		a.failed = 0
	}
	known := !a.right.IsZero() && now.Sub(a.right) < trusts
	if right && (known || a.failed <= free) {
		a.right = now
		return a, 0, true
	}
	if !right {
		a.failed, a.last = a.failed+1, now
	}
	if a.failed <= free {
		return a, 0, true
	}
	if a.waiting >= maxWaiting {
		return a, 0, false
	}
	a.waiting++
	wait = longestWait
	if n := a.failed - free - 1; n < 5 {
		wait = min(wait, firstWait<<n)
	}
	return a, wait, true
}

// room makes room for one more address; mu is held.
func (w *Watch) room(now time.Time) {
	if len(w.from) < maxAddresses {
		return
	}
	for at, a := range w.from { // Any order: all that say nothing any more.
		if a.waiting == 0 && now.Sub(a.last) > forgets && now.Sub(a.right) > forgets {
			delete(w.from, at)
		}
	}
	if len(w.from) >= maxAddresses {
		clear(w.from) // who waits has its own
	}
}

// note counts and logs a failure.
func (w *Watch) note(t *Try) {
	w.failures.WithLabelValues(t.Port, t.Reason).Inc()
	key := [2]string{t.Port, t.Reason}
	w.mu.Lock()
	l := w.lines[key]
	if l == nil {
		l = &seldom.Line{}
		w.lines[key] = l
	}
	w.mu.Unlock()
	port, reason, remote := t.Port, t.Reason, ""
	if t.Remote != nil {
		remote = t.Remote.String()
	}
	l.Say(func(times int) {
		w.log.Warn("auth.failed", "port", port, "reason", reason, "remote", remote, "times", times)
	})
}

// ownAddress is what stands for the machine that an attempt comes from; false: it is this one,
// not known, or none that a client has for itself. Of IPv6 it is the network, of which one
// machine has all addresses.
func ownAddress(t *Try) (netip.Prefix, bool) {
	if t.Shared || t.Remote == nil {
		return netip.Prefix{}, false
	}
	at, err := netip.ParseAddrPort(t.Remote.String())
	if err != nil || at.Addr().Unmap().IsLoopback() {
		return netip.Prefix{}, false
	}
	ip := at.Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, err := ip.Prefix(bits)
	return p, err == nil
}

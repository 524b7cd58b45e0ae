package web

import (
	"cmp"
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// waits are the requests that wait for something to happen, and the logs that are followed:
// at most so many that the rest of the connections is left for what is answered at once.
// When all may wait that can, whoever has the most gives way to who has less, first among
// tokens and certificates, then among the addresses of one: nobody can keep others from
// waiting, and nobody is held to a number while nobody else asks. What comes from this machine, or through one
// proxy, is of one address.
type waits struct {
	most int

	mu   sync.Mutex // guards what follows
	open int
	of   map[principal]*waiters
}

// principal is who waits: the hash of a token or of a certificate; zero: it is not known.
type principal [sha256.Size]byte

// waiters are the waits of one principal: by address, of *wait, the oldest first.
type waiters struct {
	n  int
	at map[string]*list.List
}

// wait is one of them.
type wait struct {
	who     principal
	address string
	place   *list.Element // in its list; nil: it is over
	yield   context.CancelCauseFunc
}

// errYield is why a wait ends that gave way.
var errYield = errors.New("it gave way to another")

func newWaits(most int) *waits {
	return &waits{most: max(most-most/4, 1), of: make(map[principal]*waiters)}
}

// yielded is the answer to who cannot wait any longer, or not begin to.
func yielded() *failure {
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "as many requests wait at this node as may, and others wait less than you; try again, or another node")
	e.RetryAfter = time.Second
	return failed(http.StatusTooManyRequests, e)
}

// enter counts a wait until leave. Its context ends when the request does, and with
// errYield when it is to give way. It fails when nobody has to give way to it.
func (w *waits) enter(r *http.Request) (ctx context.Context, leave func(), f *failure) {
	one := &wait{who: principalOf(r), address: addressOf(r)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open >= w.most {
		victim := w.victim(one)
		if victim == nil {
			return nil, nil, yielded()
		}
		w.forget(victim)
		victim.yield(errYield)
	}
	ctx, one.yield = context.WithCancelCause(r.Context())
	all := w.of[one.who]
	if all == nil {
		all = &waiters{at: make(map[string]*list.List)}
		w.of[one.who] = all
	}
	if all.at[one.address] == nil {
		all.at[one.address] = list.New()
	}
	one.place = all.at[one.address].PushBack(one)
	all.n++
	w.open++
	return ctx, func() {
		w.mu.Lock()
		w.forget(one)
		w.mu.Unlock()
		one.yield(nil)
	}, nil
}

// forget takes a wait out; mu is held.
func (w *waits) forget(one *wait) {
	if one.place == nil {
		return
	}
	all := w.of[one.who]
	at := all.at[one.address]
	at.Remove(one.place)
	one.place = nil
	w.open--
	if at.Len() == 0 {
		delete(all.at, one.address)
	}
	if all.n--; all.n == 0 {
		delete(w.of, one.who)
	}
}

// victim is who gives way to a newcomer; nil: nobody has more than it. mu is held.
func (w *waits) victim(newcomer *wait) *wait {
	mine, most := w.of[newcomer.who], w.of[newcomer.who]
	for _, all := range w.of {
		if most == nil || all.n > most.n {
			most = all
		}
	}
	has := 0 // at the newcomer's address, where it is to do with its own kind
	switch {
	case mine == nil && most.n > 1, mine != nil && most.n > mine.n+1:
	case mine == nil:
		return nil
	default:
		most = mine
		if at := mine.at[newcomer.address]; at != nil {
			has = at.Len()
		}
	}
	var oldest *list.List
	for _, at := range most.at {
		if oldest == nil || at.Len() > oldest.Len() {
			oldest = at
		}
	}
	if most == mine && oldest.Len() <= has+1 {
		return nil
	}
	return oldest.Front().Value.(*wait)
}

// principalOf tells who sends a request that the guard let through.
func principalOf(r *http.Request) principal {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return sha256.Sum256(r.TLS.PeerCertificates[0].Raw)
	}
	if token := cmp.Or(tokenOf(r), r.Header.Get("Authorization")); token != "" {
		return sha256.Sum256([]byte(token))
	}
	return principal{}
}

// addressOf is where a request comes from, one for all of this machine.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsLoopback() {
		return ""
	}
	return host
}

// Describe gives the one metric.
func (w *waits) Describe(to chan<- *prometheus.Desc) { to <- waitsDesc }

var waitsDesc = prometheus.NewDesc("norn_http_waits", "Requests over HTTP that wait for something to happen, and logs that are followed.", nil, nil)

// Collect gives how many there are.
func (w *waits) Collect(to chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	to <- prometheus.MustNewConstMetric(waitsDesc, prometheus.GaugeValue, float64(w.open))
}

package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/internal/logins"
	"github.com/norn-dev/norn/internal/seldom"
	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Backend is what the HTTP port needs of a node.
type Backend interface {
	// Ready tells whether the node takes enqueues and hands out claims.
	Ready() (enqueue, claim bool)
	// Filled tells whether the node holds every copy that was planned for it when it started,
	// Spare whether it can be stopped without taking the majority from anything.
	Filled() bool
	Spare() bool
	// Alive is an error when the node must not go on.
	Alive() error
	// Gatherer gives the node's metrics.
	Gatherer() prometheus.Gatherer
	// Call carries out one request of the wire, of a caller whom it judges. dropped is never nil: it hears
	// that not a byte of the reply was passed on, so that grants are freed.
	Call(ctx context.Context, who *access.Caller, method nornv1.Method, request gproto.Message) (reply gproto.Message, err *proto.Error, dropped func())
}

// Options are what the HTTP port is given beside its backend.
type Options struct {
	// Logger gets what goes wrong while serving; nil: nothing is logged.
	Logger *slog.Logger
	// Pprof serves /debug/pprof.
	Pprof bool
	// Access judges who comes; nil: everybody may do everything.
	Access *access.Desk
	// Logins counts and slows failed logins; nil: nobody does.
	Logins *logins.Watch
	// MetricsAuth lets /metrics ask for what the API asks for.
	MetricsAuth bool
	// Hosts are names of this node beside those that OwnHost knows, with the port that
	// browsers see where it is not the usual one.
	Hosts []string
	// OwnHost tells whether a host, in lower case, is this node's; nil: none is.
	OwnHost func(host string) bool
	// CORSOrigins are the origins (https://HOST[:PORT]) of other sites whose pages may use
	// the API.
	CORSOrigins []string
	// TLS, when set, is offered on the same port, and the API is served over
	// nothing else; nil: all is plain.
	TLS *tls.Config
	// MaxConnections are served at once; 0: 4096. A sixteenth more (1 to 64) may be open:
	// then one that is not being served gives way to a new one. Three quarters of them may
	// wait for something to happen.
	MaxConnections int
	// HeaderTimeout is for the handshake and the head of a request, BodyTimeout
	// from its first byte to its last, WriteTimeout for one write of an answer;
	// 0: 10 s, 30 s, 30 s.
	HeaderTimeout, BodyTimeout, WriteTimeout time.Duration
	// IdleTimeout is without a request on a connection; 0: 2 min.
	IdleTimeout time.Duration
	// Room is how many bytes requests and large answers may take together; one is always
	// taken; 0: 256 MiB.
	Room int
}

func (o *Options) complete() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 4096
	}
	for d, otherwise := range map[*time.Duration]time.Duration{
		&o.HeaderTimeout: 10 * time.Second, &o.BodyTimeout: 30 * time.Second, &o.WriteTimeout: 30 * time.Second,
		&o.IdleTimeout: 2 * time.Minute,
	} {
		if *d == 0 {
			*d = otherwise
		}
	}
}

// maxHead is what the head of a request may be long.
const maxHead = 64 << 10

// Server is the HTTP port of a node. Make one with [NewServer].
type Server struct {
	// Handler answers requests.
	Handler http.Handler

	o        Options
	http     *http.Server
	metrics  *metrics
	places   *places
	refusals seldom.Line // in the log
}

// NewServer makes the server of the HTTP port; the caller listens.
func NewServer(b Backend, o Options) *Server {
	o.complete()
	m := newMetrics()
	s := &Server{o: o, metrics: m, Handler: handler(b, o, m), places: &places{most: o.MaxConnections, open: &m.open}}
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ConnContext:       withPlace,
		ReadHeaderTimeout: o.HeaderTimeout,
		ReadTimeout:       o.BodyTimeout,
		IdleTimeout:       o.IdleTimeout,
		MaxHeaderBytes:    maxHead,
		ErrorLog:          log.New(complaints{o.Logger, o.Logins}, "", 0),
		Protocols:         new(http.Protocols),
	}
	s.http.Protocols.SetHTTP1(true) // no HTTP/2: its streams would escape the limit on connections
	return s
}

// serve answers a request, the head of which is whole.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	placeOf(r).sign()
	s.Handler.ServeHTTP(w, r)
}

// complaints takes what the library has to say of its clients, who can make it say
// as much as they like.
type complaints struct {
	log    *slog.Logger
	logins *logins.Watch
}

// Write takes one line.
func (c complaints) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	c.log.Debug("http.error", "error", text)
	if _, rest, ok := strings.Cut(text, "TLS handshake error from "); ok && logins.SaysCertificate(rest) {
		from, _, _ := strings.Cut(rest, ": ")
		c.logins.Judge(context.Background(), logins.Try{Port: logins.HTTP, Remote: remoteOf(from), Reason: logins.Certificate})
	}
	return len(line), nil
}

// Shutdown lets answers on their way out, and ends when ctx does at the latest.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.refusals.Close()
	if err := s.http.Shutdown(ctx); err == nil {
		return nil
	}
	return s.http.Close()
}

func handler(b Backend, o Options, m *metrics) http.Handler {
	process := prometheus.NewRegistry()
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), m)
	mux := &paths{ServeMux: http.NewServeMux()}
	g := newGuard(o, m, mux)
	timed := func(pattern string, h http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			deadline(w, o.WriteTimeout)
			h(w, r)
		})
	}
	timed("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if err := b.Alive(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	timed("GET /readyz", func(w http.ResponseWriter, r *http.Request) { readyz(b, w, r) })
	readings := newScrapes(func() prometheus.Gatherer { return prometheus.Gatherers{b.Gatherer(), process} })
	readings.some = g.shownTo
	timed("GET /metrics", readings.ServeHTTP)
	document := openAPI(routes())
	timed("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document)
	})
	a := &api{b: b, o: o, guard: g, room: &room{limit: int64(cmp.Or(o.Room, maxRoom))}, waits: newWaits(o.MaxConnections)}
	process.MustRegister(a.waits)
	a.serve(mux, m)
	a.servePages(mux)
	if o.Pprof {
		for path, h := range map[string]http.HandlerFunc{"/debug/pprof/": pprof.Index, "/debug/pprof/profile": pprof.Profile, "/debug/pprof/trace": pprof.Trace} {
			mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
				deadline(w, 0) // a profile takes as long as was asked for
				h(w, r)
			})
		}
	}
	return g
}

// paths are the routes, and remember their patterns.
type paths struct {
	*http.ServeMux
	patterns []string
}

// HandleFunc adds a route.
func (p *paths) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	p.patterns = append(p.patterns, pattern)
	p.ServeMux.HandleFunc(pattern, h)
}

// deadline bounds the writes from now on; 0 lifts the bound.
func deadline(w http.ResponseWriter, timeout time.Duration) {
	until := time.Time{}
	if timeout > 0 {
		until = time.Now().Add(timeout)
	}
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(until) // a recorder of a test has none
}

// readyz answers for one role, or without one whether the node does all that is to be expected
// of it, so that the next one may be stopped.
func readyz(b Backend, w http.ResponseWriter, r *http.Request) {
	enqueue, claim := b.Ready()
	filled, spare := b.Filled(), b.Spare()
	ok := enqueue && claim && filled
	switch role := r.URL.Query().Get("role"); role {
	case "":
	case "enqueue":
		ok = enqueue
	case "claim":
		ok = claim
	case "restart":
		ok = spare
	default:
		http.Error(w, fmt.Sprintf("unknown role %q: use role=enqueue, role=claim or role=restart", role), http.StatusBadRequest)
		return
	}
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = fmt.Fprintf(w, "enqueue: %v\nclaim: %v\ncopies: %v\nrestart: %v\n", enqueue, claim, filled, spare)
}

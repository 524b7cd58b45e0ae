package web

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Backend is what the HTTP port needs of a node.
type Backend interface {
	// Ready tells whether the node takes enqueues and hands out claims.
	Ready() (enqueue, claim bool)
	// Alive is an error when the node must not go on.
	Alive() error
	// Gatherer gives the node's metrics.
	Gatherer() prometheus.Gatherer
}

// Options are what the HTTP port is given beside its backend.
type Options struct {
	// Logger gets what goes wrong while serving; nil: nothing is logged.
	Logger *slog.Logger
	// Pprof serves /debug/pprof.
	Pprof bool
}

// NewServer makes the server of the HTTP port; the caller listens and serves.
func NewServer(b Backend, o Options) *http.Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	process := prometheus.NewRegistry()
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if err := b.Alive(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { readyz(b, w, r) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{b.Gatherer(), process}, promhttp.HandlerOpts{}))
	if o.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
}

// readyz answers for one role, or for both without one.
func readyz(b Backend, w http.ResponseWriter, r *http.Request) {
	enqueue, claim := b.Ready()
	ok := enqueue && claim
	switch role := r.URL.Query().Get("role"); role {
	case "":
	case "enqueue":
		ok = enqueue
	case "claim":
		ok = claim
	default:
		http.Error(w, fmt.Sprintf("unknown role %q: use role=enqueue or role=claim", role), http.StatusBadRequest)
		return
	}
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = fmt.Fprintf(w, "enqueue: %v\nclaim: %v\n", enqueue, claim)
}

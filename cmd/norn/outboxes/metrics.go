package outboxes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/norn-dev/norn/client/outbox"
)

// scrapeTimeout bounds how long a scrape waits for the database.
const scrapeTimeout = 5 * time.Second

// relayMetrics are the figures of a relay and of its table.
type relayMetrics struct {
	relay *outbox.Relay
	box   *outbox.Outbox
	db    *sql.DB
	lost  func() uint64 // lines of the log
}

// Describe says nothing: what there is follows from Collect.
func (m relayMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect reads the counters, and looks at the table.
func (m relayMetrics) Collect(out chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name, help string, value float64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("norn_outbox_"+name, help, nil, nil), kind, value)
	}
	s := m.relay.Stats()
	for _, c := range []struct {
		name, help string
		n          uint64
	}{
		{"relayed_total", "Rows that Norn has taken and that are deleted.", s.Relayed},
		{"duplicates_total", "Rows that were sent before and deleted only now.", s.Duplicates},
		{"put_off_total", "Refusals of rows that are tried again.", s.PutOff},
		{"set_aside_total", "Rows that were refused for good.", s.Aside},
		{"batches_total", "Batches that were sent and settled.", s.Batches},
		{"log_lines_lost_total", "Lines of the log that could not be written: nobody reads them, or there is no room.", m.lost()},
		{"failures_total", "Times when the database or Norn could not do its part.", s.Failures},
	} {
		send(prometheus.CounterValue, c.name, c.help, float64(c.n))
	}
	send(prometheus.GaugeValue, "failing", "Failures since the last success; 0: all is well.", float64(s.Failing))
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	b, err := m.box.Backlog(ctx, m.db)
	if err != nil {
		return // failing says so
	}
	send(prometheus.GaugeValue, "waiting_rows", "Rows that wait to be sent, counted up to 100000.", float64(b.Waiting))
	send(prometheus.GaugeValue, "aside_rows", "Rows that are set aside, counted up to 100000.", float64(b.Aside))
	age := 0.0
	if !b.Oldest.IsZero() {
		age = max(time.Since(b.Oldest).Seconds(), 0)
	}
	send(prometheus.GaugeValue, "oldest_seconds", "How long about the oldest row has waited.", age)
}

// serveOutboxMetrics serves /metrics, and /readyz: 503 while nothing can be
// relayed. What it returns ends it.
func serveOutboxMetrics(listen string, m relayMetrics) (stop func(), err error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 2 * scrapeTimeout}))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s := m.relay.Stats(); s.Failing > 0 {
			http.Error(w, s.LastError, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: scrapeTimeout}
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return // the port is gone; the relay goes on
		}
	})
	return func() {
		_ = server.Close() // scrapes can be repeated
		running.Wait()
	}, nil
}

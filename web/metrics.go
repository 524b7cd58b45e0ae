package web

import (
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of the HTTP port.
type metrics struct {
	open     atomic.Int64
	gauge    prometheus.GaugeFunc
	refused  prometheus.Counter
	requests *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		refused:  prometheus.NewCounter(prometheus.CounterOpts{Name: "norn_http_connections_refused_total", Help: "Connections to the HTTP port that were closed for a new one because there were too many."}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "norn_http_requests_total", Help: "Requests to the HTTP API by path and status."}, []string{"path", "status"}),
	}
	m.gauge = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "norn_http_connections", Help: "Open connections to the HTTP port."}, func() float64 { return float64(m.open.Load()) })
	return m
}

// Describe gives what there is to collect.
func (m *metrics) Describe(c chan<- *prometheus.Desc) {
	for _, all := range []prometheus.Collector{m.gauge, m.refused, m.requests} {
		all.Describe(c)
	}
}

// Collect gives the values.
func (m *metrics) Collect(c chan<- prometheus.Metric) {
	for _, all := range []prometheus.Collector{m.gauge, m.refused, m.requests} {
		all.Collect(c)
	}
}

// counted counts what a handler answers, under the path as it is registered.
func (m *metrics) counted(path string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := &status{ResponseWriter: w}
		defer func() { m.requests.WithLabelValues(path, strconv.Itoa(s.code)).Inc() }()
		h(s, r)
	}
}

// status remembers what was answered; 0: nothing.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	if s.code == 0 {
		s.code = code
	}
	s.ResponseWriter.WriteHeader(code)
}

func (s *status) Write(b []byte) (int, error) {
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}

// Unwrap lets a ResponseController reach the connection.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

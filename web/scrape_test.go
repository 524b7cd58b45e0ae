package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// slowly counts readings, of which each takes half a second, and how many there are at once.
func slowly(t *testing.T, b *backend, readings *atomic.Int64) {
	var now atomic.Int64
	b.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "norn_slow", Help: "x"}, func() float64 {
		if now.Add(1) > 1 {
			t.Error("two gather at once")
		}
		<-time.After(500 * time.Millisecond)
		now.Add(-1)
		return float64(readings.Add(1))
	}))
}

// TestMetricsAreSharedForASecond: 32 connections that read /metrics without end made
// everybody else wait for the node; they cost one reading in a second and a half now.
func TestMetricsAreSharedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, readings := &backend{registry: prometheus.NewRegistry()}, new(atomic.Int64)
		slowly(t, b, readings)
		h := NewServer(b, Options{}).Handler
		end, answers := time.Now().Add(15*time.Second), new(atomic.Int64)
		var running sync.WaitGroup
		for range 32 {
			running.Go(func() {
				for time.Now().Before(end) {
					if code, body := fetch(t, h, "GET", "/metrics"); code != http.StatusOK || !strings.Contains(body, "norn_slow ") {
						t.Errorf("%d %s", code, body)
					}
					answers.Add(1)
					<-time.After(10 * time.Millisecond)
				}
			})
		}
		running.Wait()
		if n := readings.Load(); n < 10 || n > 11 {
			t.Errorf("%d readings in 15 s", n)
		}
		if n := answers.Load(); n < 32*500 {
			t.Errorf("%d answers", n)
		}
		<-time.After(scrapeShared)
		before := readings.Load()
		if _, body := fetch(t, h, "GET", "/metrics"); readings.Load() != before+1 || !strings.Contains(body, "norn_slow "+map[int64]string{11: "11", 12: "12"}[before+1]) {
			t.Error("a second later it got an old reading")
		}
	})
}

// TestMetricsCompressed: one reading, in both forms, for those who take it.
func TestMetricsCompressed(t *testing.T) {
	b := &backend{registry: prometheus.NewRegistry()}
	h := NewServer(b, Options{}).Handler
	for accept, packed := range map[string]bool{"": false, "gzip": true, "deflate, gzip;q=0.5": true, "gzip;q=0": false, "gzip; q=0.0, br": false, "GZIP": true, "br": false} {
		r := localRequest("GET", "/metrics", nil)
		r.Header.Set("Accept-Encoding", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var from io.Reader = w.Body
		if (w.Header().Get("Content-Encoding") == "gzip") != packed {
			t.Errorf("%q: %v", accept, w.Header())
		}
		if packed {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			from = z
		}
		text, err := io.ReadAll(from)
		if err != nil || !strings.Contains(string(text), "go_goroutines") || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
			t.Errorf("%q: %v, %v", accept, err, w.Header())
		}
	}
}

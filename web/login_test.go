package web

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/norn-dev/norn/internal/logins"
	"github.com/norn-dev/norn/node/access"

	"github.com/prometheus/client_golang/prometheus"
)

// TestFailedLoginsOfTheAPI: counted by why; slowed where the address is the client's own, and
// not through a proxy.
func TestFailedLoginsOfTheAPI(t *testing.T) {
	watch := logins.New(slog.New(slog.DiscardHandler))
	s := NewServer(&backend{registry: prometheus.NewRegistry()}, Options{Access: access.Of("secret"), Logins: watch})
	ask := func(from, auth, forwarded string) (int, time.Duration) {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/queues", nil)
		r.RemoteAddr = from
		if auth != "" {
			r.Header.Set("Authorization", auth)
		}
		if forwarded != "" {
			r.Header.Set("X-Forwarded-For", forwarded)
		}
		w, began := httptest.NewRecorder(), time.Now()
		s.Handler.ServeHTTP(w, r)
		return w.Code, time.Since(began)
	}
	for name, c := range map[string]struct {
		from, auth, forwarded string
		slow                  bool
	}{
		"wrong":           {"10.0.0.1:1", "Bearer guess", "", true},
		"through a proxy": {"10.0.0.2:1", "Bearer guess", "10.9.9.9", false},
		"this machine":    {"127.0.0.1:1", "Bearer guess", "", false},
		"missing":         {"10.0.0.3:1", "", "", false},
		"another scheme":  {"10.0.0.4:1", "Basic Z3Vlc3M=", "", false},
	} {
		var last time.Duration
		for range 5 {
			code, took := ask(c.from, c.auth, c.forwarded)
			if code != http.StatusUnauthorized {
				t.Errorf("%s: %d", name, code)
			}
			last = took
		}
		if (last >= 200*time.Millisecond) != c.slow {
			t.Errorf("%s: the fifth is answered after %s", name, last)
		}
	}
	_, _ = (complaints{slog.New(slog.DiscardHandler), watch}).Write([]byte("http: TLS handshake error from 10.0.0.1:5: tls: client didn't provide a certificate\n"))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(watch)
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all[0].GetMetric() {
		want := map[string]float64{"http wrong_token": 15, "http missing_token": 10, "http certificate": 1}[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()]
		if m.GetCounter().GetValue() != want {
			t.Errorf("%v, want %v", m, want)
		}
	}
}

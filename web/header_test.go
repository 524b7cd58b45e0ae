package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/norn-dev/norn/node/access"
)

// TestTheTokenBesideAPassword: where a proxy has Authorization for itself the token comes in a
// header of its own, and counts alone.
func TestTheTokenBesideAPassword(t *testing.T) {
	var called atomic.Int64
	h := NewServer(answering(&called), Options{Access: access.Of("next", "secret")}).Handler
	for _, tc := range []struct {
		own, authorization string
		want               int
	}{
		{"secret", "", 200}, {"next", "Basic dXNlcjpwYXNz", 200}, {"secret", "Bearer other", 200}, {"", "Bearer secret", 200},
		{"wrong", "Bearer secret", 401}, {"wrong", "Basic dXNlcjpwYXNz", 401}, {"", "Basic dXNlcjpwYXNz", 401}, {"Bearer secret", "", 401}, {"secret,secret", "", 401},
	} {
		r := localRequest("GET", "/api/v1/ping", nil)
		for name, value := range map[string]string{"X-Norn-Token": tc.own, "Authorization": tc.authorization} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.want || w.Code == http.StatusUnauthorized && !strings.Contains(w.Body.String(), "X-Norn-Token") {
			t.Errorf("%q beside %q: %d %s", tc.own, tc.authorization, w.Code, w.Body)
		}
	}
}

// TestWhatAPageBehindAProxyIsTold: which Host came, and what to set, word by word.
func TestWhatAPageBehindAProxyIsTold(t *testing.T) {
	var called atomic.Int64
	h := NewServer(answering(&called), Options{Access: access.Of("secret")}).Handler
	for origin, want := range map[string]string{
		"https://norn.example.com":      "set http-hosts to norn.example.com or",
		"https://norn.example.com:8443": "set http-hosts to norn.example.com:8443 or",
		"null":                          "of another site",
		"https://[::1":                  "of another site",
	} {
		r := localRequest("POST", "/api/v1/tasks", strings.NewReader("{}"))
		r.Host = "10.0.0.1:7713"
		r.Header.Set("Origin", origin)
		r.Header.Set("X-Norn-Token", "secret")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if body := w.Body.String(); w.Code != http.StatusForbidden || !strings.Contains(body, want) || !strings.Contains(body, "10.0.0.1:7713") {
			t.Errorf("%s: %d %s", origin, w.Code, body)
		}
	}
}

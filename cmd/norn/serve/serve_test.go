package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/norn-dev/norn/node/config"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// events hears the names of log lines.
type events struct {
	slog.Handler
	mu    sync.Mutex // guards names
	names []string
	http  string // the address, once it is ready
	ready chan struct{}
}

func newEvents() *events {
	return &events{Handler: slog.NewTextHandler(io.Discard, nil), ready: make(chan struct{})}
}

func (e *events) Handle(_ context.Context, r slog.Record) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.names = append(e.names, r.Message); r.Message == "server.ready" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "http" {
				e.http = a.Value.String()
			}
			return true
		})
		close(e.ready)
	}
	return nil
}

func (e *events) heard(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.names, name)
}

func testConfig(t *testing.T) *config.Config {
	c := config.Default()
	c.Data, c.Listen, c.PeerListen, c.HTTPListen = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Complete()
	return c
}

func TestRunUntilTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	heard := newEvents()
	done := make(chan error)
	go func() { done <- Run(ctx, testConfig(t), Options{Version: "test", Logger: slog.New(heard)}) }()
	select {
	case <-heard.ready:
	case err := <-done:
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("not ready")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !heard.heard("server.stopping") || !heard.heard("server.stopped") || heard.heard("server.open") {
		t.Errorf("heard %v", heard.names)
	}
}

// TestToldToStopWhileItRestores: a store that does not answer keeps nobody.
func TestToldToStopWhileItRestores(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "y")
	ctx, cancel := context.WithCancel(t.Context())
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer silent.Close()
	c := testConfig(t)
	c.RestoreFrom = "s3://bucket/x?region=here&endpoint=" + silent.URL
	heard := newEvents()
	if err := Run(ctx, c, Options{Version: "test", Logger: slog.New(heard)}); err != nil || !heard.heard("server.stopped") {
		t.Errorf("%v; heard %v", err, heard.names)
	}
}

// TestTheHTTPPortAsksForTheToken runs with a token: the API wants it, health does
// not.
func TestTheHTTPPortAsksForTheToken(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := testConfig(t)
	c.AuthTokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(c.AuthTokenFile, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	heard := newEvents()
	done := make(chan error, 1)
	go func() { done <- Run(ctx, c, Options{Version: "test", Logger: slog.New(heard)}) }()
	select {
	case <-heard.ready:
	case err := <-done:
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("not ready")
	}
	client := &http.Client{}
	for _, tc := range []struct {
		path, header string
		want         int
	}{{"/api/v1/tasks/count", "", 401}, {"/api/v1/tasks/count", "Bearer secret", 200}, {"/readyz", "", 200}} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+heard.http+tc.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", tc.header)
		answer, err := client.Do(r)
		if err != nil || answer.StatusCode != tc.want {
			t.Errorf("%s with %q: %v, %v", tc.path, tc.header, answer, err)
			continue
		}
		_ = answer.Body.Close()
	}
	client.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestEveryLineNamesItsNode writes a line in both formats.
func TestEveryLineNamesItsNode(t *testing.T) {
	c := testConfig(t)
	c.Name = "a node"
	for format, want := range map[string]string{
		"text": ` level=WARN msg=area.what node="a node" peer=n2 error="no \"way\""` + "\n",
		"json": `,"level":"WARN","msg":"area.what","node":"a node","peer":"n2","error":"no \"way\""}` + "\n",
	} {
		c.LogFormat = format
		var b strings.Builder
		log := NewLogger(&b, c)
		log.Debug("area.debug")
		log.Warn("area.what", "peer", "n2", "error", errors.New(`no "way"`))
		if !strings.HasSuffix(b.String(), want) || strings.Count(b.String(), "\n") != 1 {
			t.Errorf("%s: got %s, want %s", format, b.String(), want)
		}
	}
}

// TestStopBeforeReady ends a server that has only begun.
func TestStopBeforeReady(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, testConfig(t), Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Error(err)
	}
}

func TestRunRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*config.Config){
		"http port":     func(c *config.Config) { c.HTTPListen = taken.Addr().String() },
		"client port":   func(c *config.Config) { c.Listen = taken.Addr().String() },
		"is empty":      func(c *config.Config) { c.AuthTokenFile = empty },
		"no such file":  func(c *config.Config) { c.AuthTokenFile = empty + "er" },
		"tls-cert":      func(c *config.Config) { c.TLSCert, c.TLSKey = empty, empty },
		"not a directo": func(c *config.Config) { c.Data = filepath.Join(empty, "below") },
	} {
		c := testConfig(t)
		change(c)
		if err := Run(t.Context(), c, Options{Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		} else if _, left := os.Stat(c.Data); left == nil && !errors.Is(left, os.ErrNotExist) {
			t.Errorf("%s: the data directory was made", want)
		}
	}
}

func TestExposed(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:1": false, "[::1]:1": false, "localhost:1": false, ":1": true, "0.0.0.0:1": true, "10.0.0.1:1": true, "db1:1": true} {
		if exposed(addr) != want {
			t.Errorf("%s: exposed is %v", addr, !want)
		}
	}
}

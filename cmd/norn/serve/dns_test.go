package serve

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/internal/names/dnstest"
)

// freePort is an address where nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// page asks the HTTP port until it is open.
func page(t *testing.T, at, path string) (code int, text string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for end := time.Now().Add(20 * time.Second); ; {
		r, err := client.Get("http://" + at + path)
		if err == nil {
			b, _ := io.ReadAll(r.Body)
			_ = r.Body.Close()
			return r.StatusCode, string(b)
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func within(t *testing.T, what string, limit time.Duration, so func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !so(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestANameThatIsNotInDNSYet: a node that listens on every address and is called by a name
// starts, is ready and stops while DNS is silent or does not know it, and takes the name when
// DNS does.
func TestANameThatIsNotInDNSYet(t *testing.T) {
	var silent, known atomic.Bool
	silent.Store(true)
	_, r := dnstest.Start(t, func(string) dnstest.Answer {
		a := dnstest.Answer{Silent: silent.Load()}
		if known.Load() {
			a.Found = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}
		return a
	})
	for _, learns := range []bool{false, true} {
		silent.Store(!learns)
		c := testConfig(t)
		c.PeerListen, c.PeerAdvertise, c.InsecurePeers, c.HTTPListen = "0.0.0.0:0", "pod-0.norn.example:7712", true, freePort(t)
		ctx, cancel := context.WithCancel(t.Context())
		heard, done := newEvents(), make(chan error, 1)
		go func() { done <- Run(ctx, c, Options{Version: "test", Logger: slog.New(heard), Resolver: r}) }()
		if code, text := page(t, c.HTTPListen, "/livez"); code != http.StatusOK {
			t.Errorf("livez: %d %s", code, text)
		}
		select {
		case <-heard.ready:
		case err := <-done:
			t.Fatalf("it ended: %v", err)
		case <-time.After(time.Minute):
			t.Fatal("not ready")
		}
		if learns {
			within(t, "the name is missed", time.Minute, func() bool { return heard.heard("advertise.unknown") })
			known.Store(true)
			within(t, "the name is found", time.Minute, func() bool { return heard.heard("advertise.found") })
		}
		cancel()
		told := time.Now()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(told); took > 5*time.Second {
			t.Errorf("it stopped after %v", took)
		}
	}
}

// TestTheHTTPPortIsOpenBeforeTheNode: while a start waits for others, the process is seen to
// live, to be not ready, and to take nothing.
func TestTheHTTPPortIsOpenBeforeTheNode(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "y")
	asked := make(chan struct{}, 1)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}))
	defer silent.Close()
	c := testConfig(t)
	c.RestoreFrom, c.HTTPListen = "s3://bucket/x?region=here&endpoint="+silent.URL, freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, c, Options{Version: "test", Logger: slog.New(newEvents())}) }()
	<-asked
	for path, want := range map[string]int{
		"/livez": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/readyz?role=enqueue": http.StatusServiceUnavailable,
		"/readyz?role=restart": http.StatusServiceUnavailable, "/metrics": http.StatusOK, "/api/v1/queues": http.StatusServiceUnavailable, "/": http.StatusOK,
	} {
		if code, text := page(t, c.HTTPListen, path); code != want || path == "/api/v1/queues" && !strings.Contains(text, "starting") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const (
	pingWithToken = "GET /api/v1/ping HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n"
	plainLivez    = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
	jsonOf100     = "HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
	withToken     = "Authorization: Bearer secret\r\n"
)

// say writes to a connection and waits until nothing more comes of it.
func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// askOn sends a request and gives the status of its answer, 0 when there is none.
func askOn(t *testing.T, c net.Conn, request string) int {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		return 0
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, r.Body)
	synctest.Wait()
	return r.StatusCode
}

// knock connects and tells whether the server let the connection in: it says at once when not.
func knock(t *testing.T, dial func() net.Conn, request string) (status int, c net.Conn) {
	t.Helper()
	c = dial()
	answers := make(chan int, 1)
	go func() {
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			answers <- 0
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		answers <- r.StatusCode
	}()
	synctest.Wait()
	_, _ = io.WriteString(c, request) // an answer may have come without it
	status = <-answers
	synctest.Wait()
	return status, c
}

// isOpen tells whether the server has left a connection open that has nothing to say.
func isOpen(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := io.Copy(io.Discard, c)
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// waiting is a backend whose claims wait until their request ends.
func waiting() *backend {
	return &backend{enqueue: true, claim: true, registry: prometheus.NewRegistry(), call: func(ctx context.Context, m nornv1.Method, _ gproto.Message) (gproto.Message, *proto.Error, func()) {
		if m == nornv1.Method_METHOD_CLAIM || m == nornv1.Method_METHOD_LOG {
			<-ctx.Done()
			return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_CANCELLED, "gone"), func() {}
		}
		return &nornv1.PingReply{}, nil, func() {}
	}}
}

// TestStrangersGiveWay: whoever could reach the port kept everybody else out, with as many
// connections as there may be that say nothing, or too little, or what anybody may say.
func TestStrangersGiveWay(t *testing.T) {
	token := Options{MaxConnections: 2, Access: access.Of("secret")}
	open := Options{MaxConnections: 2}
	secure := Options{MaxConnections: 2, TLS: certificate(t)}
	for name, tc := range map[string]struct {
		o      Options
		says   string
		reads  bool
		thenBy string // the newcomer
	}{
		"silence":                     {o: token, thenBy: pingWithToken},
		"half a line":                 {o: token, says: "GET /api/v1/pi", thenBy: pingWithToken},
		"half a head":                 {o: token, says: "GET /api/v1/ping HTTP/1.1\r\nHost: localhost\r\n", thenBy: pingWithToken},
		"a request of anybody":        {o: token, says: plainLivez, reads: true, thenBy: pingWithToken},
		"an answer that nobody reads": {o: token, says: plainLivez, thenBy: pingWithToken},
		"no token and half a body":    {o: token, says: "POST /api/v1/tasks " + jsonOf100 + "\r\n{", thenBy: pingWithToken},
		"half a body where none need": {o: open, says: "POST /api/v1/tasks " + jsonOf100 + "\r\n{", thenBy: pingWithToken},
		"silence where TLS is":        {o: secure, thenBy: plainLivez},
		"half a handshake":            {o: secure, says: "\x16\x03\x01", thenBy: plainLivez},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial, s := inBubble(t, waiting(), tc.o)
				var strangers [3]net.Conn // one beside the two that may be served
				for i := range strangers {
					strangers[i] = dial()
					switch {
					case tc.reads:
						if got := askOn(t, strangers[i], tc.says); got != http.StatusOK {
							t.Fatal(got)
						}
					case tc.says != "":
						say(t, strangers[i], tc.says)
					}
					synctest.Wait()
				}
				if status, _ := knock(t, dial, tc.thenBy); status != http.StatusOK {
					t.Errorf("the newcomer got %d", status)
				}
				if n := s.metrics.open.Load(); n != 3 {
					t.Errorf("%d connections are open", n)
				}
				if isOpen(strangers[0]) || !isOpen(strangers[1]) {
					t.Error("not the one that has been idle for longest was closed")
				}
			})
		})
	}
}

// TestWhoIsServedStays: a connection whose request is being served, or that sends one with a
// token, gives way to nobody; one that was served and rests does, after all strangers.
func TestWhoIsServedStays(t *testing.T) {
	for name, tc := range map[string]struct{ says string }{
		"a claim that waits":      {"POST /api/v1/tasks/claim HTTP/1.1\r\nHost: localhost\r\n" + withToken + "Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{\"wait_seconds\":300}"},
		"a body with a token":     {"POST /api/v1/tasks " + jsonOf100 + withToken + "\r\n{"},
		"a resting one's request": {""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dial, s := inBubble(t, waiting(), Options{MaxConnections: 2, Access: access.Of("secret")})
				served := dial()
				if got := askOn(t, served, pingWithToken); got != http.StatusOK {
					t.Fatal(got)
				}
				stranger, another := dial(), dial()
				synctest.Wait()
				if tc.says != "" {
					say(t, served, tc.says)
				}
				status, second := knock(t, dial, pingWithToken)
				if status != http.StatusOK || isOpen(stranger) {
					t.Fatalf("the newcomer got %d, with a stranger there", status)
				}
				_ = another.Close()
				synctest.Wait()
				third := dial()
				synctest.Wait()
				if tc.says == "" { // both rest
					if status, _ = knock(t, dial, pingWithToken); status != http.StatusOK || isOpen(third) {
						t.Errorf("the newcomer got %d, with two that rest and a stranger", status)
					}
					if status, _ = knock(t, dial, pingWithToken); status != http.StatusOK || isOpen(served) || !isOpen(second) {
						t.Errorf("the newcomer got %d, with two that rest", status)
					}
					return
				}
				_ = second.SetDeadline(time.Time{})
				say(t, second, tc.says)
				if status, _ = knock(t, dial, pingWithToken); status != http.StatusServiceUnavailable {
					t.Errorf("the newcomer got %d, with two that are served", status)
				}
				for _, health := range []string{plainLivez, strings.Replace(plainLivez, "livez", "metrics", 1)} {
					if status, _ = knock(t, dial, health); status != http.StatusOK {
						t.Errorf("health got %d, with two that are served", status)
					}
				}
				if n := s.metrics.open.Load(); n > 3 {
					t.Errorf("%d connections are open", n)
				}
			})
		})
	}
}

// TestPlacesAreGivenBack: however connections end, and whoever ends them, their places are free.
func TestPlacesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var called atomic.Int64
		dial, s := inBubble(t, answering(&called), Options{MaxConnections: 3, Access: access.Of("secret")})
		for range 20 {
			if status, _ := knock(t, dial, pingWithToken); status != http.StatusOK {
				t.Fatal(status)
			}
			_, silent := dial(), dial()
			synctest.Wait()
			_ = silent.Close()
			synctest.Wait()
		}
		if n := s.metrics.open.Load(); n != 3 {
			t.Errorf("%d connections are open", n)
		}
		<-time.After(3 * time.Minute)
		synctest.Wait()
		if n := s.metrics.open.Load(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
	})
}

package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/norn-dev/norn/node/access"
)

// waiter begins a wait by somebody from somewhere.
func waiter(w *waits, token, from string) (ctx context.Context, leave func(), f *failure) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", token)
	r.RemoteAddr = net.JoinHostPort(from, "1234")
	return w.enter(r)
}

// TestNobodyTakesAllWaits: whoever has the most gives way to who has less, and otherwise
// nobody to anybody; nobody is limited while nobody else asks.
func TestNobodyTakesAllWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		first, then [2]string // token, address
		want        int       // how many of eight the second one gets
	}{
		"two tokens from here":       {[2]string{"a", "127.0.0.1"}, [2]string{"b", "127.0.0.1"}, 4},
		"two addresses, no token":    {[2]string{"", "10.0.0.1"}, [2]string{"", "10.0.0.2"}, 4},
		"two addresses, one token":   {[2]string{"a", "10.0.0.1"}, [2]string{"a", "10.0.0.2"}, 4},
		"two tokens, one address":    {[2]string{"a", "10.0.0.1"}, [2]string{"b", "10.0.0.1"}, 4},
		"IPv6":                       {[2]string{"", "fe80::1"}, [2]string{"", "fe80::2"}, 4},
		"the same, from elsewhere":   {[2]string{"", "127.0.0.1"}, [2]string{"", "::1"}, 0},
		"the same, from one proxy":   {[2]string{"", "10.0.0.9"}, [2]string{"", "10.0.0.9"}, 0},
		"with a token and with none": {[2]string{"a", "10.0.0.9"}, [2]string{"", "10.0.0.9"}, 4},
	} {
		w := newWaits(10) // eight may wait
		var leaves []func()
		var all []context.Context
		for i := range 8 {
			ctx, leave, f := waiter(w, tc.first[0], tc.first[1])
			if f != nil {
				t.Fatalf("%s: wait %d of one alone: %v", name, i, f.err)
			}
			all, leaves = append(all, ctx), append(leaves, leave)
		}
		got := 0
		for range 8 {
			if _, leave, f := waiter(w, tc.then[0], tc.then[1]); f == nil {
				leaves, got = append(leaves, leave), got+1
			} else if f.status != http.StatusTooManyRequests || f.err.RetryAfter == 0 {
				t.Errorf("%s: %+v", name, f)
			}
		}
		yields := 0
		for i, ctx := range all {
			if context.Cause(ctx) == errYield {
				if yields++; i >= got {
					t.Errorf("%s: not the oldest gave way but %d", name, i)
				}
			}
		}
		if got != tc.want || yields != got || w.open != 8 {
			t.Errorf("%s: it got %d of 8, %d gave way, %d are open", name, got, yields, w.open)
		}
		for _, leave := range leaves {
			leave()
			leave()
		}
		if w.open != 0 || len(w.of) != 0 {
			t.Errorf("%s: %d are left of %d", name, w.open, len(w.of))
		}
	}
}

// TestWaitsLeaveRoomForTheRest: 3,600 claims that waited made /livez, /readyz and /metrics,
// and the completions of those who worked, answer 503.
func TestWaitsLeaveRoomForTheRest(t *testing.T) {
	for name, wait := range map[string]string{
		"claims": "POST /api/v1/tasks/claim HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{\"wait_seconds\":300}",
		"logs":   "GET /api/v1/tasks/37dGamhT6KhgeCdJ3yaFwZAimIC/log?wait_seconds=300 HTTP/1.1\r\nHost: localhost\r\n%s\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			dial, _ := inBubble(t, waiting(), Options{MaxConnections: 16, Access: access.Of("one", "two")})
			answered := make(chan string, 100)
			for range 16 {
				c := dial()
				say(t, c, fmt.Sprintf(wait, "Authorization: Bearer one\r\n"))
				go func() {
					all, _ := io.ReadAll(io.LimitReader(c, 12))
					answered <- string(all)
				}()
			}
			synctest.Wait()
			if n := len(answered); n != 4 {
				t.Errorf("%s: %d of 16 were answered at once, not the four that are over three quarters", name, n)
			}
			for len(answered) > 0 {
				if got := <-answered; !strings.HasSuffix(got, " 429") {
					t.Errorf("%s: %q", name, got)
				}
			}
			for _, request := range []string{plainLivez, strings.Replace(plainLivez, "livez", "readyz", 1), strings.Replace(plainLivez, "livez", "metrics", 1), strings.Replace(pingWithToken, "secret", "two", 1)} {
				if got, c := knock(t, dial, request); got != http.StatusOK {
					t.Errorf("%s: %d for %q", name, got, request)
				} else {
					_ = c.Close()
				}
			}
			other := dial()
			say(t, other, fmt.Sprintf(wait, "Authorization: Bearer two\r\n"))
			if !isOpen(other) {
				t.Errorf("%s: another one may not wait", name)
			}
			if n := len(answered); n != 1 || !strings.HasSuffix(<-answered, " 429") {
				t.Errorf("%s: %d gave way to it", name, n)
			}
		})
	}
}

package transport

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func addrs(all ...string) (out []netip.Addr) {
	for _, a := range all {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// TestRecordsAreTriedSideBySide: a name stands for several addresses, of which some never
// answer or refuse.
func TestRecordsAreTriedSideBySide(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, tt := range map[string]struct {
		all  []netip.Addr
		took time.Duration
		want error
	}{
		"good":                {addrs("10.0.0.1", "10.9.9.9"), 0, nil},
		"hole, good":          {addrs("10.9.9.9", "10.0.0.1"), recordsApart, nil},
		"refusal, good":       {addrs("10.8.8.8", "10.0.0.1"), 0, nil},
		"hole, refusal, good": {addrs("10.9.9.9", "10.8.8.8", "10.0.0.1"), recordsApart, nil},
		"refusals":            {addrs("10.8.8.8", "10.8.8.8"), 0, syscall.ECONNREFUSED},
		"hole and refusal":    {addrs("10.9.9.9", "10.8.8.8"), 5 * time.Second, context.DeadlineExceeded},
		"nothing but a hole":  {addrs("10.9.9.9"), 5 * time.Second, context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			var open atomic.Int32
			began := time.Now()
			nc, err := dialRecords(ctx, tt.all, func(ctx context.Context, ip netip.Addr) (net.Conn, error) {
				switch ip.String() {
				case "10.9.9.9":
					<-ctx.Done()
					return nil, ctx.Err()
				case "10.8.8.8":
					return nil, refused
				}
				here, _ := Pipe(0)
				open.Add(1)
				return here, nil
			})
			if took := time.Since(began); took != tt.took || !errors.Is(err, tt.want) || (nc != nil) != (tt.want == nil) {
				t.Errorf("%s: %v, %v after %v", name, nc, err, took)
			}
			if n := open.Load(); n > 1 {
				t.Errorf("%s: %d connections", name, n)
			}
		})
	}
}

// TestMixed: each comes once, both kinds in turns, and not the same one first for ever.
func TestMixed(t *testing.T) {
	all := addrs("fd00::1", "10.0.0.1", "10.0.0.2", "fd00::2", "10.0.0.3")
	first := map[netip.Addr]int{}
	for range 200 {
		got := mixed(all)
		first[got[0]]++
		if !got[0].Is6() || !got[1].Is4() || !got[2].Is6() || !got[3].Is4() || !got[4].Is4() {
			t.Fatalf("order %v", got)
		}
		sorted := slices.SortedFunc(slices.Values(got), netip.Addr.Compare)
		if want := slices.SortedFunc(slices.Values(all), netip.Addr.Compare); !slices.Equal(sorted, want) {
			t.Fatalf("%v of %v", got, all)
		}
	}
	if len(first) != 2 {
		t.Errorf("the first were %v", first)
	}
}

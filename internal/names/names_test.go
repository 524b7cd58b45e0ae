package names

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/internal/names/dnstest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// door accepts connections at an address.
func door(t *testing.T, at string) string {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func addrs(all ...string) (out []netip.Addr) {
	for _, a := range all {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func dials(t *testing.T, b *Book, to string, within time.Duration) (at string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	c, err := b.Dial(ctx, to)
	if err != nil {
		return "", err
	}
	defer c.Close()
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	return host, nil
}

// TestALookUpThatIsSlowerThanTheCall: its answer serves the next call, and from then on
// nobody waits for DNS where an address is known that works, whatever DNS does.
func TestALookUpThatIsSlowerThanTheCall(t *testing.T) {
	var after atomic.Int64
	var silent, gone atomic.Bool
	after.Store(int64(400 * time.Millisecond))
	d, r := dnstest.Start(t, func(string) dnstest.Answer {
		if silent.Load() || gone.Load() {
			return dnstest.Answer{Silent: silent.Load()}
		}
		return dnstest.Answer{Found: addrs("127.0.0.1"), After: time.Duration(after.Load())}
	})
	b := New(r)
	defer b.Close()
	to := net.JoinHostPort("slow.example", door(t, "127.0.0.1:0"))
	for end := time.Now().Add(10 * time.Second); ; {
		at, err := dials(t, b, to, 100*time.Millisecond)
		if err == nil && at == "127.0.0.1" {
			break
		}
		// The name may come so late that there is no time left to connect.
		var no net.Error
		if !errors.As(err, &no) || !no.Timeout() {
			t.Fatalf("a name that is not known yet: %v", err)
		}
		if time.Now().After(end) {
			t.Fatal("look-ups of 400 ms never serve calls of 100 ms")
		}
	}
	if n := d.Asked(); n > 3 {
		t.Errorf("%d look-ups for one that is under way", n)
	}
	after.Store(int64(time.Hour))
	for what, change := range map[string]func(){"slow": func() {}, "silent": func() { silent.Store(true) }, "gone": func() { silent.Store(false); gone.Store(true) }} {
		change()
		if _, err := dials(t, b, to, 2*time.Second); err != nil {
			t.Errorf("with DNS that is %s: %v", what, err)
		}
	}
	if found, err := b.LookUp(t.Context(), to); err != nil || len(found) != 1 {
		t.Errorf("what is remembered: %v, %v", found, err)
	}
}

// TestAnAddressThatMoved: what worked does not while the look-up is slow; its answer is
// waited for, and tried.
func TestAnAddressThatMoved(t *testing.T) {
	var moved atomic.Bool
	_, r := dnstest.Start(t, func(string) dnstest.Answer {
		if moved.Load() {
			return dnstest.Answer{Found: addrs("127.0.0.3"), After: patience + 200*time.Millisecond}
		}
		return dnstest.Answer{Found: addrs("127.0.0.2")}
	})
	b := New(r)
	defer b.Close()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	to := net.JoinHostPort("moves.example", port)
	if at, err := dials(t, b, to, 5*time.Second); at != "127.0.0.2" {
		t.Fatal(at, err)
	}
	_ = l.Close()
	moved.Store(true)
	door(t, "127.0.0.3:"+port)
	for range 2 { // then it is remembered
		if at, err := dials(t, b, to, 5*time.Second); at != "127.0.0.3" {
			t.Fatal(at, err)
		}
	}
}

// TestOneOfManyAddresses: those that do not answer cost the pause between two.
func TestOneOfManyAddresses(t *testing.T) {
	_, r := dnstest.Start(t, func(string) dnstest.Answer {
		return dnstest.Answer{Found: addrs("127.0.0.7", "127.0.0.8", "127.0.0.9")}
	})
	b := New(r)
	defer b.Close()
	if at, err := dials(t, b, net.JoinHostPort("many.example", door(t, "127.0.0.9:0")), 5*time.Second); at != "127.0.0.9" {
		t.Fatal(at, err)
	}
	if _, err := dials(t, b, "many.example:1", 5*time.Second); err == nil {
		t.Error("nobody listens there")
	}
}

// TestNoAddress: what cannot be dialled is refused, and a closed book asks nobody.
func TestNoAddress(t *testing.T) {
	d, r := dnstest.Start(t, func(string) dnstest.Answer { return dnstest.Answer{Silent: true} })
	b := New(r)
	for _, to := range []string{"", "host", "host:0", "host:port", "0.0.0.0:1", "[::]:1"} {
		if _, err := b.Dial(t.Context(), to); err == nil {
			t.Errorf("%q was dialled", to)
		}
		if _, err := b.LookUp(t.Context(), to); err == nil {
			t.Errorf("%q was looked up", to)
		}
	}
	if found, err := b.LookUp(t.Context(), "[::1]:7"); err != nil || found[0] != netip.MustParseAddrPort("[::1]:7") {
		t.Error(found, err)
	}
	if _, err := dials(t, b, "silent.example:1", 50*time.Millisecond); err == nil || d.Asked() == 0 {
		t.Error("DNS does not answer: ", err)
	}
	began := time.Now()
	b.Close()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("close waited %v for DNS", took)
	}
	if _, err := b.Dial(t.Context(), "silent.example:1"); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestManyNames: strangers cannot have it remember any number of them.
func TestManyNames(t *testing.T) {
	_, r := dnstest.Start(t, func(string) dnstest.Answer { return dnstest.Answer{} })
	b := New(r)
	defer b.Close()
	for i := range maxHosts {
		b.hosts[string(rune('a'+i%26))+strings.Repeat("x", i/26)] = &host{}
	}
	if _, err := dials(t, b, "one.more:1", 5*time.Second); err == nil {
		t.Error("a name that is not known")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.hosts) != 1 {
		t.Errorf("%d names are remembered", len(b.hosts))
	}
}

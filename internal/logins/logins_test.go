package logins

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func from(text string) net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", text)
	return a
}

type lines struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// counted is how many failures a metric shows.
func counted(t *testing.T, w *Watch, port, reason string) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w)
	all, err := registry.Gather()
	if err != nil || len(all) != 1 || all[0].GetName() != "norn_auth_failures_total" {
		t.Fatalf("%v, %v", all, err)
	}
	for _, m := range all[0].GetMetric() {
		if l := m.GetLabel(); l[0].GetValue() == port && l[1].GetValue() == reason {
			return m.GetCounter().GetValue()
		}
	}
	return -1
}

// judged runs one attempt in a bubble, and gives how long it took.
func judged(w *Watch, t Try) (time.Duration, bool) {
	began := time.Now()
	ok := w.Judge(context.Background(), t)
	return time.Since(began), ok
}

// TestWrongGuessesAreSlowed: from an address that is a client's own, more each time, and no
// other address waits for it. After a minute all begins anew.
func TestWrongGuessesAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		w := New(slog.New(slog.NewTextHandler(&log, nil)))
		wrong := Try{Port: Client, Remote: from("10.0.0.9:1"), Reason: WrongToken}
		const ms = time.Millisecond
		for i, want := range []time.Duration{0, 0, 0, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms, 2000 * ms} {
			if took, ok := judged(w, wrong); took != want || !ok {
				t.Errorf("wrong guess %d is answered after %s, want %s", i+1, took, want)
			}
		}
		right := Try{Port: Client, Remote: from("10.0.0.9:2")}
		if took, _ := judged(w, right); took != 2*time.Second {
			t.Errorf("a right one among wrong ones is answered after %s: what is not answered at once is known to be wrong", took)
		}
		if took, _ := judged(w, right); took != 0 {
			t.Errorf("where somebody is known a right one waits %s", took)
		}
		if took, _ := judged(w, wrong); took != 2*time.Second {
			t.Errorf("where somebody is known a wrong one waits %s", took)
		}
		if took, _ := judged(w, Try{Port: Client, Remote: from("10.0.0.8:1"), Reason: WrongToken}); took != 0 {
			t.Errorf("another address waits %s", took)
		}
		time.Sleep(forgets + time.Second)
		if took, _ := judged(w, wrong); took != 0 {
			t.Errorf("after a minute it waits %s", took)
		}
		w.Close()
		if n := counted(t, w, Client, WrongToken); n != 13 {
			t.Errorf("%v are counted", n)
		}
		log.mu.Lock()
		defer log.mu.Unlock()
		if text := log.b.String(); strings.Count(text, "auth.failed") > 9 || !strings.Contains(text, "times=6") || strings.Contains(text, "reason=wrong_secret") {
			t.Error(text)
		}
	})
}

// TestWhoIsNeverSlowed: loopback, what is not a client's own address, and what guesses nothing.
func TestWhoIsNeverSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(slog.New(slog.DiscardHandler))
		for name, try := range map[string]Try{
			"loopback":        {Port: HTTP, Remote: from("127.0.0.1:1"), Reason: WrongToken},
			"another of it":   {Port: HTTP, Remote: from("127.9.9.9:1"), Reason: WrongToken},
			"mapped":          {Port: HTTP, Remote: from("[::ffff:127.0.0.1]:1"), Reason: WrongToken},
			"IPv6":            {Port: HTTP, Remote: from("[::1]:1"), Reason: WrongToken},
			"a proxy":         {Port: HTTP, Remote: from("10.0.0.9:1"), Reason: WrongToken, Shared: true},
			"without a token": {Port: HTTP, Remote: from("10.0.0.9:1"), Reason: NoToken},
			"a certificate":   {Port: Client, Remote: from("10.0.0.9:1"), Reason: Certificate},
			"right":           {Port: Client, Remote: from("10.0.0.9:1")},
			"no address":      {Port: Peer, Reason: WrongSecret},
		} {
			for range 50 {
				if took, ok := judged(w, try); took != 0 || !ok {
					t.Fatalf("%s: waits %s, %v", name, took, ok)
				}
			}
		}
		var none *Watch
		if !none.Judge(t.Context(), Try{}) {
			t.Error("nobody looks, and it is refused")
		}
	})
}

// TestGuessesAtATime: only so many answers to one address wait, of one IPv6 network too; the
// others are refused, and where somebody is known a right login is not.
func TestGuessesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(slog.New(slog.DiscardHandler))
		judged(w, Try{Port: Client, Remote: from("[2001:db8::1]:1")})
		wrong := Try{Port: Client, Remote: from("[2001:db8::2]:1"), Reason: WrongToken}
		for range free {
			judged(w, wrong)
		}
		var running sync.WaitGroup
		refused := make(chan bool, 100)
		for range 100 {
			running.Go(func() { _, ok := judged(w, wrong); refused <- !ok })
		}
		synctest.Wait()
		if n := len(refused); n != 100-maxWaiting {
			t.Errorf("%d are refused at once", n)
		}
		if took, ok := judged(w, Try{Port: Client, Remote: from("[2001:db8::3]:1")}); took != 0 || !ok {
			t.Errorf("a right one: after %s, %v", took, ok)
		}
		running.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		began := time.Now()
		if w.Judge(ctx, wrong); time.Since(began) != 0 {
			t.Error("it waits for whom nobody waits")
		}
		for i := range 2 * maxAddresses {
			judged(w, Try{Port: Client, Remote: &net.TCPAddr{IP: net.IPv4(10, 1, byte(i>>8), byte(i)), Port: 1}})
		}
		if len(w.from) > maxAddresses {
			t.Errorf("%d addresses are remembered", len(w.from))
		}
	})
}

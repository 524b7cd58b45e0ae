package client

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// street is addresses at which something else is than a node that is well.
type street struct {
	nodes map[string]*fakenode.Node
	slow  map[string]time.Duration // to connect
	dials map[string]*atomic.Int32
	open  atomic.Int32
}

const (
	hole    = -1 * time.Second // nothing ever comes back
	refused = -2 * time.Second
	http    = -3 * time.Second
	mute    = -4 * time.Second // it takes connections and says nothing
)

func (s *street) dial(ctx context.Context, addr string) (net.Conn, error) {
	s.dials[addr].Add(1)
	switch d := s.slow[addr]; d {
	case hole:
		<-ctx.Done()
		return nil, ctx.Err()
	case refused:
		return nil, fakenode.ErrRefused
	case http:
		here, there := transport.Pipe(0)
		_, err := there.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		return here, err
	case mute:
		here, _ := transport.Pipe(0)
		return here, nil
	default:
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	nc, err := s.nodes[addr].Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	return &counted{Conn: nc, open: &s.open}, nil
}

type counted struct {
	net.Conn
	open *atomic.Int32
	once atomic.Bool
}

func (c *counted) Close() error {
	if !c.once.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// lives opens a client of such addresses, which are a:1, b:1, …
func lives(t *testing.T, slow ...time.Duration) (*Client, *street, []string) {
	s := &street{map[string]*fakenode.Node{}, map[string]time.Duration{}, map[string]*atomic.Int32{}, atomic.Int32{}}
	var addrs []string
	for i, d := range slow {
		addr := string(rune('a'+i)) + ":1"
		addrs = append(addrs, addr)
		s.slow[addr], s.dials[addr] = d, &atomic.Int32{}
		s.nodes[addr] = fakenode.New(t, only(nornv1.Method_METHOD_GET, func(fakenode.Request) fakenode.Answer {
			return fakenode.Answer{Message: &nornv1.GetReply{Task: &nornv1.Task{}}}
		}))
	}
	return openAll(t, nil, addrs, WithDialer(s.dial)), s, addrs
}

// TestABlackHoleFirst costs a moment, and only once; a session no more than a call.
func TestABlackHoleFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		slow []time.Duration
		most time.Duration
	}{
		"well":                  {[]time.Duration{0, 0, 0}, 0},
		"one hole":              {[]time.Duration{hole, 0}, apart},
		"two holes":             {[]time.Duration{hole, hole, 0}, 2 * apart},
		"a mute one":            {[]time.Duration{mute, 0}, apart},
		"a hole and a refusal":  {[]time.Duration{hole, refused, 0}, 2 * apart},
		"slow, and a wrong one": {[]time.Duration{2 * time.Second, http}, 2 * time.Second},
		"slow, and a refusal":   {[]time.Duration{2 * time.Second, refused}, 2 * time.Second},
		"all slow":              {[]time.Duration{time.Second, time.Second, time.Second}, time.Second},
	} {
		for _, session := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c, s, _ := lives(t, tt.slow...)
				began := time.Now()
				if session {
					if s, errs := c.Workers().Stream(t.Context(), 0); s == nil {
						t.Fatalf("%s: %v", name, errs)
					}
				} else if _, err := c.Get(t.Context(), id.ID{1}); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if took := time.Since(began); took > tt.most {
					t.Errorf("%s, session %v: it took %v", name, session, took)
				}
				time.Sleep(10 * time.Second) // and others that were begun are closed
				if n := s.open.Load(); n != 1 {
					t.Errorf("%s, session %v: %d connections are open", name, session, n)
				}
				began = time.Now()
				if _, err := c.Get(t.Context(), id.ID{1}); err != nil || time.Since(began) != 0 {
					t.Errorf("%s, session %v: the next call took %v, %v", name, session, time.Since(began), err)
				}
			})
		}
	}
}

// TestDialsAreNoStorm: many calls at once share them, and where nobody is there is a pause.
func TestDialsAreNoStorm(t *testing.T) {
	for name, tt := range map[string]struct {
		slow []time.Duration
		most []int32 // dials within 10 s
	}{
		"well":                 {[]time.Duration{0, 0, 0}, []int32{1, 0, 0}},
		"quick enough":         {[]time.Duration{apart - 1, 0, 0}, []int32{1, 0, 0}},
		"a hole and a refusal": {[]time.Duration{hole, refused}, []int32{3, 30}},
		"nobody":               {[]time.Duration{refused, refused}, []int32{30, 30}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s, addrs := lives(t, tt.slow...)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			done := make(chan error, 20)
			for range 20 {
				go func() {
					_, err := c.Get(ctx, id.ID{1})
					done <- err
				}()
			}
			for range 20 {
				<-done
			}
			for i, addr := range addrs {
				if n := s.dials[addr].Load(); n > 20*tt.most[i] || tt.most[i] == 1 && n != 1 {
					t.Errorf("%s: %d dials of %s", name, n, addr)
				}
			}
		})
	}
}

// TestShortCallsPassABlackHole: calls that have less time than an address is given.
func TestShortCallsPassABlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := lives(t, hole, 0)
		failed := 0
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			if _, err := c.Get(ctx, id.ID{1}); err != nil {
				failed++
			}
			cancel()
			time.Sleep(200 * time.Millisecond)
		}
		if failed > 1 {
			t.Errorf("%d of 10 calls failed", failed)
		}
	})
}

package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// oversize is the head of a frame with so many bytes after the length.
func oversize(request uint64, length uint32) []byte {
	b := AppendFrame(nil, Frame{Request: request, Method: 3})
	binary.BigEndian.PutUint32(b, length)
	return b
}

func TestOversizeFrameCostsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, length = 1 << 20, 3 << 20
		h := &handler{handle: echoFrame}
		_, ln := serve(t, Config{MaxFrame: limit}, h)
		other := dialTo(t, ln, ClientConfig{})
		nc := rawTo(t, ln)
		send(t, nc, Frame{Request: 1, Body: []byte("before")})
		if f := receive(t, nc); string(f.Body) != "before" {
			t.Fatalf("got %q", f.Body)
		}
		nc.Write(oversize(2, length))
		// The refusal does not wait for the body.
		if f := receive(t, nc); f.Request != 2 || f.Method != 3 || f.Flags != FlagResponse|FlagError ||
			!strings.Contains(string(f.Body), ErrFrameTooLarge.Error()) {
			t.Errorf("got %+v %s", f, f.Body)
		}
		nc.Write(make([]byte, length-headBytes))
		send(t, nc, Frame{Request: 3, Body: []byte("after")})
		if f := receive(t, nc); f.Request != 3 || string(f.Body) != "after" {
			t.Errorf("got %+v", f)
		}
		if got, err := callText(t.Context(), other, "other"); got != "other" {
			t.Error(err)
		}
	})
}

func TestAbsurdLengthEndsTheConnection(t *testing.T) {
	for name, b := range map[string][]byte{
		"huge":      oversize(2, 1<<31),
		"too small": {0, 0, 0, 3, 1, 2, 3},
		"an answer": AppendFrame(nil, Frame{Request: 2, Flags: FlagResponse}),
		"id zero":   AppendFrame(nil, Frame{}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &handler{}
				_, ln := serve(t, Config{}, h)
				nc := rawTo(t, ln)
				nc.Write(b)
				if f := receive(t, nc); f.Request != 0 || f.Flags != FlagResponse|FlagError {
					t.Errorf("got %+v", f)
				}
				if rest, err := io.ReadAll(nc); len(rest) > 0 || err != nil {
					t.Errorf("then %q, %v", rest, err)
				}
				nc.Close()
				synctest.Wait()
				if r := h.reasons(); len(r) != 1 || !errors.Is(r[0], ErrMalformed) && !errors.Is(r[0], ErrPeerOther) {
					t.Errorf("closed with %v", r)
				}
			})
		})
	}
}

func TestMemoryFollowsBytesNotPromises(t *testing.T) {
	near, far := Pipe(0)
	defer near.Close()
	defer far.Close()
	var pool buffers
	r := &frameReader{src: near, pool: &pool, maxFrame: DefaultMaxFrame, frameTimeout: time.Minute}
	fill := func(b []byte) {
		t.Helper()
		far.Write(b)
		if err := r.fill(); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := r.next(); ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	fill(oversize(1, 16<<20))
	fill([]byte{0})
	if n := cap(r.buf.b); n > 4<<10 {
		t.Errorf("a buffer of %d bytes for a frame that only promised to be large", n)
	}
	// And a refused one needs no buffer at all.
	r = &frameReader{src: near, pool: &pool, maxFrame: 1 << 20, frameTimeout: time.Minute}
	far.Write(oversize(1, 4<<20))
	if err := r.fill(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.next(); !errors.Is(err, ErrFrameTooLarge) {
		t.Fatal(err)
	}
	go far.Write(make([]byte, 4<<20-headBytes))
	for r.skippable() {
		if _, ok, err := r.next(); ok || err != nil {
			t.Fatal(ok, err)
		}
		if !r.skippable() {
			break
		}
		if err := r.fill(); err != nil {
			t.Fatal(err)
		}
	}
	if n := cap(r.buf.b); n > busyBuffer {
		t.Errorf("a buffer of %d bytes to skip a frame", n)
	}
}

func TestReadTimeouts(t *testing.T) {
	cfg := Config{HelloTimeout: 10 * time.Second, FrameTimeout: 30 * time.Second, IdleTimeout: time.Minute}
	hello := AppendFrame(nil, Frame{Request: 1})
	half := AppendFrame(nil, Frame{Request: 2, Body: make([]byte, 1000)})
	for name, tc := range map[string]struct {
		first []byte        // sent at once
		drip  []byte        // then one byte each pause
		pause time.Duration // 0: no drip
		is    error
		after time.Duration
	}{
		"nothing":              {nil, nil, 0, ErrHelloTimeout, 10 * time.Second},
		"half a hello":         {hello[:5], nil, 0, ErrHelloTimeout, 10 * time.Second},
		"dripping hello":       {nil, hello, 2 * time.Second, ErrHelloTimeout, 10 * time.Second},
		"half a frame":         {append(bytes.Clone(hello), half[:500]...), nil, 0, ErrFrameTimeout, 30 * time.Second},
		"dripping frame":       {hello, half, time.Second, ErrFrameTimeout, 31 * time.Second},
		"dripping after large": {append(bytes.Clone(hello), half...), half, time.Second, ErrFrameTimeout, 31 * time.Second},
		"idle":                 {hello, nil, 0, ErrIdleTimeout, time.Minute},
		"idle after a burst":   {append(bytes.Clone(hello), bytes.Repeat(half, 200)...), nil, 0, ErrIdleTimeout, time.Minute},
		"dripping refused":     {append(bytes.Clone(hello), oversize(3, 20<<20)...), half, time.Second, ErrFrameTimeout, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &handler{handle: echoFrame}
				_, ln := serve(t, cfg, h)
				nc := rawTo(t, ln)
				go io.Copy(io.Discard, nc)
				began := time.Now()
				nc.Write(tc.first)
				closed := false
				for i := 0; !closed && time.Since(began) < time.Hour; i++ {
					step := time.Second
					if tc.pause > 0 {
						step = tc.pause
					}
					<-time.After(step) // fake time
					synctest.Wait()
					closed = len(h.reasons()) > 0
					if !closed && tc.pause > 0 && i < len(tc.drip) {
						nc.Write(tc.drip[i : i+1])
					}
				}
				if took := time.Since(began); !closed || took != tc.after || !errors.Is(h.reasons()[0], tc.is) {
					t.Errorf("after %v closed with %v; want %v after %v", took, h.reasons(), tc.is, tc.after)
				}
			})
		})
	}
}

func TestQuietConnectionsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{handle: echoFrame}
		_, ln := serve(t, Config{}, h)
		c := dialTo(t, ln, ClientConfig{})
		for range 5 {
			text := strings.Repeat("x", 200_000)
			if got, err := callText(t.Context(), c, text); got != text {
				t.Fatal(err)
			}
			<-time.After(24 * time.Hour) // fake time
		}
		if len(h.reasons()) != 0 {
			t.Errorf("closed with %v", h.reasons())
		}
	})
}

func TestBusyConnectionOutlivesItsDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{handle: echoFrame}
		_, ln := serve(t, Config{IdleTimeout: 3 * time.Second, FrameTimeout: 3 * time.Second}, h)
		nc := rawTo(t, ln)
		f := AppendFrame(nil, Frame{Request: 1, Body: make([]byte, 2000)})
		for range 50 {
			nc.Write(f[:1000])
			<-time.After(2 * time.Second) // fake time
			nc.Write(f[1000:])
			receive(t, nc)
			<-time.After(2 * time.Second)
		}
		if len(h.reasons()) != 0 {
			t.Errorf("closed with %v", h.reasons())
		}
	})
}

// A peer that vanished without a word: nothing comes, nothing is taken.
func TestHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{handle: echoFrame}
		_, ln := serve(t, Config{IdleTimeout: time.Minute}, h)
		nc := rawTo(t, ln)
		send(t, nc, Frame{Request: 1})
		<-time.After(61 * time.Second) // fake time
		synctest.Wait()
		if r := h.reasons(); len(r) != 1 || !errors.Is(r[0], ErrIdleTimeout) {
			t.Errorf("server: %v", r)
		}

		near, far := Pipe(16)
		c := NewClient(near, ClientConfig{WriteTimeout: time.Minute})
		_, err := callText(t.Context(), c, "into the void")
		wantCallError(t, err, true, ErrSlowReader)
		<-c.Done()
		far.Close()
	})
}

// A peer that only ended its writing side is gone as well: its replies are
// dropped, not waited for.
func TestHalfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{}
		_, ln := serve(t, Config{}, h)
		nc := rawTo(t, ln)
		send(t, nc, Frame{Request: 1})
		nc.(*pipeEnd).CloseWrite()
		synctest.Wait()
		if r := h.reasons(); len(r) != 1 || r[0] != io.EOF {
			t.Errorf("closed with %v", r)
		}
		nc = rawTo(t, ln)
		send(t, nc, Frame{Request: 1})
		nc.Write([]byte{0, 0})
		nc.Close()
		synctest.Wait()
		if r := h.reasons(); len(r) != 2 || r[1] != io.ErrUnexpectedEOF {
			t.Errorf("closed with %v", r)
		}
	})
}

func TestReadBufferShrinksWhenQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := Pipe(0)
		defer near.Close()
		defer far.Close()
		var pool buffers
		r := &frameReader{src: near, pool: &pool, maxFrame: DefaultMaxFrame, frameTimeout: time.Minute}
		largest := 0
		go far.Write(AppendFrame(nil, Frame{Request: 1, Body: make([]byte, 1<<20)}))
		for ok := false; !ok; _, ok, _ = r.next() {
			if err := r.fill(); err != nil {
				t.Fatal(err)
			}
			largest = max(largest, cap(r.buf.b))
		}
		if largest < 1<<20 || largest > 4<<20 {
			t.Errorf("%d bytes for a large frame", largest)
		}
		for _, tc := range []struct {
			quiet time.Duration
			want  int
		}{{shrinkAfter / 2, busyBuffer}, {shrinkAfter / 2, busyBuffer}, {2 * shrinkAfter, idleBuffer}, {time.Hour, idleBuffer}} {
			time.AfterFunc(tc.quiet, func() { far.Write(AppendFrame(nil, Frame{Request: 2})) })
			if err := r.fill(); err != nil {
				t.Fatal(err)
			}
			if n := cap(r.buf.b); n != tc.want {
				t.Errorf("%d bytes after %v, want %d", n, tc.quiet, tc.want)
			}
			if _, ok, err := r.next(); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
	})
}

// TestReadBufferShrinksBetweenSmallFrames: between nodes the idle time-out is short and a small frame comes
// each second, so that no wait is ever long.
func TestReadBufferShrinksBetweenSmallFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := Pipe(0)
		defer near.Close()
		defer far.Close()
		var pool buffers
		r := &frameReader{src: near, pool: &pool, maxFrame: DefaultMaxFrame, frameTimeout: time.Minute, idleTimeout: 2500 * time.Millisecond}
		send := func(bytes int) int {
			go far.Write(AppendFrame(nil, Frame{Request: 1, Body: make([]byte, bytes)}))
			for ok := false; !ok; _, ok, _ = r.next() {
				if err := r.fill(); err != nil {
					t.Fatal(err)
				}
			}
			return cap(r.buf.b)
		}
		for range 3 { // a large one now and then keeps it
			if n := send(30 << 10); n < 16<<10 {
				t.Fatalf("%d bytes for a large frame", n)
			}
			for range 8 {
				time.Sleep(time.Second)
				if n := send(10); n < 16<<10 {
					t.Fatalf("%d bytes within %v", n, shrinkAfter)
				}
			}
		}
		for range 3 {
			time.Sleep(time.Second)
			send(10)
		}
		if n := send(10); n != idleBuffer {
			t.Errorf("%d bytes after %v of small frames, want %d", n, shrinkAfter, idleBuffer)
		}
	})
}

func TestIdleConnectionsAreCheap(t *testing.T) {
	const conns = 2000
	memory := func() (bytes uint64, goroutines int) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
	}
	h := &handler{handle: echoFrame}
	srv, ln := serve(t, Config{}, h)
	bytesBefore, goroutinesBefore := memory()
	for i := range conns {
		nc := rawTo(t, ln)
		send(t, nc, Frame{Request: uint64(i) + 1, Body: []byte("hello")})
		if f := receive(t, nc); f.Request != uint64(i)+1 {
			t.Fatalf("got %+v", f)
		}
	}
	bytesAfter, goroutinesAfter := memory()
	if n := srv.Conns(); n != conns {
		t.Fatalf("%d connections", n)
	}
	per := (bytesAfter - bytesBefore) / conns
	t.Logf("%d bytes per connection, both ends of the pipe included; %d goroutines", per, goroutinesAfter-goroutinesBefore)
	if per > 16<<10 {
		t.Errorf("%d bytes per idle connection", per)
	}
	if n := goroutinesAfter - goroutinesBefore; n > conns+conns/10 {
		t.Errorf("%d goroutines for %d connections", n, conns)
	}
}

// 64 requests answered at one moment share writes.
func TestCoalescing(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const callers, rounds = 64, 50
	counted := &countingListener{Listener: ln}
	srv := NewServer(Config{}, &echo{})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), counted) }()
	c, err := Dial(t.Context(), ln.Addr().String(), ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range rounds {
				if _, err := callText(t.Context(), c, "x"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	c.Close()
	<-c.Done()
	srv.Close()
	<-served
	if n := counted.writes.Load(); n > callers*rounds/3 {
		t.Errorf("%d writes for %d replies", n, callers*rounds)
	}
}

func TestHTTPGetsAnAnswer(t *testing.T) {
	for _, request := range []string{"GET / HTTP/1.1\r\n\r\n", "POST /x HTTP/1.1\r\n\r\n", "HEAD / HTTP/1.0\r\n\r\n", "PUT /", "OPTIONS *"} {
		synctest.Test(t, func(t *testing.T) {
			h := &handler{}
			_, ln := serve(t, Config{}, h)
			nc := rawTo(t, ln)
			nc.Write([]byte(request[:2])) // it may come in pieces
			synctest.Wait()
			nc.Write([]byte(request[2:]))
			b, err := io.ReadAll(nc)
			if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 400 ") || !strings.Contains(string(b), "Norn protocol") {
				t.Errorf("%q got %q, %v", request, b, err)
			}
			nc.Close()
			synctest.Wait()
			if r := h.reasons(); len(r) != 1 || !errors.Is(r[0], ErrPeerHTTP) {
				t.Errorf("closed with %v", r)
			}
		})
	}
}

func TestTLSWhereNoneIsConfigured(t *testing.T) {
	h := &handler{}
	_, ln := serve(t, Config{}, h)
	_, err := Dial(t.Context(), "memory", ClientConfig{Dialer: ln.Dial, TLS: &tls.Config{InsecureSkipVerify: true}})
	if err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("dial: %v", err)
	}
}

package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// linkHandler remembers what comes in.
type linkHandler struct {
	mu      sync.Mutex // guards the fields below
	bodies  []string
	refused []error
	damaged int
	bursts  int
	frame   func(Frame) error
}

func (h *linkHandler) Frame(f Frame) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bodies = append(h.bodies, string(f.Body))
	if h.frame != nil {
		return h.frame(f)
	}
	return nil
}

func (h *linkHandler) Burst() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bursts++
}

func (h *linkHandler) Damaged(error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.damaged++
}

func (h *linkHandler) Refused(_ Frame, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = append(h.refused, err)
}

// links gives two ends and where their ends will be told.
func links(cfg LinkConfig) (a, b *Link, ha, hb *linkHandler, ea, eb chan error) {
	x, y := Pipe(0)
	a, b = NewLink(x, cfg), NewLink(y, cfg)
	ha, hb = &linkHandler{}, &linkHandler{}
	ea, eb = make(chan error, 1), make(chan error, 1)
	go func() { ea <- a.Read(ha) }()
	go func() { eb <- b.Read(hb) }()
	return a, b, ha, hb, ea, eb
}

func TestLinksCarryFramesBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, ha, hb, ea, eb := links(LinkConfig{})
		for range 100 {
			if a.Send(Frame{Method: 3}, Bytes("to b")) != nil || b.Send(Frame{Method: 4, Flags: FlagResponse, Request: 9}, Bytes("to a")) != nil {
				t.Fatal("not taken")
			}
		}
		synctest.Wait()
		if len(ha.bodies) != 100 || len(hb.bodies) != 100 || hb.bodies[99] != "to b" || ha.bodies[99] != "to a" || hb.bursts > 50 {
			t.Errorf("%d and %d frames in %d bursts", len(ha.bodies), len(hb.bodies), hb.bursts)
		}
		bye := errors.New("bye")
		a.Close(bye)
		if err := <-ea; !errors.Is(err, bye) {
			t.Errorf("who closed it: %v", err)
		}
		if err := <-eb; !errors.Is(err, io.EOF) {
			t.Errorf("the other: %v", err)
		}
		if err := b.Send(Frame{}, nil); !errors.Is(err, ErrConnClosed) {
			t.Errorf("a frame after the end: %v", err)
		}
	})
}

// fate is a body that counts what becomes of it.
type fate struct {
	size, real int
	fails      bool
	dropped    *int
}

func (f fate) Size() int { return f.size }

func (f fate) AppendTo(dst []byte) ([]byte, error) {
	if f.fails {
		return nil, errors.New("no encoding")
	}
	return append(dst, make([]byte, f.real)...), nil
}

func (f fate) Dropped() { *f.dropped++ }

// TestFullLinksDrop: a frame that does not fit is refused, the link goes on, and
// every frame that was taken comes or is dropped.
func TestFullLinksDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := Pipe(0)
		a := NewLink(x, LinkConfig{MaxOutboxBytes: 1 << 20, WriteTimeout: time.Minute})
		ended := make(chan error, 1)
		go func() { ended <- a.Read(&linkHandler{}) }()
		taken, dropped := 0, 0
		for range 200 {
			if err := a.Send(Frame{}, fate{size: 10000, real: 10000, dropped: &dropped}); err == nil {
				taken++
			} else if !errors.Is(err, ErrSlowReader) {
				t.Fatal(err)
			}
		}
		if taken < 100 || taken > 140 || a.Queued() > 1<<20 {
			t.Errorf("%d of 200 taken, %d bytes wait", taken, a.Queued())
		}
		b := NewLink(y, LinkConfig{})
		h := &linkHandler{}
		read := make(chan error, 1)
		go func() { read <- b.Read(h) }()
		synctest.Wait()
		if len(h.bodies) != taken || dropped != 0 {
			t.Errorf("%d came, %d were dropped, of %d", len(h.bodies), dropped, taken)
		}
		// One that has no encoding costs only itself.
		for _, f := range []fate{{fails: true}, {size: 1, real: DefaultMaxFrame + 1}, {size: 1, real: 5000}, {}} {
			f.dropped = &dropped
			if err := a.Send(Frame{}, f); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if len(h.bodies) != taken+2 || dropped != 2 {
			t.Errorf("%d came, %d were dropped", len(h.bodies)-taken, dropped)
		}
		b.Close(nil)
		<-read
		<-ended
	})
}

// TestClosedLinksTellWhatNeverLeft to those who wait for it.
func TestClosedLinksTellWhatNeverLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := Pipe(0)
		defer y.Close()
		a := NewLink(x, LinkConfig{WriteTimeout: time.Minute})
		taken, dropped := 0, 0
		for range 20 {
			if a.Send(Frame{}, fate{size: 200_000, real: 200_000, dropped: &dropped}) == nil {
				taken++
			}
			synctest.Wait()
		}
		ended := make(chan error, 1)
		go func() { ended <- a.Read(&linkHandler{}) }()
		synctest.Wait()
		a.Close(nil)
		if err := <-ended; !errors.Is(err, ErrConnClosed) {
			t.Error(err)
		}
		if taken != 20 || dropped < 15 || dropped > 19 {
			t.Errorf("%d taken, %d dropped", taken, dropped)
		}
	})
}

func TestFinishedLinksFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _, hb, ea, eb := links(LinkConfig{})
		enough := errors.New("enough")
		hb.frame = func(f Frame) error {
			if b.Send(Frame{Flags: FlagResponse}, Bytes("no")) != nil {
				t.Error("not taken")
			}
			b.Finish(enough)
			return nil
		}
		if a.Send(Frame{}, Bytes("may I?")) != nil {
			t.Fatal("not taken")
		}
		if err := <-ea; !errors.Is(err, io.EOF) {
			t.Errorf("the other: %v", err)
		}
		if err := <-eb; !errors.Is(err, enough) {
			t.Errorf("who finished: %v", err)
		}
		if len(hb.bodies) != 1 {
			t.Errorf("handled: %v", hb.bodies)
		}
	})
}

func TestLinksEnd(t *testing.T) {
	raw := func(write func(net.Conn)) func() (*linkHandler, error) {
		return func() (*linkHandler, error) {
			x, y := Pipe(0)
			defer y.Close()
			l := NewLink(x, LinkConfig{MaxFrame: 1 << 20, HelloTimeout: time.Second, IdleTimeout: 5 * time.Second, FrameTimeout: 2 * time.Second})
			go write(y)
			h := &linkHandler{}
			err := l.Read(h)
			return h, err
		}
	}
	frame := AppendSummed(nil, Frame{Body: []byte("x")})
	for _, c := range []struct {
		name    string
		do      func() (*linkHandler, error)
		is      error
		after   time.Duration
		frames  int
		refused int
	}{
		{"without a first frame", raw(func(net.Conn) {}), ErrHelloTimeout, time.Second, 0, 0},
		{"when nothing comes", raw(func(nc net.Conn) { _, _ = nc.Write(frame) }), ErrIdleTimeout, 5 * time.Second, 1, 0},
		{"within a frame", raw(func(nc net.Conn) { _, _ = nc.Write(append(bytes.Clone(frame), 0)) }), ErrFrameTimeout, 2 * time.Second, 1, 0},
		{"when it is closed", raw(func(nc net.Conn) { _, _ = nc.Write(frame); _ = nc.Close() }), io.EOF, 0, 1, 0},
		{"on garbage", raw(func(nc net.Conn) { _, _ = nc.Write(append([]byte{0, 0, 0, 26}, make([]byte, 26)...)) }), ErrDamaged, 0, 0, 0},
		{"on no length", raw(func(nc net.Conn) { _, _ = nc.Write(make([]byte, 30)) }), ErrPeerOther, 0, 0, 0},
		{"on HTTP", raw(func(nc net.Conn) { _, _ = nc.Write([]byte("GET / HTTP/1.1")) }), ErrPeerHTTP, 0, 0, 0},
		{"on TLS", raw(func(nc net.Conn) { _, _ = nc.Write([]byte(tlsAlert)) }), ErrPeerTLS, 0, 0, 0},
		{"on a length that is none", raw(func(nc net.Conn) { _, _ = nc.Write(bytes.Repeat([]byte{127}, 30)) }), ErrPeerOther, 0, 0, 0},
		{"but not on a large frame", raw(func(nc net.Conn) {
			_, _ = nc.Write(AppendSummed(nil, Frame{Body: make([]byte, 2<<20)}))
			_, _ = nc.Write(frame)
			_ = nc.Close()
		}), io.EOF, 0, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				h, err := c.do()
				if took := time.Since(began); !errors.Is(err, c.is) || took != c.after || len(h.bodies) != c.frames || len(h.refused) != c.refused || h.bursts != min(c.frames, 1) {
					t.Errorf("%v after %v, %d frames, %d refused, %d bursts", err, took, len(h.bodies), len(h.refused), h.bursts)
				}
			})
		})
	}
}

// TestLinksShareMemory: large frames that are read at once stay within the bound
// of all of them together.
func TestLinksShareMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(5 << 20)
		var ends []net.Conn
		var handlers []*linkHandler
		ended := make(chan error, 3)
		for range 3 {
			x, y := Pipe(0)
			l, h := NewLink(x, LinkConfig{MaxFrame: 8 << 20, Memory: memory}), &linkHandler{}
			go func() { ended <- l.Read(h) }()
			ends, handlers = append(ends, y), append(handlers, h)
		}
		frame := AppendSummed(nil, Frame{Body: make([]byte, 3<<20)})
		for _, y := range ends {
			if _, err := y.Write(frame[:2<<20]); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		came, refused := 0, 0
		for i, y := range ends {
			if _, err := y.Write(frame[2<<20:]); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			came += len(handlers[i].bodies)
			refused += len(handlers[i].refused)
		}
		if came != 1 || refused != 2 || !errors.Is(handlers[2].refused[0], ErrCrowded) {
			t.Errorf("%d came, %d refused", came, refused)
		}
		if _, err := ends[2].Write(frame); err != nil { // now there is room
			t.Fatal(err)
		}
		synctest.Wait()
		if len(handlers[2].bodies) != 1 {
			t.Error("the next one was refused, too")
		}
		for _, y := range ends {
			y.Close()
			<-ended
		}
		if n := memory.budget.taken.Load(); n != 0 {
			t.Errorf("%d bytes were not given back", n)
		}
	})
}

// TestLimitsHoldForWhatWasReadBefore: it is no first frame yet, its length is judged, and it
// is told from other protocols.
func TestLimitsHoldForWhatWasReadBefore(t *testing.T) {
	frame := AppendSummed(nil, Frame{Body: make([]byte, 100)})
	for _, c := range []struct {
		name  string
		begun []byte
		then  []byte
		is    error
		after time.Duration
	}{
		{"no first frame", []byte{0}, nil, ErrHelloTimeout, time.Second},
		{"less than one", []byte{0, 0, 0, 90, 1, 2}, nil, ErrHelloTimeout, time.Second},
		{"no length", []byte{0}, make([]byte, 30), ErrPeerOther, 0},
		{"HTTP", []byte("G"), []byte("ET / HTTP/1.1"), ErrPeerHTTP, 0},
		{"a frame over the limit", frame[:1], frame[1:], io.EOF, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, y := Pipe(0)
				defer y.Close()
				l := NewLink(x, LinkConfig{MaxFrame: 1 << 20, HelloTimeout: time.Second, FrameTimeout: time.Minute, Begun: c.begun})
				l.SetMaxFrame(99)
				if len(c.then) > 0 {
					if _, err := y.Write(c.then); err != nil {
						t.Fatal(err)
					}
					_ = y.(interface{ CloseWrite() error }).CloseWrite()
				}
				began, h := time.Now(), &linkHandler{}
				err := l.Read(h)
				over := errors.Is(c.is, io.EOF)
				if took := time.Since(began); !errors.Is(err, c.is) || took != c.after || len(h.bodies) > 0 || (len(h.refused) == 1) != over {
					t.Errorf("%v after %v, %d frames, refused %v", err, took, len(h.bodies), h.refused)
				}
			})
		})
	}
}

package transport

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// DefaultPipeBuffer is the room of each direction of a [Pipe], in bytes: about
// that of a socket.
const DefaultPipeBuffer = 256 << 10

// Pipe returns the two ends of a connection in memory. Unlike net.Pipe it has
// buffers, of the given number of bytes per direction (0: DefaultPipeBuffer),
// and its ends have CloseWrite. What was written before a Close can still be
// read by the other end. It works within testing/synctest.
func Pipe(bufferBytes int) (net.Conn, net.Conn) {
	orInt(&bufferBytes, DefaultPipeBuffer)
	there, back := newStream(bufferBytes), newStream(bufferBytes)
	return &pipeEnd{in: back, out: there}, &pipeEnd{in: there, out: back}
}

// stream is one direction of a pipe.
type stream struct {
	room int

	mu      sync.Mutex // guards the fields below
	change  sync.Cond
	data    []byte
	from    int  // what was read of data
	ended   bool // the writer is done
	gone    bool // the reader is gone
	reading cutoff
	writing cutoff
}

// cutoff is a deadline of one side; its timer wakes who waits.
type cutoff struct {
	at    time.Time
	timer *time.Timer
}

func (c *cutoff) passed() bool { return !c.at.IsZero() && !time.Now().Before(c.at) }

func newStream(room int) *stream {
	s := &stream{room: room}
	s.change.L = &s.mu
	return s
}

// set changes a deadline of the stream.
func (s *stream) set(c *cutoff, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.at = at
	if wait := time.Until(at); !at.IsZero() && wait > 0 {
		c.timer = time.AfterFunc(wait, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.change.Broadcast()
		})
	}
	s.change.Broadcast()
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.gone:
			return 0, net.ErrClosed
		case s.reading.passed():
			return 0, os.ErrDeadlineExceeded
		case len(s.data) > s.from:
			n := copy(b, s.data[s.from:])
			if s.from += n; 2*s.from >= len(s.data) {
				s.data = append(s.data[:0], s.data[s.from:]...)
				s.from = 0
			}
			s.change.Broadcast()
			return n, nil
		case s.ended:
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		}
		s.change.Wait()
	}
}

func (s *stream) write(b []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.ended:
			return n, net.ErrClosed
		case s.gone:
			return n, io.ErrClosedPipe
		case s.writing.passed():
			return n, os.ErrDeadlineExceeded
		}
		if free := s.room - (len(s.data) - s.from); free > 0 {
			k := min(free, len(b))
			s.data = append(s.data, b[:k]...)
			b = b[k:]
			n += k
			s.change.Broadcast()
		}
		if len(b) == 0 {
			return n, nil
		}
		s.change.Wait()
	}
}

// end is the writer's farewell, leave the reader's.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.change.Broadcast()
}

func (s *stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.data, s.from = nil, 0
	s.change.Broadcast()
}

// pipeEnd is one end of a pipe, a net.Conn.
type pipeEnd struct{ in, out *stream }

func (p *pipeEnd) Read(b []byte) (int, error)  { return p.in.read(b) }
func (p *pipeEnd) Write(b []byte) (int, error) { return p.out.write(b) }

// CloseWrite ends the direction away from this end.
func (p *pipeEnd) CloseWrite() error {
	p.out.end()
	return nil
}

func (p *pipeEnd) Close() error {
	_ = p.SetDeadline(time.Time{}) // stops the timers
	p.out.end()
	p.in.leave()
	return nil
}

func (p *pipeEnd) LocalAddr() net.Addr  { return memAddr{} }
func (p *pipeEnd) RemoteAddr() net.Addr { return memAddr{} }

func (p *pipeEnd) SetDeadline(t time.Time) error {
	_ = p.SetReadDeadline(t)
	return p.SetWriteDeadline(t)
}

func (p *pipeEnd) SetReadDeadline(t time.Time) error {
	p.in.set(&p.in.reading, t)
	return nil
}

func (p *pipeEnd) SetWriteDeadline(t time.Time) error {
	p.out.set(&p.out.writing, t)
	return nil
}

type memAddr struct{}

func (memAddr) Network() string { return "memory" }
func (memAddr) String() string  { return "memory" }

// MemListener is a net.Listener in memory. It works within testing/synctest
// when it is made there.
type MemListener struct {
	room   int
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewMemListener makes a listener whose connections are pipes with so many
// bytes of buffer per direction (0: DefaultPipeBuffer).
func NewMemListener(bufferBytes int) *MemListener {
	return &MemListener{room: bufferBytes, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the listener; it waits for Accept. addr is ignored: the
// method fits [ClientConfig.Dialer]. The error is ctx's or net.ErrClosed.
func (l *MemListener) Dial(ctx context.Context, addr string) (net.Conn, error) {
	client, server := Pipe(l.room)
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for the next Dial. The error is net.ErrClosed.
func (l *MemListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept and Dial fail. Connections live on.
func (l *MemListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is a placeholder.
func (l *MemListener) Addr() net.Addr { return memAddr{} }

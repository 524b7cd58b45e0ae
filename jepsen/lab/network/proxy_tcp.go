package network

import (
	"io"
	"net"
	"time"
)

const (
	// chunkBytes is what is delayed together; queue is how many chunks may be on
	// their way on one connection, which is a window of 1 MiB.
	chunkBytes = 16 << 10
	queue      = 64
	// dialReal is for how long a node may take to accept what came for it.
	dialReal = 3 * time.Second
)

// accept takes connections for a node.
func (x *proxied) accept(l net.Listener, from func(net.Conn) (node int, real string), to int) {
	for {
		in, err := l.Accept()
		if err != nil {
			return // the proxy is closed
		}
		if !x.keep(in) {
			return
		}
		x.work.Go(func() {
			defer x.drop(in)
			node, real := from(in)
			if node == stranger {
				return
			}
			x.join(in, Way{node, to}, real)
		})
	}
}

// join connects two ends. A connection over a link that is cut in either way does
// not come about: it takes packets both ways.
func (x *proxied) join(in net.Conn, there Way, real string) {
	back := Way{there.To, there.From}
	if !x.passes(there, back) {
		return
	}
	out, err := net.DialTimeout("tcp", real, dialReal)
	if err != nil {
		return // nobody listens: the connection breaks
	}
	if !x.keep(out) {
		return
	}
	defer x.drop(out)
	done := make(chan struct{}, 2)
	for _, p := range []pump{{x, in, out, there}, {x, out, in, back}} {
		x.work.Go(func() {
			p.run()
			done <- struct{}{}
		})
	}
	<-done
	<-done
}

// pump is one way of a connection.
type pump struct {
	x        *proxied
	from, to net.Conn
	way      Way
}

// chunk is what was read at a time, and when it is to arrive.
type chunk struct {
	data []byte
	due  time.Time
}

// run carries bytes until one side ends; then the other side hears of it, as
// late as of bytes.
func (p pump) run() {
	chunks := make(chan chunk, queue)
	ended := make(chan struct{})
	p.x.work.Go(func() { p.read(chunks, ended) })
	defer close(ended)
	for c := range chunks {
		if !p.x.sleep(time.Until(c.due)) || !p.x.passes(p.way) {
			return
		}
		if c.data == nil {
			break
		}
		if _, err := p.to.Write(c.data); err != nil {
			_ = p.from.Close() // its sender has nobody to send to
			return
		}
	}
	if half, ok := p.to.(*net.TCPConn); ok {
		_ = half.CloseWrite() // it may be closed already
	}
}

// read reads until one side ends. A chunk without data is the end.
func (p pump) read(chunks chan<- chunk, ended <-chan struct{}) {
	defer close(chunks)
	var last time.Time
	for {
		data := make([]byte, chunkBytes)
		n, err := p.from.Read(data)
		l, _ := p.x.at(p.way)
		due := time.Now().Add(p.x.late(p.way, l, n, false))
		if due.Before(last) {
			due = last // bytes of a connection stay in order
		}
		last = due
		if n > 0 {
			select {
			case chunks <- chunk{data[:n], due}:
			case <-ended:
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				due = time.Now()
			}
			select {
			case chunks <- chunk{nil, due}:
			case <-ended:
			}
			return
		}
	}
}

// sleep waits; false: the proxy is closed.
func (x *proxied) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-x.closed:
		return false
	}
}

package transport

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// echo answers each request inline with its own body.
type echo struct{ pool sync.Pool }

type echoBody struct {
	b    []byte
	home *sync.Pool
}

func (e *echoBody) Size() int { return len(e.b) }
func (e *echoBody) AppendTo(dst []byte) ([]byte, error) {
	dst = append(dst, e.b...)
	e.home.Put(e)
	return dst, nil
}

func (e *echo) Open(*Conn) {}
func (e *echo) Handle(c *Conn, f Frame) {
	b, _ := e.pool.Get().(*echoBody)
	if b == nil {
		b = &echoBody{home: &e.pool}
	}
	b.b = append(b.b[:0], f.Body...)
	c.Reply(f.Request, f.Method, 0, b)
}
func (e *echo) Batch(*Conn)          {}
func (e *echo) Cancel(*Conn, uint64) {}
func (e *echo) Closed(*Conn, error)  {}

// countingListener counts the write calls of the server's side.
type countingListener struct {
	net.Listener
	writes atomic.Int64
}

type countingConn struct {
	*net.TCPConn
	writes *atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{c.(*net.TCPConn), &l.writes}, nil
}

func (c countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.TCPConn.Write(b)
}

func benchmarkCallers(b *testing.B, callers int, inTime bool) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	counted := &countingListener{Listener: ln}
	srv := NewServer(Config{}, &echo{})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), counted) }()
	c, err := Dial(b.Context(), ln.Addr().String(), ClientConfig{})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	if inTime {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Hour)
		defer cancel()
	}
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			var body Body = Bytes(make([]byte, 100))
			for left.Add(-1) >= 0 {
				if err := c.Call(ctx, 2, body, nil); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(b.N)/float64(counted.writes.Load()), "replies/write")
	c.Close()
	<-c.Done()
	srv.Close()
	<-served
}

func Benchmark1Caller(b *testing.B)           { benchmarkCallers(b, 1, false) }
func Benchmark64Callers(b *testing.B)         { benchmarkCallers(b, 64, false) }
func Benchmark64CallersDeadline(b *testing.B) { benchmarkCallers(b, 64, true) }
func Benchmark512Callers(b *testing.B)        { benchmarkCallers(b, 512, false) }

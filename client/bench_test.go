package client

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// acceptor takes every enqueue of one task, at next to no cost.
type acceptor struct{ hello []byte }

func (acceptor) Open(*transport.Conn)           {}
func (acceptor) Batch(*transport.Conn)          {}
func (acceptor) Cancel(*transport.Conn, uint64) {}
func (acceptor) Closed(*transport.Conn, error)  {}

func (a acceptor) Handle(c *transport.Conn, f transport.Frame) {
	switch nornv1.Method(f.Method) {
	case nornv1.Method_METHOD_HELLO:
		c.Reply(f.Request, f.Method, 0, transport.Bytes(a.hello))
	case nornv1.Method_METHOD_ENQUEUE:
		task, _ := protowire.ConsumeBytes(f.Body[1:])
		text := id.ID(task[2 : 2+id.Size]).String()
		m := &nornv1.EnqueueReply{Results: []*nornv1.EnqueueResult{{Receipt: &nornv1.Receipt{Id: text, Copies: 1, DurableCopies: 1, Partition: 5}}}}
		c.Reply(f.Request, f.Method, 0, message{m: m})
	default:
		c.Reply(f.Request, f.Method, 0, transport.Bytes(nil))
	}
}

func benchmarkEnqueue(b *testing.B, callers int, ctx context.Context) {
	hello, err := protobuf.Marshal(&nornv1.HelloReply{Version: proto.MaxVersion, Placement: fakenode.Placement()})
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := transport.NewServer(transport.Config{}, acceptor{hello})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), ln) }()
	c, err := Dial(b.Context(), []string{ln.Addr().String()})
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Connect(b.Context()); err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 100)
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := c.Enqueue(ctx, Task{Queue: "bench", Payload: payload}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	c.Close()
	srv.Close()
	<-served
}

func BenchmarkEnqueue1(b *testing.B)  { benchmarkEnqueue(b, 1, context.Background()) }
func BenchmarkEnqueue64(b *testing.B) { benchmarkEnqueue(b, 64, context.Background()) }

// A context that can be cancelled, without a deadline, costs a timer per call.
func BenchmarkEnqueue64Cancellable(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	benchmarkEnqueue(b, 64, ctx)
}

func BenchmarkNewID(b *testing.B) {
	c, err := Dial(b.Context(), []string{"nowhere"})
	if err != nil {
		b.Fatal(err)
	}
	c.placed(fakenode.Placement())
	for b.Loop() {
		c.NewID()
	}
}

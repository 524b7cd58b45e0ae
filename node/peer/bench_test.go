package peer

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// counter is a handler that counts.
type counter struct {
	testNode
	facts, messages, bursts atomic.Int64
	came                    chan struct{}
	small                   chan struct{} // a token per FactsTaken, if it has room
}

func (c *counter) Messages(_ register.Member, all []message.PeerMessage) {
	c.bursts.Add(1)
	c.messages.Add(int64(len(all)))
	for _, m := range all {
		switch f := m.(type) {
		case *message.Facts:
			for i := range f.Parts {
				c.facts.Add(int64(len(f.Parts[i].Facts)))
			}
		case *message.FactsTaken:
			select {
			case c.small <- struct{}{}:
			default:
			}
		}
	}
	select {
	case c.came <- struct{}{}:
	default:
	}
}

// overTCP gives two networks on loopback.
func overTCP(b *testing.B) (from, to *Network, got *counter) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	got = &counter{came: make(chan struct{}, 1), small: make(chan struct{}, 1)}
	addresses := func(register.Member) []string { return []string{ln.Addr().String()} }
	from = New(Config{Self: who(1, 0), Cluster: testCluster, Handler: &testNode{}, Addresses: addresses})
	to = New(Config{Self: who(2, 0), Cluster: testCluster, Handler: got})
	served := make(chan error, 1)
	go func() { served <- to.Serve(ln) }()
	b.Cleanup(func() {
		from.Close()
		to.Close()
		<-served
	})
	return from, to, got
}

// factsOf makes a write of so many facts over 64 partitions.
func factsOf(number uint64, count, bytes int) *message.Facts {
	m := &message.Facts{Write: number, Parts: make([]message.PartFacts, min(64, count))}
	for i := range count {
		part := &m.Parts[i%len(m.Parts)]
		part.Partition = ring.Partition(i % len(m.Parts))
		var task id.ID
		binary.BigEndian.PutUint64(task[:], uint64(i))
		part.Facts = append(part.Facts, crdt.Fact{Task: task, Key: crdt.Key{Kind: crdt.KindEnqueued}, Body: make([]byte, bytes)})
	}
	return m
}

// BenchmarkFacts is the way of 50,000 facts to another node, in writes of so many
// facts of 200 bytes.
func BenchmarkFacts(b *testing.B) {
	const total, bytes = 50_000, 200
	for _, each := range []int{1, 10, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("each=%d", each), func(b *testing.B) {
			from, _, got := overTCP(b)
			m := factsOf(1, each, bytes)
			b.ReportAllocs()
			sent := int64(0)
			for b.Loop() {
				for range total / each {
					for !from.Send(who(2, 0), m) {
						<-got.came // full: wait until something was taken
					}
					sent += int64(each)
				}
				for got.facts.Load() < sent {
					<-got.came
				}
			}
			_, p, _, _ := encode(m)
			b.SetBytes(total * int64(p.Size()) / int64(each))
			b.ReportMetric(float64(got.facts.Load())/b.Elapsed().Seconds(), "facts/s")
			b.ReportMetric(float64(got.messages.Load())/b.Elapsed().Seconds(), "msgs/s")
			b.ReportMetric(float64(got.messages.Load())/float64(got.bursts.Load()), "msgs/burst")
		})
	}
}

// BenchmarkSmall is one small message at a time: how long it takes to arrive.
func BenchmarkSmall(b *testing.B) {
	from, _, got := overTCP(b)
	for b.Loop() {
		from.Send(who(2, 0), numbered(1))
		<-got.small
	}
}

// BenchmarkSmallBesideCopies is the same while the bulk connection is full.
func BenchmarkSmallBesideCopies(b *testing.B) {
	from, _, got := overTCP(b)
	stop, ended := make(chan struct{}), make(chan struct{})
	copied := factsOf(1, 1000, 1000)
	go func() {
		defer close(ended)
		for tick := time.Tick(time.Millisecond); ; {
			for from.Send(who(2, 0), copied) {
			}
			select {
			case <-stop:
				return
			case <-tick:
			}
		}
	}()
	for b.Loop() {
		from.Send(who(2, 0), numbered(1))
		<-got.small
	}
	close(stop)
	<-ended
}

// BenchmarkEncode and BenchmarkDecode are the codec alone, per fact.
func BenchmarkEncode(b *testing.B) {
	m := factsOf(1, 1000, 200)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		_, p, _, _ := encode(m)
		dst, _ = p.AppendTo(dst[:0])
	}
	b.SetBytes(int64(len(dst)))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/fact")
}

func BenchmarkDecode(b *testing.B) {
	method, dst := encoded(b, factsOf(1, 1000, 200))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(method, dst); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(dst)))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/fact")
}

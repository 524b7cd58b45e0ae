package crdt

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
)

func someSpec() Enqueued {
	return Enqueued{
		Queue: "mail", Payload: make([]byte, 100),
		Retry: Retry{MaxAttempts: 25, Initial: time.Second, Max: time.Hour, Multiplier: 2000, Jitter: 200, FromQueue: true},
	}
}

func TestAllocations(t *testing.T) {
	e, u := someSpec(), Update{Token: 1 << 32, Seq: 1, Data: make([]byte, 100), At: 1}
	f := e.Fact(someTask())
	k := f.Key
	buf, task := make([]byte, 0, 1024), f.Task
	for _, c := range []struct {
		name string
		want float64
		run  func()
	}{
		{"Enqueued.Encode", 1, func() { e.Encode() }},
		{"Enqueued.AppendTo", 0, func() { e.AppendTo(buf) }},
		{"Enqueued.Fact", 1, func() { e.Fact(task) }},
		{"Update.Fact", 1, func() { u.Fact(task) }},
		{"Completed.Fact", 1, func() { Completed{Token: 1}.Fact(task) }},
		{"Key.Append", 0, func() { k.Append(buf) }},
		{"HashFact", 0, func() { HashFact(f) }},
		{"DecodeCompleted", 0, func() { _, _ = DecodeCompleted([]byte{1, 1, 1, 0, 0}) }},
		{"DecodeEnqueued", 1, func() { _, _ = DecodeEnqueued(f.Body) }}, // the queue's name
	} {
		if got := testing.AllocsPerRun(100, c.run); got != c.want {
			t.Errorf("%s: %v allocations, want %v", c.name, got, c.want)
		}
	}
}

func BenchmarkEnqueuedEncode(b *testing.B) {
	e := someSpec()
	b.ReportAllocs()
	for b.Loop() {
		e.Encode()
	}
}

func BenchmarkEnqueuedDecode(b *testing.B) {
	body := someSpec().Encode()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = DecodeEnqueued(body)
	}
}

func BenchmarkKeyAppend(b *testing.B) {
	buf := make([]byte, 0, KeySize)
	k := Key{Kind: KindUpdate, A: 1, B: 2}
	b.ReportAllocs()
	for b.Loop() {
		k.Append(buf)
	}
}

func BenchmarkHashFact(b *testing.B) {
	f := someSpec().Fact(someTask())
	b.ReportAllocs()
	for b.Loop() {
		HashFact(f)
	}
}

// BenchmarkView reads a task the way a claim does: enqueue, two failures.
func BenchmarkView(b *testing.B) {
	s := NewSet(id.ID{})
	for _, f := range []Fact{someSpec().Fact(id.ID{}), Failed{Token: 1, Counted: true}.Fact(id.ID{}), Failed{Token: 2, Counted: true}.Fact(id.ID{})} {
		if _, _, err := s.Add(f); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Task(); err != nil {
			b.Fatal(err)
		}
	}
}

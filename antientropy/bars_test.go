package antientropy

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/store"
)

// load stores facts in batches.
func load(r *replica, facts []crdt.Fact) {
	for n, f := range facts {
		r.put(f)
		if n%1000 == 999 {
			r.commit()
		}
	}
	r.commit()
}

// pair gives two replicas of n tasks that came at so many per second.
func pair(n, perSecond int) (l *link, facts []crdt.Fact) {
	facts = recent(n, perSecond, someTime)
	a, b := newReplica(), newReplica()
	load(a, facts)
	load(b, facts)
	return newLink(a, b, Config{}), facts
}

// lose drops d facts: the newest ones of one replica, or any of either, and
// gives the bytes of keys and bodies.
func (l *link) lose(facts []crdt.Fact, d int, spread bool) (missing int) {
	random := rand.New(rand.NewPCG(uint64(d), 1))
	order := random.Perm(len(facts))
	for k := range d {
		at, side := len(facts)-1-k, l.a
		if spread {
			at = order[k]
		}
		if spread && k%2 == 1 {
			side = l.b
		}
		side.drop(facts[at])
		missing += len(factKey(positionOf(&facts[at]))) - 3 + len(facts[at].Body)
	}
	l.a.commit()
	l.b.commit()
	return missing
}

// bar is how many bytes a round may move for so many bytes of missing facts.
func bar(missing int) int {
	if missing == 0 {
		return 1 << 10
	}
	return 2*missing + 64<<10
}

// The bars: bytes moved for d missing facts are at most twice their size and 64
// KiB; of an equal pair, 1 KiB. BenchmarkBytesMoved holds 10^6 facts to them.
func TestBytesMoved(t *testing.T) {
	for _, perSecond := range []int{10, 1400, 20_000} {
		l, facts := pair(12_000, perSecond)
		for _, d := range []int{0, 1, 10, 50, 1000, 10_000} {
			for _, spread := range []bool{false, true} {
				missing := l.lose(facts, d, spread)
				r := l.round(t)
				moved := int(r.Sent + r.Received)
				if int(r.Pulled+r.Pushed) != d || int(r.Moved) != d || r.Equal != (d == 0) || moved > bar(missing) {
					t.Errorf("%d per second, %d missing, spread %v: %d bytes moved for %d; %+v", perSecond, d, spread, moved, missing, r)
				}
			}
		}
		l.wantEqual(t)
	}
}

// A page bounds a message, whatever is asked for; only a fact may be longer.
func TestMessagesAreBounded(t *testing.T) {
	l, facts := pair(4000, 20_000)
	l.lose(facts, 2000, true)
	l.initiator = NewInitiator(Config{PageBytes: 2 << 10}, l.a.tree, l.a)
	l.responder = NewResponder(Config{PageBytes: 2 << 10}, l.b.tree, l.b)
	if r := l.round(t); r.Err != nil || l.most > 8<<10 {
		t.Errorf("a message of %d bytes; %+v", l.most, r)
	}
	l.wantEqual(t)
}

// BenchmarkBytesMoved gives the bytes moved for missing facts, and their share of
// what is allowed; over that it fails.
func BenchmarkBytesMoved(b *testing.B) {
	for _, perSecond := range []int{1, 100, 1400, 100_000} {
		l, facts := pair(1_000_000, perSecond)
		for _, d := range []int{0, 1, 10, 100, 1000, 10_000} {
			for _, spread := range []bool{false, true}[:min(d+1, 2)] {
				b.Run(fmt.Sprintf("rate=%d/missing=%d/spread=%v", perSecond, d, spread), func(b *testing.B) {
					for b.Loop() {
						b.StopTimer()
						missing := l.lose(facts, d, spread)
						b.StartTimer()
						r := l.round(b)
						moved := float64(r.Sent + r.Received)
						if int(r.Pulled+r.Pushed) != d || moved > float64(bar(missing)) {
							b.Fatalf("%v bytes moved for %d missing: %+v", moved, missing, r)
						}
						b.ReportMetric(float64(missing), "missing-B")
						b.ReportMetric(moved, "moved-B")
						b.ReportMetric(moved/float64(bar(missing)), "of-bar")
						b.ReportMetric(float64(r.Requests+1), "roundtrips")
					}
				})
			}
		}
	}
}

// BenchmarkFlush is what the tree adds to steps of so many new facts in one
// partition, on the store that servers use: time for each fact, and bytes of
// keys and values for each step and fact.
func BenchmarkFlush(b *testing.B) {
	for _, batch := range []int{1, 16, 100, 1000} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			disk, err := store.OpenPebble(store.PebbleOptions{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = disk.Close() }()
			tx, tree := store.NewOverlay(disk), NewTree(testTree, testPart)
			facts, n, steps, bytes := recent(200_000, 1400, someTime), 0, 0, 0
			b.ReportAllocs()
			for b.Loop() {
				tree.Add(facts[n%len(facts)])
				if n++; n%batch == 0 {
					tree.Flush(tx)
					b.StopTimer()
					ops := tx.Take()
					bytes, steps = bytes+ops.Size(), steps+1
					disk.Apply(ops)
					tx.Release(ops)
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(bytes)/float64(max(steps, 1)), "B/step")
			b.ReportMetric(float64(bytes)/float64(n), "B/fact")
		})
	}
}

// BenchmarkFill is a fresh replica that is filled: bytes of messages a second,
// all of the codec and of both stores, in memory, on one core included.
func BenchmarkFill(b *testing.B) {
	for _, size := range []int{100, 4096} {
		b.Run(fmt.Sprintf("payload=%d", size), func(b *testing.B) {
			from := newReplica()
			for _, f := range recent(10_000, 1400, someTime) {
				from.put(crdt.Enqueued{Queue: "mail", Payload: make([]byte, size)}.Fact(f.Task))
			}
			from.commit()
			for b.Loop() {
				r := newLink(newReplica(), from, Config{PageBytes: 1 << 20}).round(b)
				b.SetBytes(int64(r.Received))
			}
		})
	}
}

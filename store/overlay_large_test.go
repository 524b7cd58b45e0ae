package store_test

import (
	"encoding/binary"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
)

// large is an overlay with thousands of pending keys, and what it should hold.
type large struct {
	t    *testing.T
	rand *rand.Rand
	tx   *store.Overlay
	want map[string]string
	bulk bool           // most keys ascend
	next map[byte]int16 // then: the next one of a table
}

func (l *large) key() []byte {
	return l.keyAt(byte(1+l.rand.IntN(3)), l.rand.IntN(4000))
}

// keyAt is one that begins as those do that are near.
func (l *large) keyAt(table byte, n int) []byte {
	return binary.BigEndian.AppendUint16([]byte{table, 0, byte(n / 2000)}, uint16(n))
}

// writes some keys, most of them new ones.
func (l *large) writes(n int) {
	for range n {
		key := l.key()
		if l.bulk && l.rand.IntN(200) > 0 {
			l.next[key[0]] += int16(1 + l.rand.IntN(3))
			key = l.keyAt(key[0], int(l.next[key[0]])%4000)
		} else if l.bulk && l.rand.IntN(2) == 0 || l.rand.IntN(4) == 0 {
			if l.bulk { // what came last
				key = l.keyAt(key[0], int(l.next[key[0]])%4000)
			}
			l.tx.Delete(key)
			delete(l.want, string(key))
			continue
		}
		value := key[:l.rand.IntN(4)]
		l.tx.Set(key, value)
		l.want[string(key)] = string(value)
	}
}

// gets reads some keys.
func (l *large) gets() {
	l.t.Helper()
	for range 300 {
		key := l.key()
		want, is := l.want[string(key)]
		if got, ok := l.tx.Get(key); string(got) != want || ok != is {
			l.t.Fatalf("%x is %x, %v; want %x, %v", key, got, ok, want, is)
		}
	}
}

// keys are those of a range, in order.
func (l *large) keys(lower, upper []byte) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(l.want)) {
		if key >= string(lower) && (upper == nil || key < string(upper)) {
			all = append(all, key)
		}
	}
	return all
}

// reads a range in both directions.
func (l *large) reads(lower, upper []byte) {
	l.t.Helper()
	expected := l.keys(lower, upper)
	for _, walk := range []iter.Seq2[[]byte, []byte]{l.tx.Scan(lower, upper), l.tx.Back(lower, upper)} {
		var got []string
		for key, value := range walk {
			if got = append(got, string(key)); l.want[string(key)] != string(value) {
				l.t.Fatalf("%x is %x, want %x", key, value, l.want[string(key)])
			}
		}
		if !slices.Equal(got, expected) {
			l.t.Fatalf("%x to %x: %d keys, want %d: %x, want %x", lower, upper, len(got), len(expected), got, expected)
		}
		slices.Reverse(expected)
	}
}

// TestOverlayLargeBatch: however many keys are pending, in whatever steps they came and
// wherever a range ends, it reads as a plain map does; a walk under way is not disturbed by what
// is written and walked inside of it.
func TestOverlayLargeBatch(t *testing.T) {
	base := memstore.New()
	l := &large{t: t, rand: rand.New(rand.NewPCG(1, 2)), tx: store.NewOverlay(base), want: map[string]string{}}
	for round := range 6 { // its space is used again
		l.bulk, l.next = round%2 == 1, map[byte]int16{}
		if l.writes(round); l.bulk {
			l.tx.Bulk(0, 0)
		}
		steps := []int{1, 8, 9, 3000, 1, 5, 40, 700, 2, 1500}
		if l.bulk {
			steps = steps[3:]
		}
		for _, n := range steps {
			l.writes(n)
			l.gets()
			for range 4 {
				l.reads(l.key(), l.key())
			}
			l.reads(l.key(), nil)
			l.reads(nil, l.key())
			l.reads([]byte{2}, []byte{3})
		}
		before, at := l.keys([]byte{2}, []byte{3}), 0
		for key := range l.tx.Scan([]byte{2}, []byte{3}) {
			for at < len(before) && before[at] < string(key) { // deleted meanwhile
				if _, is := l.want[before[at]]; is {
					t.Fatalf("%x comes when %x is due", key, before[at])
				}
				at++
			}
			if at == len(before) || before[at] != string(key) {
				if _, is := l.want[string(key)]; !is {
					t.Fatalf("%x is not there", key)
				}
				continue // its delete was pending then, and it was set since
			}
			if at++; at%100 == 0 {
				l.writes(l.rand.IntN(200))
				l.reads([]byte{2}, []byte{3})
				l.reads(l.key(), l.key())
			}
		}
		b := l.tx.Take()
		base.Apply(b)
		l.tx.Release(b)
	}
}

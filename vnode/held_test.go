package vnode

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/id"

	"pgregory.net/rapid"
)

func drawHeld(t *rapid.T) []Held {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Held {
		h := Held{Task: id.ID{byte(rapid.IntRange(0, 3).Draw(t, "task"))}, Released: rapid.IntRange(0, 3).Draw(t, "released") == 0}
		h.Record.Token = uint64(rapid.IntRange(1, 3).Draw(t, "token"))
		if !h.Released {
			h.Record.Worker = rapid.StringN(0, 9, 20).Draw(t, "worker")
			h.Record.End = rapid.Int64().Draw(t, "end")
			h.Record.Lease = time.Duration(rapid.IntRange(0, 100).Draw(t, "lease"))
		}
		return h
	}), 0, 12).Draw(t, "held")
}

// TestJoinIsAUnion: the order of the voters does not matter, nor does hearing one
// twice; of a claim the larger end stays, and a release wins.
func TestJoinIsAUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawHeld(t), drawHeld(t)
		for _, all := range [][]Held{a, b} {
			for i := range all {
				all[i].Record.Worker = "w" // one token is one claim
			}
		}
		joined := Join(a, b)
		for _, other := range [][]Held{Join(b, a), Join(joined, a, b), Join(Join(b), Join(a))} {
			if fmt.Sprint(clean(other)) != fmt.Sprint(clean(joined)) {
				t.Fatalf("%v and %v", joined, other)
			}
		}
		for _, h := range slices.Concat(a, b) {
			at, ok := slices.BinarySearchFunc(joined, h, func(x, y Held) int { return x.compare(&y) })
			if !ok || h.Released && !joined[at].Released || !joined[at].Released && joined[at].Record.End < h.Record.End {
				t.Fatalf("%+v is not in %+v", h, joined)
			}
		}
	})
}

// clean leaves away what a release does not say.
func clean(all []Held) []Held {
	all = slices.Clone(all)
	for i := range all {
		if all[i].Released {
			all[i].Record = claim.Record{Token: all[i].Record.Token}
		}
	}
	return all
}

func TestHeldRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := Join(drawHeld(t))
		got, err := DecodeHeld(AppendHeld(nil, all))
		if err != nil || !slices.Equal(got, clean(all)) {
			t.Fatalf("%+v became %+v, %v", all, got, err)
		}
		if len(all) > 1 {
			all[0], all[1] = all[1], all[0]
			if _, err := DecodeHeld(AppendHeld(nil, all)); !errors.Is(err, ErrHeld) {
				t.Fatalf("out of order: %v", err)
			}
		}
	})
}

func FuzzDecodeHeld(f *testing.F) {
	f.Add([]byte{heldVersion})
	f.Add(AppendHeld(nil, []Held{
		{Task: id.ID{1}, Record: claim.Record{Token: 1, Worker: "w", Lease: time.Second}},
		{Task: id.ID{1}, Record: claim.Record{Token: 2}, Released: true},
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := DecodeHeld(b)
		if err != nil {
			if !errors.Is(err, ErrHeld) {
				t.Fatalf("error %v is not ErrHeld", err)
			}
			return
		}
		if got := AppendHeld(nil, all); string(got) != string(b) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, all, got)
		}
	})
}

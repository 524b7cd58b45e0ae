package crdt

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/clock"
)

// TestAGlanceSaysWhatTheViewSays of a task that has nothing but its enqueue, and refuses the same bytes.
func TestAGlanceSaysWhatTheViewSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(codecs()).Filter(func(c codec) bool { return c.kind == KindEnqueued }).Draw(t, "kind")
		f := NewFact(someTask(), Key{Kind: KindEnqueued}, c.draw.Draw(t, "enqueue").AppendTo(nil))
		if n := rapid.IntRange(0, 2).Draw(t, "changes"); n > 0 {
			for range n {
				f.Body[rapid.IntRange(0, len(f.Body)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
			}
			f.Body = f.Body[:rapid.IntRange(0, len(f.Body)).Draw(t, "length")]
			if rapid.Bool().Draw(t, "checksum, too") {
				f = NewFact(f.Task, f.Key, f.Body)
			}
		}
		g, err := f.Glance()
		var v Task
		want := v.take(f)
		if (err == nil) != (want == nil) || errors.Is(err, ErrUnknown) != errors.Is(want, ErrUnknown) {
			t.Fatalf("a glance: %v, a view: %v", err, want)
		}
		if err != nil {
			return
		}
		e := v.Enqueued
		if g.Admission != e.Admission || string(g.Queue) != e.Queue || g.Priority != e.Priority || g.Size != e.Size() || g.NotBefore != e.NotBefore || g.Dependencies != len(e.Dependencies) {
			t.Fatalf("a glance has %+v of %+v", g, e)
		}
		for _, held := range []bool{false, true} {
			for _, now := range []int64{0, e.NotBefore - 1, e.NotBefore, e.NotBefore + 1} {
				if got, want := g.State(held, now), v.State(heldView(held), clock.Time{Wall: now}); got != want {
					t.Fatalf("at %d it is %v, and %v in full", now, got, want)
				}
			}
		}
	})
}

type heldView bool

func (h heldView) Held(clock.Time) bool { return bool(h) }

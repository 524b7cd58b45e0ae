package policy

import (
	"bytes"
	"errors"
	"testing"
)

func FuzzReadState(f *testing.F) {
	full := State{
		Watermark: noon, Shown: -5, Last: Run{Instant: noon - 1, Begun: noon + 1, Status: Failed, Handled: true}, Queued: 1 << 62,
		Launches: 1<<64 - 1, Gap: Span{1, 2}, Barred: Bars{{-1 << 63, 1<<63 - 1}},
	}
	f.Add(State{}.Append(nil))
	f.Add(full.Append(nil))
	full.Barred = Bars{{1, 2}, {4, 5}, {}, {7, 1 << 60}}
	f.Add(full.Append(nil))
	f.Add([]byte{1, 0, 0, 0x80})
	f.Add([]byte{2, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ReadState(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) || s != (State{}) {
				t.Fatalf("%+v, %v", s, err)
			}
			return
		}
		again, err := ReadState(s.Append(nil))
		if err != nil || again != s {
			t.Fatalf("%+v is read as %+v, %v", s, again, err)
		}
	})
}

func TestStateAsBytes(t *testing.T) {
	one := State{
		Watermark: noon, Shown: noon / second, Last: Run{Instant: noon, Begun: noon + 1, Status: Open, Handled: true}, Queued: noon + 2,
		Launches: 300, Gap: Span{noon - 2, noon - 1}, Barred: Bars{{noon + 3, noon + 4}},
	}
	more := one
	more.Barred = Bars{{noon + 3, noon + 4}, {noon + 6, noon + 7}, {noon + 9, noon + 9}}
	for _, s := range []State{one, more} {
		asBytes(t, s)
	}
	// What is committed must be readable by later releases.
	if got := (State{Watermark: 1, Launches: 2}).Append(nil); !bytes.Equal(got, []byte{1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2}) {
		t.Errorf("the form has changed: %v", got)
	}
	two := State{Watermark: 1, Launches: 2, Barred: Bars{{1, 2}, {3, 4}}}
	if got := two.Append(nil); !bytes.Equal(got, []byte{2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 4, 2, 1, 6, 8}) {
		t.Errorf("the form has changed: %v", got)
	}
}

func asBytes(t *testing.T, s State) {
	t.Helper()
	b := s.Append([]byte("x"))
	got, err := ReadState(b[1:])
	if err != nil || got != s || b[0] != 'x' {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range len(b) - 1 {
		if _, err := ReadState(b[1:][:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d of %d bytes: %v", n, len(b)-1, err)
		}
	}
	if _, err := ReadState(append(bytes.Clone(b[1:]), 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte more: %v", err)
	}
}

// FuzzDecide decides about any state at any time: it ends, and says nothing
// that cannot be.
func FuzzDecide(f *testing.F) {
	var defs []*Definition
	for _, spec := range []string{"* * * * * *", "30 2 * * *", "@every 1h"} {
		for o := Allow; o <= Replace; o++ {
			d := each(f, spec)
			d.Table = table(f, spec, "America/New_York")
			d.Overlap, d.CatchUp, d.Jitter, d.UUID = o, CatchUp(o%3), 600e9, [16]byte{byte(o)}
			defs = append(defs, d)
		}
	}
	f.Add(State{Watermark: noon}.Append(nil), noon+hour)
	f.Add(State{Watermark: -1 << 63, Queued: 1<<63 - 1}.Append(nil), int64(1<<63-1))
	f.Add(State{Watermark: 1<<63 - 1, Gap: Span{-1 << 63, 1<<63 - 1}, Barred: Bars{{1<<63 - 1, -1 << 63}}}.Append(nil), int64(-1<<63))
	f.Add(State{Watermark: noon, Barred: Bars{{noon + 9*second, noon + hour}, {noon, noon + 10*second}, {-1 << 63, noon + 20*second}, {noon + minute, 1<<63 - 1}}}.Append(nil), noon+30*second)
	f.Fuzz(func(t *testing.T, b []byte, now int64) {
		s, err := ReadState(b)
		if err != nil {
			return
		}
		for _, d := range defs {
			out := Decide(d, s, now)
			if out.Ahead < 0 || len(out.Skips) > 5 || out.Changed != (out.After != s) || out.Launch && out.Conclude {
				t.Fatalf("%+v", out)
			}
			if out.Launch && (out.Instant > now || out.Late < 0) {
				t.Fatalf("launched before its time: %+v", out)
			}
			Edit(d, defs[0], s, now)
			Restore(d, s, now)
		}
	})
}

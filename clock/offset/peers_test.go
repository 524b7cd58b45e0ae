package offset

import (
	"errors"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"pgregory.net/rapid"
)

// Whatever the ways take, however old the samples are, and whatever happens to
// this node's own clock, the bound holds the truth.
func TestTheBoundHoldsTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 2, 1000*second)
		trouble := rapid.IntRange(4, 5).Draw(t, "trouble") // both at once would look like neither
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			what := rapid.IntRange(0, 4).Draw(t, "what")
			if what == 4 {
				what = trouble
			}
			switch what {
			case 0, 1, 2:
				if err := w.exchange(1, drawWay(t, "there"), drawWay(t, "held"), drawWay(t, "back")); err != nil {
					t.Fatal(err)
				}
			case 3:
				w.now += rapid.Int64Range(0, 8*second).Draw(t, "pause")
			case 4:
				w.nodes[0].wall += rapid.Int64Range(-100*second, 100*second).Draw(t, "set")
			case 5: // a suspension: time passes and the monotonic clock stands still
				d := rapid.Int64Range(0, 100*second).Draw(t, "suspended")
				w.now += d
				w.nodes[0].mono = w.nodes[0].mono - d - d/1_000_000*w.nodes[0].ppm
			}
			if o, ok := w.known(1); ok && !o.holds(w.truth(1)) {
				t.Fatalf("the truth is %v, measured %v ± %v", time.Duration(w.truth(1)), time.Duration(o.OffsetNs), time.Duration(o.ErrorNs))
			}
		}
	})
}

// All of the delay on one way is the worst case, and still inside.
func TestAsymmetricDelays(t *testing.T) {
	for _, ways := range [][2]int64{{400 * ms, 0}, {0, 400 * ms}, {200 * ms, 200 * ms}} {
		w := newWorld(2)
		w.nodes[1].wall += 7 * second
		w.mustExchange(t, 1, ways[0], 50*ms, ways[1])
		o, ok := w.known(1)
		if !ok || !o.holds(7*second) {
			t.Errorf("ways %v: measured %v ± %v", ways, o.OffsetNs, o.ErrorNs)
		}
		if o.ErrorNs < 200*ms || o.ErrorNs > 201*ms {
			t.Errorf("ways %v: the error is %v, half the round trip is 200 ms", ways, time.Duration(o.ErrorNs))
		}
	}
}

// A bound never shrinks without a new sample, and grows as declared.
func TestBoundsGrowWithAge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 2, second)
		for range rapid.IntRange(1, 10).Draw(t, "exchanges") {
			if err := w.exchange(1, drawWay(t, "there"), 0, drawWay(t, "back")); err != nil {
				t.Fatal(err)
			}
		}
		o, _ := w.known(1)
		for last, begin := o.ErrorNs, w.here().Mono; ; last = o.ErrorNs {
			w.now += rapid.Int64Range(1, second).Draw(t, "pause")
			ok := false
			if o, ok = w.known(1); !ok {
				if age := w.here().Mono - begin; age <= int64(DefaultMaxAge) {
					t.Fatalf("forgotten after %v", time.Duration(age))
				}
				break
			}
			if o.ErrorNs < last {
				t.Fatalf("the bound has shrunk from %d to %d", last, o.ErrorNs)
			}
			if o.Age > DefaultMaxAge {
				t.Fatalf("a sample of age %v counts", o.Age)
			}
		}
	})
	w := newWorld(2)
	w.mustExchange(t, 1, ms, 0, ms)
	before, _ := w.known(1)
	// The peer's clock was not there yet when the time was read a little earlier.
	if o := w.p.Offsets(clock.Time{Wall: w.here().Wall - second, Mono: w.here().Mono - second}); o[0].ErrorNs != before.ErrorNs+second/1_000_000*drift {
		t.Errorf("a second before the sample the error is %d, at it %d", o[0].ErrorNs, before.ErrorNs)
	}
	w.now += 5 * second
	if after, _ := w.known(1); after.ErrorNs-before.ErrorNs != 5*second/1_000_000*drift || after.Age != 5*time.Second {
		t.Errorf("in 5 s the error grew by %d at %d ppm", after.ErrorNs-before.ErrorNs, drift)
	}
}

// The best of the window speaks, not the last.
func TestTheShortestRoundTripSpeaks(t *testing.T) {
	w := newWorld(2)
	w.mustExchange(t, 1, 100*ms, 0, 100*ms)
	w.mustExchange(t, 1, ms, 0, ms)
	for range Window - 1 {
		w.mustExchange(t, 1, 100*ms, 0, 100*ms)
		if o, _ := w.known(1); o.ErrorNs > 2*ms {
			t.Fatalf("the error is %v after a round trip of 2 ms", time.Duration(o.ErrorNs))
		}
	}
	w.mustExchange(t, 1, 100*ms, 0, 100*ms)
	if o, _ := w.known(1); o.ErrorNs < 100*ms {
		t.Errorf("the error is %v, and the window has only round trips of 200 ms", time.Duration(o.ErrorNs))
	}
}

// This node's wall clock is set: at once nothing is sure any more but that,
// and one exchange mends it.
func TestAStepOfTheOwnClock(t *testing.T) {
	for _, step := range []int64{3600 * second, -3600 * second, 40 * ms} {
		w := newWorld(2)
		w.mustExchange(t, 1, ms, 0, ms)
		w.nodes[0].wall += step
		o, ok := w.known(1)
		if !ok || !o.holds(-step) || !o.holds(0) {
			t.Errorf("after a step of %v: %+v", time.Duration(step), o)
		}
		w.mustExchange(t, 1, ms, 0, ms)
		if o, _ := w.known(1); !o.holds(-step) || o.ErrorNs > 2*ms {
			t.Errorf("after a step of %v and an exchange: %+v", time.Duration(step), o)
		}
	}
}

// The clock is set while an exchange is under way.
func TestAStepDuringAnExchange(t *testing.T) {
	for _, step := range []int64{5 * second, -5 * second} {
		w := newWorld(2)
		x := Exchange{Peer: 1, Sent: w.here()}
		w.nodes[0].wall += step
		w.now += 10 * ms
		x.Received, x.Answered, x.Back = w.nodes[1].at(w.now).Wall, w.nodes[1].at(w.now).Wall, w.here()
		if err := w.p.Answered(x); err != nil {
			t.Fatal(err)
		}
		if o, ok := w.known(1); !ok || !o.holds(-step) {
			t.Errorf("step %v: measured %+v", time.Duration(step), o)
		}
	}
}

// A peer's clock is set: the first sample that contradicts the old ones ends
// them, however good they were.
func TestAStepOfAPeersClock(t *testing.T) {
	w := newWorld(2)
	for range Window {
		w.mustExchange(t, 1, ms/10, 0, ms/10)
	}
	w.nodes[1].wall += second
	w.mustExchange(t, 1, 200*ms, 0, 200*ms)
	if o, ok := w.known(1); !ok || !o.holds(second) {
		t.Errorf("a second is between the clocks, measured %+v", o)
	}
}

// Nothing of an earlier boot counts, and its late answers do not either.
func TestABootChange(t *testing.T) {
	w := newWorld(2)
	late := Exchange{Peer: 1, Boot: 1, Sent: w.here(), Received: epoch, Answered: epoch}
	w.now += ms
	w.mustExchange(t, 1, ms, 0, ms)
	x := Exchange{Peer: 1, Boot: 2, Sent: w.here()}
	w.now += 400 * ms
	x.Received, x.Answered, x.Back = w.nodes[1].at(w.now).Wall, w.nodes[1].at(w.now).Wall, w.here()
	if err := w.p.Answered(x); err != nil {
		t.Fatal(err)
	}
	if o, _ := w.known(1); o.ErrorNs < 200*ms {
		t.Errorf("a sample of the boot before still counts: %+v", o)
	}
	late.Back = w.here()
	if err := w.p.Answered(late); !errors.Is(err, ErrStale) {
		t.Errorf("a late answer of the boot before: %v", err)
	}
}

func TestExchangesThatCannotBe(t *testing.T) {
	good := Exchange{
		Peer: 1, Sent: clock.Time{Wall: epoch, Mono: second}, Received: epoch, Answered: epoch,
		Back: clock.Time{Wall: epoch + ms, Mono: second + ms},
	}
	for name, c := range map[string]struct {
		want  error
		spoil func(x *Exchange)
	}{
		"nothing":           {nil, func(*Exchange) {}},
		"of itself":         {ErrImpossible, func(x *Exchange) { x.Peer = 0 }},
		"back before sent":  {ErrImpossible, func(x *Exchange) { x.Back.Mono = second - 1 }},
		"answered before":   {ErrImpossible, func(x *Exchange) { x.Received += 1 }},
		"held for too long": {ErrImpossible, func(x *Exchange) { x.Answered += 2 * ms }},
		"before 1970":       {ErrImpossible, func(x *Exchange) { x.Received = -1 }},
		"after 2116":        {ErrImpossible, func(x *Exchange) { x.Received, x.Answered = maxWall, maxWall }},
		"own clock broken":  {ErrImpossible, func(x *Exchange) { x.Back.Wall = -5 }},
		"own mono broken":   {ErrImpossible, func(x *Exchange) { x.Back.Mono = maxMono }},
		"a long way":        {ErrStale, func(x *Exchange) { x.Back.Mono += int64(time.Minute) }},
		"a suspension":      {ErrStale, func(x *Exchange) { x.Back.Wall += int64(time.Minute) }},
	} {
		p, x := New(Config{}), good
		c.spoil(&x)
		if err := p.Answered(x); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if known := len(p.Offsets(good.Back)) == 1; known != (c.want == nil) {
			t.Errorf("%s: known is %v", name, known)
		}
	}
}

// Any numbers at all give an answer, and an interval that is one.
func TestAnyNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		num := func(name string) int64 {
			return rapid.OneOf(rapid.Int64(), rapid.Int64Range(epoch, epoch+second), rapid.Int64Range(maxWall-2, maxWall+2)).Draw(t, name)
		}
		at := func(name string) clock.Time { return clock.Time{Wall: num(name + " wall"), Mono: num(name + " mono")} }
		p := New(Config{Drift: rapid.Int().Draw(t, "drift"), MaxAge: time.Duration(rapid.Int64().Draw(t, "age"))})
		for range 5 {
			_ = p.Answered(Exchange{Peer: 1, Sent: at("sent"), Back: at("back"), Received: num("received"), Answered: num("answered")})
			now := at("now")
			for _, o := range p.Offsets(now) {
				if o.ErrorNs < 0 {
					t.Fatalf("an error of %d", o.ErrorNs)
				}
			}
			p.Judge(now, []uint64{0, 1}, time.Duration(num("eta")))
		}
	})
}

func TestTooManyPeers(t *testing.T) {
	p := New(Config{})
	x := Exchange{Sent: clock.Time{Wall: epoch}, Back: clock.Time{Wall: epoch}, Received: epoch, Answered: epoch}
	for i := range uint64(MaxPeers) {
		x.Peer = i + 1
		if err := p.Answered(x); err != nil {
			t.Fatal(err)
		}
	}
	x.Peer = MaxPeers + 1
	if err := p.Answered(x); !errors.Is(err, ErrFull) {
		t.Fatalf("one peer too many: %v", err)
	}
	p.Forget(5)
	if err := p.Answered(x); err != nil {
		t.Fatalf("after one has left: %v", err)
	}
	later := clock.Time{Wall: epoch, Mono: int64(time.Minute)}
	x.Peer, x.Sent, x.Back = 5, later, later
	if err := p.Answered(x); err != nil || len(p.peers) != MaxPeers {
		t.Fatalf("when the others are silent: %v, %d peers", err, len(p.peers))
	}
}

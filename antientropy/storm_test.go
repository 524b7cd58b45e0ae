package antientropy

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// While both sides write, messages are lost, repeated and reordered, and either
// side restarts: nothing is invented or lost, and once that stops they agree.
func TestStormConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawReplica(t), drawReplica(t)
		union := newReplica()
		for _, f := range append(a.all(), b.all()...) {
			union.put(f)
		}
		cfg := drawConfig(t)
		cfg.Timeout, cfg.Bucket, cfg.Retries = time.Second, nil, 2
		cfg.MinBackoff, cfg.MaxBackoff = time.Millisecond, time.Second
		l := newLink(a, b, cfg)
		l.fate = func(*Message) int { return rapid.SampledFrom([]int{0, 1, 1, 1, 1, 2}).Draw(t, "copies") }
		l.pick = func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "which") }
		l.between = func() {
			switch rapid.IntRange(0, 8).Draw(t, "event") {
			case 0:
				f := drawFact(t)
				a.put(f)
				union.put(f)
				if rapid.Bool().Draw(t, "flushed") {
					a.commit()
				}
			case 1:
				f := drawFact(t)
				b.put(f)
				b.commit()
				union.put(f)
			case 2:
				b.commit()
				b.restart()
				l.responder = NewResponder(cfg, b.tree, b)
			}
		}
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			if r := l.round(t); r.Err != nil && !errors.Is(r.Err, ErrTimeout) {
				t.Fatalf("%+v", r)
			}
			l.now = l.now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "pause ms")) * time.Millisecond)
		}
		l.fate, l.pick, l.between = nil, nil, nil
		a.commit()
		for n := 0; !l.round(t).Equal; n++ {
			if n == 20 {
				t.Fatal("does not converge")
			}
			l.now = l.now.Add(time.Minute)
		}
		l.wantEqual(t)
		if !same(a.all(), union.all()) {
			t.Fatal("not the union")
		}
	})
}

// backOff runs rounds until a given time as a caller would, and counts them.
func (l *link) backOff(t tb, until time.Duration) (rounds int, last Result) {
	t.Helper()
	end := l.now.Add(until).Mono
	for l.now.Mono < end {
		last = l.round(t)
		rounds++
		l.now = l.now.Add(time.Duration(max(l.initiator.NotBefore()-l.now.Mono, int64(time.Second))))
	}
	return rounds, last
}

// A peer that never keeps, or never gives, some facts costs little, is named,
// and does not hold up the others.
func TestDamagedPeer(t *testing.T) {
	facts := recent(2000, 100, someTime)
	bad := facts[700]
	isBad := func(f crdt.Fact) bool { return f.Task == bad.Task }
	for name, damage := range map[string]func(l *link){
		"does not keep": func(l *link) {
			l.a.put(bad)
			l.b.refuse = isBad
		},
		"does not give": func(l *link) {
			l.b.put(bad)
			l.b.hide = isBad
		},
		"lists, and does not give": func(l *link) {
			l.b.put(bad)
			l.b.hide = func(f crdt.Fact) bool { return isBad(f) && l.responder.page != nil }
		},
		"is not kept here": func(l *link) {
			l.b.put(bad)
			l.a.refuse = isBad
		},
		"counted wrongly": func(l *link) {
			l.a.put(bad)
			l.b.put(bad)
			l.b.tree.Add(bad)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newReplica(), newReplica()
			for _, f := range facts {
				if f.Task != bad.Task {
					a.put(f)
					b.put(f)
				}
			}
			l := newLink(a, b, Config{})
			damage(l)
			a.commit()
			b.commit()
			rounds, last := l.backOff(t, 24*time.Hour)
			if rounds > 50 || l.a.applied+l.b.applied > 50 {
				t.Errorf("%d rounds in a day, %d facts applied in vain", rounds, l.a.applied+l.b.applied)
			}
			if len(last.Suspects)+last.Skipped == 0 {
				t.Errorf("nothing is suspect: %+v", last)
			}
			for _, p := range last.Suspects {
				if !p.holds(bad.Task) {
					t.Errorf("%v is suspect", p)
				}
			}
			// Others travel at once, also next to it, and the bad one in between
			// no more than its node may.
			for _, f := range recent(100, 10, someTime+1e9) {
				b.put(f)
			}
			b.commit()
			if r := l.round(t); r.Pulled != 100 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// What was only under way when it was looked at is forgiven.
func TestBackoffForgives(t *testing.T) {
	l, _ := pair(100, 10)
	f := crdt.Cancelled{At: 1}.Fact(id.ID{1})
	l.a.put(f)
	l.a.commit()
	l.b.refuse = func(crdt.Fact) bool { return true }
	if r := l.round(t); r.Pushed != 0 || r.Equal {
		t.Errorf("%+v", r)
	}
	if l.initiator.NotBefore() <= l.now.Mono {
		t.Error("no wait after a round for nothing")
	}
	l.b.refuse = nil
	l.now = l.now.Add(3 * time.Second)
	if r := l.round(t); r.Pushed != 1 {
		t.Errorf("%+v", r)
	}
	if r := l.round(t); !r.Equal || l.initiator.NotBefore() > l.now.Mono {
		t.Errorf("%+v", r)
	}
}

// The rate holds over both directions and all messages.
func TestRate(t *testing.T) {
	l, facts := pair(5000, 100)
	l.lose(facts, 2000, true)
	const rate = 100_000
	cfg := Config{PageBytes: 16 << 10, Bucket: NewBucket(rate, 16<<10)}
	l.initiator = NewInitiator(cfg, l.a.tree, l.a)
	began := l.now
	r := l.round(t)
	took := l.now.SinceMono(began.Mono)
	bytes := float64(r.Sent + r.Received)
	if least := time.Duration((bytes - 64<<10) / rate * 1e9); took < least || took > 2*least {
		t.Errorf("%v bytes in %v, at least %v are due", bytes, took, least)
	}
	l.wantEqual(t)
}

// What has just been enqueued is left alone, and no reason to back off.
func TestSettle(t *testing.T) {
	l, _ := pair(2000, 100)
	l.initiator = NewInitiator(Config{Settle: 2 * time.Second}, l.a.tree, l.a)
	for n, f := range recent(300, 100, l.now.Wall-3e9) {
		if n%2 == 0 {
			l.a.put(f)
		}
		if n%3 != 0 {
			l.b.put(f)
		}
	}
	l.a.commit()
	l.b.commit()
	r := l.round(t)
	if r.Young == 0 || r.Pulled == 0 || r.Pulled > 60 {
		t.Errorf("%+v", r)
	}
	if again := l.round(t); again.Young == 0 || again.Moved > 0 || l.initiator.NotBefore() > l.now.Mono {
		t.Errorf("%+v", again)
	}
	l.now = l.now.Add(3 * time.Second)
	if l.round(t); !l.round(t).Equal {
		t.Error("not equal once it is old")
	}
}

// Counts that are far off, at either side, make an exchange slower and its
// messages no longer than a few pages; sums decide what is moved.
func TestCountsMislead(t *testing.T) {
	for _, count := range []uint64{1, 1 << 60} {
		for _, side := range []string{"a", "b"} {
			l, facts := pair(4000, 20_000)
			l.lose(facts, 60, true)
			r := map[string]*replica{"a": l.a, "b": l.b}[side]
			for key := range r.nodes() {
				p, _ := r.tree.pathOf([]byte(key))
				n := r.tree.Node(r.tx, p)
				n.Count = count
				r.tree.put(r.tx, p, n)
			}
			r.commit()
			res := l.round(t)
			if res.Pulled+res.Pushed != 60 || res.Err != nil || l.most > 1<<20 {
				t.Errorf("count %d at %s: %+v, a message of %d bytes", count, side, res, l.most)
			}
			if !l.round(t).Equal {
				t.Errorf("count %d at %s: not equal", count, side)
			}
		}
	}
}

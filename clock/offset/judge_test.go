package offset

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSupported(t *testing.T) {
	// The example of Marzullo's algorithm in the NTP literature.
	for _, c := range []struct {
		in   []Interval
		need int
		want Interval
		ok   bool
	}{
		{[]Interval{{8, 12}, {11, 13}, {10, 12}}, 3, Interval{11, 12}, true},
		{[]Interval{{8, 12}, {11, 13}, {14, 15}}, 2, Interval{11, 12}, true},
		{[]Interval{{8, 9}, {8, 12}, {10, 12}}, 2, Interval{8, 12}, true},
		{[]Interval{{1, 2}, {2, 3}}, 2, Interval{2, 2}, true},
		{[]Interval{{1, 2}, {3, 4}}, 2, Interval{}, false},
		{nil, 1, Interval{}, false},
	} {
		if got, ok := supported(edges(c.in), c.need); got != c.want || ok != c.ok {
			t.Errorf("%v by %d: %v %v, want %v", c.in, c.need, got, ok, c.want)
		}
	}
}

func edges(in []Interval) (out []edge) {
	for _, i := range in {
		out = append(out, edge{i.Lo, 1}, edge{i.Hi, -1})
	}
	return out
}

// Counting at every point gives the same.
func TestSupportedAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in []Interval
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			lo := rapid.Int64Range(-10, 10).Draw(t, "lo")
			in = append(in, Interval{lo, lo + rapid.Int64Range(0, 6).Draw(t, "width")})
		}
		need := rapid.IntRange(1, 6).Draw(t, "need")
		var want Interval
		found := false
		for x := int64(-11); x < 20; x++ {
			n := 0
			for _, i := range in {
				if i.Lo <= x && x <= i.Hi {
					n++
				}
			}
			if n >= need {
				if !found {
					want.Lo, found = x, true
				}
				want.Hi = x
			}
		}
		if got, ok := supported(edges(in), need); ok != found || found && got != want {
			t.Fatalf("%v by %d: %v %v, want %v %v", in, need, got, ok, want, found)
		}
	})
}

const eta = time.Second

func cohort(n int) (out []uint64) {
	for i := range n {
		out = append(out, uint64(i))
	}
	return out
}

// Clocks that are right within eps are always good, whoever is wrong besides,
// as long as a majority is right and measured well enough.
func TestRightClocksAreAlwaysOK(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "nodes")
		limit := int64(eta) / 4
		eps := limit / 8
		w := drawWorld(t, n, eps)
		for i := n/2 + 1; i < n; i++ {
			w.nodes[i].wall += rapid.Int64Range(-1000*second, 1000*second).Draw(t, "wrong")
		}
		for i := 1; i < n; i++ {
			there := rapid.Int64Range(0, limit/2).Draw(t, "there")
			if err := w.exchange(i, there, 0, limit/2-there); err != nil {
				t.Fatal(err)
			}
		}
		v := w.p.Judge(w.here(), cohort(n), eta)
		if !v.OK || v.Majority.beyond(eps) || v.Reason != None || v.Known != n || !v.Supported {
			t.Fatalf("%d of %d clocks are right: %v (%+v)", n/2+1, n, v, v)
		}
	})
}

// A clock that is off a right majority by more than eta/4 is never good,
// whatever the delays, and the reason is never that all is well.
func TestWrongClocksAreNeverOK(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 7).Draw(t, "nodes")
		eps := rapid.Int64Range(0, int64(eta)).Draw(t, "eps")
		w := drawWorld(t, n, eps)
		off := int64(eta)/4 + 2*eps + 1 + rapid.Int64Range(0, 1000*second).Draw(t, "off")
		w.nodes[0].wall += off
		if rapid.Bool().Draw(t, "behind") {
			w.nodes[0].wall -= 2 * off
		}
		for i := range w.nodes {
			w.nodes[i].ppm = 0 // so that off stays what it is
		}
		right := n/2 + 1
		for i := right + 1; i < n; i++ { // others may be as wrong as this one
			w.nodes[i].wall = w.nodes[0].wall
		}
		for range rapid.IntRange(0, 20).Draw(t, "exchanges") {
			i := rapid.IntRange(1, n-1).Draw(t, "peer")
			if err := w.exchange(i, drawWay(t, "there"), drawWay(t, "held"), drawWay(t, "back")); err != nil {
				t.Fatal(err)
			}
			w.now += rapid.Int64Range(0, 5*second).Draw(t, "pause")
			v := w.p.Judge(w.here(), cohort(n), eta)
			if v.OK || v.Reason == None {
				t.Fatalf("off by %v: %v", time.Duration(off), v)
			}
		}
	})
}

// One bad clock stops its own node and no other.
func TestOneBadClockStopsOnlyItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 7).Draw(t, "nodes")
		bad := rapid.IntRange(0, n-1).Draw(t, "bad")
		off := rapid.Int64Range(int64(eta)/2, 1000*second).Draw(t, "off")
		if rapid.Bool().Draw(t, "behind") {
			off = -off
		}
		for me := range n {
			w := newWorld(n) // node 0 of it is me
			w.nodes[(bad-me+n)%n].wall += off
			for i := 1; i < n; i++ {
				if err := w.exchange(i, ms, 0, ms); err != nil {
					t.Fatal(err)
				}
			}
			v := w.p.Judge(w.here(), cohort(n), eta)
			if v.OK != (me != bad) {
				t.Fatalf("node %d of %d, %d is bad by %v: %v", me, n, bad, time.Duration(off), v)
			}
			if me == bad && v.Reason != Off {
				t.Fatalf("the bad one hears: %v", v)
			}
		}
	})
}

// Two nodes that are both good for one cohort are within eta/2 of each other.
func TestTwoGoodNodesAreNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "nodes")
		var walls []int64
		for range n {
			walls = append(walls, rapid.Int64Range(-int64(eta), int64(eta)).Draw(t, "wall"))
		}
		var good []int64
		for me := range n {
			w := newWorld(n)
			for i := range n {
				w.nodes[i].wall += walls[(me+i)%n]
			}
			for i := 1; i < n; i++ {
				if rapid.IntRange(0, 3).Draw(t, "cut") > 0 {
					if err := w.exchange(i, drawWay(t, "there"), 0, drawWay(t, "back")); err != nil {
						t.Fatal(err)
					}
				}
			}
			if w.p.Judge(w.here(), cohort(n), eta).OK {
				good = append(good, walls[me])
			}
		}
		if len(good) > 0 && slices.Max(good)-slices.Min(good) > int64(eta)/2 {
			t.Fatalf("good ones: %v", good)
		}
	})
}

func TestReasons(t *testing.T) {
	for name, c := range map[string]struct {
		nodes  int
		walls  []int64 // of the peers that answer, off this node's clock; far ones are slow
		slow   bool
		cohort []uint64
		want   Reason
		says   string
	}{
		"alone":                     {1, nil, false, cohort(1), None, "1 of 1"},
		"three agree":               {3, []int64{0, 0}, false, cohort(3), None, "3 of 3 clocks are within 250ms"},
		"one is off":                {3, []int64{0, 9 * second}, false, cohort(3), None, "2 of 3"},
		"nobody answers":            {3, nil, false, cohort(3), Unmeasured, "only 1 of 3"},
		"behind":                    {3, []int64{9 * second, 9 * second}, false, cohort(3), Off, "8.874s"},
		"ahead":                     {3, []int64{-9 * second, -9 * second}, false, cohort(3), Off, "ahead of the time of a majority"},
		"two of three disagree":     {3, []int64{9 * second}, false, cohort(3), Pair, "both stop"},
		"two of two disagree":       {2, []int64{9 * second}, false, cohort(2), Pair, "both stop"},
		"two agree":                 {2, []int64{0}, false, cohort(2), None, "2 of 2"},
		"everybody disagrees":       {3, []int64{9 * second, -9 * second}, false, cohort(3), Scattered, "no 2 of 3"},
		"a slow network":            {3, []int64{0, 0}, true, cohort(3), Imprecise, "surely"},
		"no cohort":                 {3, []int64{0, 0}, false, nil, Unmeasured, "0 of 0"},
		"of others":                 {3, []int64{0, 0}, false, []uint64{1, 2}, None, "2 of 2"},
		"of others that are off":    {3, []int64{9 * second, 9 * second}, false, []uint64{1, 2}, Off, "behind"},
		"named twice":               {3, []int64{0, 9 * second}, false, []uint64{0, 0, 1, 1, 2, 2}, None, "2 of 3"},
		"named twice, nobody knows": {1, nil, false, []uint64{0, 0, 0, 5}, Unmeasured, "1 of 2"},
	} {
		w, way := newWorld(c.nodes), ms
		if c.slow {
			way = second
		}
		for i, off := range c.walls {
			w.nodes[i+1].wall += off
			w.mustExchange(t, i+1, way, 0, way)
		}
		v := w.p.Judge(w.here(), c.cohort, eta)
		if v.Reason != c.want || v.OK != (c.want == None) || !strings.Contains(v.String(), c.says) {
			t.Errorf("%s: %v: %v, want %v: …%s…", name, v.Reason, v, c.want, c.says)
		}
	}
	seen := map[string]bool{}
	for r := range Reason(8) {
		seen[r.String()] = true
	}
	if len(seen) != 8 {
		t.Errorf("reasons read %v", seen)
	}
}

func TestConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		walls []int64
		want  bool
	}{
		"nobody answers":              {nil, false},
		"one agrees":                  {[]int64{0}, true},
		"one disagrees":               {[]int64{9 * second}, false},
		"one of two":                  {[]int64{9 * second, 0}, true},
		"one of three":                {[]int64{9 * second, 0, 9 * second}, false},
		"within eta, not within eta4": {[]int64{300 * ms}, false},
	} {
		w := newWorld(len(c.walls) + 1)
		for i, off := range c.walls {
			w.nodes[i+1].wall += off
			w.mustExchange(t, i+1, ms, 0, ms)
		}
		if got := w.p.Confirmed(w.here(), eta); got != c.want {
			t.Errorf("%s: confirmed is %v", name, got)
		}
	}
	// A judgement may be made with a time read before the last answer came.
	w := newWorld(2)
	before := w.here()
	w.mustExchange(t, 1, ms, 0, ms)
	if !w.p.Confirmed(before, eta) {
		t.Error("not confirmed with a time read a little earlier")
	}
	// A peer that agreed has been silent since; and a clock just set is not
	// confirmed by what was measured before.
	w = newWorld(2)
	w.mustExchange(t, 1, ms, 0, ms)
	w.nodes[0].wall += 3600 * second
	if w.p.Confirmed(w.here(), eta) {
		t.Error("a clock that was set an hour ahead is confirmed")
	}
	w.nodes[0].wall -= 3600 * second
	w.now += int64(DefaultMaxAge) + 2
	if w.p.Confirmed(w.here(), eta) {
		t.Error("confirmed by a peer that is silent")
	}
}

// Judging is done per batch: it allocates nothing.
func TestJudgingAllocatesNothing(t *testing.T) {
	w, members := newWorld(5), cohort(5)
	for i := 1; i < 5; i++ {
		w.mustExchange(t, i, ms, 0, ms)
	}
	w.p.Judge(w.here(), members, eta)
	now := w.here()
	if n := testing.AllocsPerRun(100, func() { w.p.Judge(now, members, eta); w.p.Confirmed(now, eta) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	x := Exchange{Peer: 1, Boot: 1, Sent: now, Back: now, Received: now.Wall, Answered: now.Wall}
	if n := testing.AllocsPerRun(100, func() { _ = w.p.Answered(x) }); n != 0 {
		t.Errorf("%v allocations per exchange", n)
	}
}

func benchmarkJudge(b *testing.B, peers, members int) {
	w := newWorld(peers)
	for range Window {
		for i := 1; i < peers; i++ {
			w.mustExchange(b, i, ms/10, 0, ms/10)
		}
	}
	ids, now := cohort(members), w.here()
	for b.Loop() {
		if !w.p.Judge(now, ids, eta).OK {
			b.Fatal("not OK")
		}
	}
}

func BenchmarkJudgeThreeOfThree(b *testing.B)  { benchmarkJudge(b, 3, 3) }
func BenchmarkJudgeFiveOfHundred(b *testing.B) { benchmarkJudge(b, 100, 5) }
func BenchmarkJudgeHundredOfAll(b *testing.B)  { benchmarkJudge(b, 100, 100) }
func BenchmarkConfirmedByOneOfThree(b *testing.B) {
	w := newWorld(3)
	w.mustExchange(b, 1, ms, 0, ms)
	w.mustExchange(b, 2, ms, 0, ms)
	now := w.here()
	for b.Loop() {
		w.p.Confirmed(now, eta)
	}
}

func BenchmarkAnswered(b *testing.B) {
	w := newWorld(2)
	now := w.here()
	x := Exchange{Peer: 1, Boot: 1, Sent: now, Back: now, Received: now.Wall, Answered: now.Wall}
	for b.Loop() {
		_ = w.p.Answered(x)
	}
}

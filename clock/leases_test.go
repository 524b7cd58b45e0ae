package clock_test

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// runs is how many seeds each variant plays: few here, and as many as
// NORN_TEST_SEEDS says in a long test.
func runs(short int) uint64 {
	if n, err := strconv.ParseUint(os.Getenv("NORN_TEST_SEEDS"), 10, 64); err == nil {
		return n
	}
	return uint64(short)
}

// play runs seeds until one has an overlap, and gives its number.
func play(v variant, from, seeds uint64) (seed uint64, a, b *hold, t tally) {
	for seed = from; seed < from+seeds; seed++ {
		var one tally
		a, b, one = run(seed, v)
		t.add(one)
		if a != nil {
			return seed, a, b, t
		}
	}
	return 0, nil, nil, t
}

// The rule of design 7.3 keeps two workers from believing in one task at a
// time: messages are late and lost, nodes restart, leaders change, clocks
// drift, and one node's wall clock is set to anything; or all are set alike, which
// nobody can notice, while no node restarts.
func TestLeasesNeverOverlap(t *testing.T) {
	for _, c := range []struct {
		name string
		v    variant
	}{
		{"one clock jumps", variant{}},
		{"all clocks jump", variant{together: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := runs(50)
			seed, a, b, got := play(c.v, 1, n)
			if seed != 0 {
				t.Fatalf("seed %d: claim %x from %v to %v, claim %x from %v to %v", seed,
					a.token, time.Duration(a.begin), time.Duration(a.end), b.token, time.Duration(b.begin), time.Duration(b.end))
			}
			t.Logf("%d runs: %+v", n, got)
			if min(got.grants, got.renewals, got.jumps, got.elapsed) == 0 {
				t.Errorf("something never happened: %+v", got)
			}
			if min(got.elections, got.byWall, got.refused) == 0 || got.restarts == 0 && !c.v.together {
				t.Errorf("something never happened: %+v", got)
			}
		})
	}
}

// Each part of the rule is needed: without it, the simulation finds an overlap.
// A long test counts the runs that have one.
func TestLeasesOverlapWithoutAPartOfTheRule(t *testing.T) {
	for _, c := range []struct {
		name string
		v    variant
		from uint64 // a seed that is not far from one with an overlap
	}{
		{"deadline from the receipt", variant{fromReceipt: true}, 1},
		{"lapse by the wall clock alone", variant{wallOnly: true, together: true}, 1},
		{"a renewal leaves the elapsed time", variant{noRefresh: true}, 1},
		{"any clock will do", variant{anyClock: true}, 330},
		{"lapse by the wall clock, with any clock", variant{wallOnly: true, anyClock: true}, 10},
		{"the leader alone", variant{loose: true}, 1},
		{"all clocks jump, and votes give old ends", variant{together: true, oldEnds: true}, 440},
		{"all clocks jump, and end what is recovered at once", variant{together: true, atOnce: true}, 1180},
		// Not a part of the rule but its limit: who restarts after all wall clocks were set
		// ahead has only their word for how much of a lease has passed.
		{"all clocks jump, and nodes restart", variant{together: true, forgotten: true}, 410},
	} {
		t.Run(c.name, func(t *testing.T) {
			seed, _, _, got := play(c.v, c.from, 3000)
			if seed == 0 {
				t.Fatalf("no overlap in 3000 runs: %+v", got)
			}
			t.Logf("overlap in run %d", seed)
			found, n := 0, runs(0)
			for s := uint64(1); s <= n; s++ {
				if a, _, _ := run(s, c.v); a != nil {
					found++
				}
			}
			if n > 0 {
				t.Logf("overlaps in %d of %d runs", found, n)
			}
		})
	}
}

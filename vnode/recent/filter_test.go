package recent_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/vnode/recent"

	"pgregory.net/rapid"
)

// TestNothingIsForgotten: a stored task is never taken for a new one, whatever
// the order in which IDs come.
func TestNothingIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := recent.New(4096, id.ID{}) // the smallest generations, 64 IDs
		stored := map[id.ID]bool{}
		unknown := 0
		for i := range rapid.IntRange(1, 600).Draw(t, "n") {
			var task id.ID
			// IDs mostly rise, and some come late.
			at := i*4 - rapid.IntRange(0, 40).Draw(t, "late")
			binary.BigEndian.PutUint32(task[4:], uint32(max(1, at)))
			binary.BigEndian.PutUint64(task[12:], rapid.Uint64().Draw(t, "tail"))
			if !r.Maybe(task) {
				unknown++
			}
			r.Add(task)
			stored[task] = true
			for old := range stored {
				if !r.Maybe(old) {
					t.Fatalf("%x was stored and is taken for new", old)
				}
			}
		}
		if len(stored) > 300 && unknown == 0 {
			t.Fatal("the filter never saves a read")
		}
	})
}

// TestNearlyAllReadsAreSaved: new IDs rise, and hardly any is taken for a known one.
func TestNearlyAllReadsAreSaved(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	g := id.NewGenerator(1, rnd.Uint64)
	r := recent.New(64, id.ID{})
	reads := 0
	const n = 50_000
	for i := range n {
		task := g.Next(int64(1_700_000_000+i) * 1e9)
		if r.Maybe(task) {
			reads++
		}
		r.Add(task)
	}
	if reads > n/100 {
		t.Fatalf("%d of %d new tasks would be read", reads, n)
	}
}

// TestWhatIsVacantIsNotLookedFor: below the floor, too, Maybe is false of tasks of a run of which none is stored, but
// of those that have come since, and those before them.
func TestWhatIsVacantIsNotLookedFor(t *testing.T) {
	at := func(n uint32) (i id.ID) {
		binary.BigEndian.PutUint32(i[:], n)
		return i
	}
	f := recent.New(1, at(1000))
	f.Vacant(at(10), at(20), []id.ID{at(17), at(19)}, 11)
	maybe := func(n uint32, want bool, why string) {
		t.Helper()
		if got := f.Maybe(at(n)); got != want {
			t.Errorf("task %d may be stored: %v; %s", n, got, why)
		}
	}
	maybe(9, true, "before the run")
	maybe(10, false, "its first")
	maybe(20, false, "its last")
	maybe(21, true, "behind it")
	f.Add(at(10))
	maybe(10, true, "it has come")
	maybe(11, false, "the next one")
	f.Add(at(15))
	maybe(12, true, "one behind it has come")
	maybe(15, true, "it has come")
	maybe(16, false, "the next one")
	maybe(17, true, "it is there")
	maybe(18, false, "between two that are there")
	maybe(19, true, "it is there, too")
	f.Add(at(17))
	maybe(16, false, "one that is there has come again")
	f.Expected()
	maybe(16, true, "nothing more is said of the run")
	f.Vacant(at(2000), at(3000), nil, 1<<18)
	maybe(2000, false, "its first")
	f.Add(at(2000))
	f.Add(at(2500))
	maybe(2500, true, "it has come")
	maybe(2501, false, "the next one")
	maybe(3001, false, "behind the run, and above all floors")
	f.Expected()
	maybe(2500, true, "it has come, and raised the floor")
	maybe(3001, false, "above the floor")
}

package crdt

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// visible is the definition: an update shows if all of its claim before it are
// there.
func visible(all []Update) []Update {
	there := map[[2]uint64]bool{}
	for _, u := range all {
		there[[2]uint64{u.Token, u.Seq}] = true
	}
	out := []Update{}
	for _, u := range all {
		shows := true
		for n := range u.Seq {
			shows = shows && there[[2]uint64{u.Token, n}]
		}
		if shows {
			out = append(out, u)
		}
	}
	return out
}

func TestOnlyContiguousHistoriesAreVisible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := drawFacts(t, "facts", KindUpdate, KindEnqueued, KindCompleted)
		s := NewSet(someTask())
		shown := map[Key]bool{}
		for _, f := range facts {
			if _, _, err := s.Add(f); err != nil {
				t.Fatal(err)
			}
			got := view(t, s).VisibleUpdates()
			if want := visible(byKind[Update](s)); !reflect.DeepEqual(got, want) {
				t.Fatalf("visible %v, want %v", got, want)
			}
			now := map[Key]bool{}
			for _, u := range got {
				now[u.key()] = true
			}
			for k := range shown {
				if !now[k] {
					t.Fatalf("%v was visible, %v has hidden it", k, f.Key)
				}
			}
			shown = now
		}
	})
}

func TestGapHidesUntilFilled(t *testing.T) {
	s := NewSet(someTask())
	for _, c := range []struct {
		add  Update
		want int
	}{
		{Update{Token: 2, Seq: 2}, 0},
		{Update{Token: 2, Seq: 0}, 1},
		{Update{Token: 1, Seq: 1}, 1},
		{Update{Token: 2, Seq: 1}, 3},
		{Update{Token: 1, Seq: 0}, 5},
		{Update{Token: 1, Seq: 0}, 5},
	} {
		if _, _, err := s.Add(c.add.Fact(someTask())); err != nil {
			t.Fatal(err)
		}
		if got := view(t, s).VisibleUpdates(); len(got) != c.want {
			t.Errorf("after %d:%d %d updates are visible, want %d", c.add.Token, c.add.Seq, len(got), c.want)
		}
	}
}

// Requirement 51: a new claim goes on where an earlier one has stopped.
func TestCheckpoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setOf(t, drawFacts(t, "facts", KindUpdate))
		before := rapid.Uint64Range(0, 6).Draw(t, "before")
		var want []byte
		newest := uint64(0)
		for _, u := range visible(byKind[Update](s)) {
			if u.Token < before && !u.Output && u.Token >= newest {
				want, newest = u.Data, u.Token
			}
		}
		if got := view(t, s).Checkpoint(before); !bytes.Equal(got, want) {
			t.Fatalf("checkpoint before %d is %q, want %q", before, got, want)
		}
	})
	s := setOf(t, []Fact{
		Update{Token: 1, Data: []byte("old")}.Fact(someTask()),
		Update{Token: 2, Data: []byte("newer")}.Fact(someTask()),
		Update{Token: 2, Seq: 1, Data: []byte("a line"), Output: true}.Fact(someTask()),
		Update{Token: 2, Seq: 3, Data: []byte("behind a gap")}.Fact(someTask()),
		Update{Token: 3, Data: []byte("a line"), Output: true}.Fact(someTask()),
	})
	for before, want := range []string{"", "", "old", "newer", "newer"} {
		if got := view(t, s).Checkpoint(uint64(before)); string(got) != want {
			t.Errorf("before claim %d: %q, want %q", before, got, want)
		}
	}
}

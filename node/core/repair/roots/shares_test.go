package roots

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"
)

func member(name string) register.Member {
	return register.Member{Node: name, Incarnation: register.Incarnation{name[0]}}
}

// sharing is the machine of b, which keeps all partitions but 3 with a and c.
func sharing(t *testing.T, all int) *Machine {
	self, now := member("b"), clock.Time{Wall: 1, Mono: 1}
	open := func(p ring.Partition, tree bool) *vnode.Vnode {
		v, err := partitions.Open(p, vnode.Config{Partitions: all, Tree: tree}, memstore.New(), now)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	set := partitions.New(make([]*vnode.Vnode, all), open(0, false), func(p ring.Partition) *vnode.Vnode { return open(p, true) })
	s := New(Env{Ground: &ground.Ground{Self: self, View: view.New(self, all), Partitions: set}, Every: time.Second, Busy: func(message.Pair) bool { return false }})
	cells := s.env.View.Cells
	for p := range cells {
		cells[p] = register.Cell{Epoch: 1, Cohort: []register.Member{member("a"), self, member("c")}}
		set.Use(ring.Partition(p))
	}
	cells[3].Cohort = []register.Member{member("a"), member("c")}
	return s
}

// TestANewLeaderChangesNothingThatIsShared: the list is made anew when a cohort or a tree has
// changed, and with it stays what is known. It was with each change of the register, and sorted: a
// third of what 20 nodes with 4,096 partitions did while their leaders were elected.
func TestANewLeaderChangesNothingThatIsShared(t *testing.T) {
	const all = 8
	s, self := sharing(t, all), member("b")
	cells := s.env.View.Cells
	shared := func() map[message.Pair]bool {
		s.Changed(clock.Time{Wall: 1, Mono: 1})
		if err := s.Audit(); err != nil {
			t.Fatal(err)
		}
		got := map[message.Pair]bool{}
		for _, e := range s.shared {
			got[e.Pair] = e.agreed.is
		}
		return got
	}
	if got := len(shared()); got != 2*(all-1) {
		t.Fatalf("%d are shared", got)
	}
	s.Of(message.Pair{Partition: 7, Peer: member("c")}).agreed.is = true
	was := &s.shared[0]
	for p := range cells {
		cells[p].Epoch++
		cells[p].Leader = cells[p].Cohort[1]
	}
	if shared(); &s.shared[0] != was {
		t.Error("new leaders have the list made anew")
	}
	for what, change := range map[string]func(){
		"one comes":            func() { cells[5].Cohort = append(cells[5].Cohort, member("d")) },
		"one goes":             func() { cells[5].Cohort = []register.Member{self, member("c")} },
		"this node goes":       func() { cells[5].Cohort = []register.Member{member("a"), member("c")} },
		"another in its stead": func() { cells[5].Cohort = []register.Member{member("a"), self, member("e")} },
	} {
		before := cells[5].Cohort
		want := map[message.Pair]bool{{Partition: 7, Peer: member("c")}: true}
		change()
		got := shared()
		n := 0
		for p := range cells {
			mine := false
			for _, m := range cells[p].Cohort {
				mine = mine || m == self
			}
			for _, m := range cells[p].Cohort {
				if k := (message.Pair{Partition: ring.Partition(p), Peer: m}); mine && m != self {
					if n++; got[k] != want[k] {
						t.Errorf("%s: of %v it is known: %v", what, k, got[k])
					}
					if s.Of(k) == nil {
						t.Errorf("%s: %v is not shared", what, k)
					}
				}
			}
		}
		if len(got) != n {
			t.Errorf("%s: %d are shared, not %d", what, len(got), n)
		}
		cells[5].Cohort = before
	}
}

package election

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/quorum"
)

// voter is what the laws are about: an [Acceptor], or one with a fault.
type voter interface {
	vote(b *Ballot[string]) Vote
	accept(epoch uint64) (ok, changed bool)
	registered(epoch uint64) bool
	kept() *Acceptor[string]
}

type honest struct{ a Acceptor[string] }

func (h *honest) vote(b *Ballot[string]) Vote            { return h.a.Vote(b) }
func (h *honest) accept(epoch uint64) (ok, changed bool) { return h.a.Accept(epoch) }
func (h *honest) registered(epoch uint64) bool           { return h.a.Registered(epoch) }
func (h *honest) kept() *Acceptor[string]                { return &h.a }

// The faults, each of which breaks one law.
type (
	generous  struct{ honest } // votes for an epoch that it has promised
	lax       struct{ honest } // takes messages below its promise
	forgetful struct{ honest } // drops proposals from the cell that the register shows
	boundless struct{ honest } // keeps as many proposals as come
	wordless  struct{ honest } // does not say that it has changed
	backward  struct{ honest } // lets the epoch seen go back
)

func (g *generous) vote(b *Ballot[string]) Vote {
	if b.Epoch == g.a.Promise {
		g.a.Nonce = b.Nonce
	}
	return g.a.Vote(b)
}

func (l *lax) accept(epoch uint64) (ok, changed bool) {
	if epoch < l.a.Promise {
		l.a.Promise = epoch
		return true, true
	}
	return l.a.Accept(epoch)
}

func (f *forgetful) registered(epoch uint64) bool {
	changed := f.a.Registered(epoch)
	n := len(f.a.Open)
	f.a.Open = slices.DeleteFunc(f.a.Open, func(p Proposal[string]) bool { return p.Old == f.a.Seen })
	return changed || len(f.a.Open) != n
}

func (g *boundless) vote(b *Ballot[string]) Vote {
	if len(g.a.Open) < MaxOpen || b.Epoch <= g.a.Promise || b.Old < g.a.Seen {
		return g.a.Vote(b)
	}
	kept := g.a.Open
	g.a.Open = nil
	v := g.a.Vote(b)
	g.a.Open = append(kept, g.a.Open...)
	return v
}

func (w *wordless) accept(epoch uint64) (ok, changed bool) {
	ok, _ = w.a.Accept(epoch)
	return ok, false
}

func (w *backward) registered(epoch uint64) bool {
	changed := w.a.Registered(epoch)
	w.a.Seen = epoch
	return changed
}

var someCohorts = func() (all [][]string) {
	for _, s := range strings.Fields("abc abd abe acd ace ade bcd bce bde cde cba ab") {
		all = append(all, strings.Split(s, ""))
	}
	return all
}()

// broken runs random messages against a voter and gives the first law that does
// not hold: "" when all do. next draws from 0 to n-1.
func broken(v voter, steps int, next func(n int) int) string {
	given := map[uint64]uint64{}             // epoch to the nonce that has its vote
	var open []Proposal[string]              // voted for, and not overtaken by what was seen
	asked := map[[2]uint64]*Ballot[string]{} // by epoch and nonce: a candidacy asks for one thing
	seen := uint64(0)
	for range steps {
		before := *v.kept()
		before.Open = slices.Clone(before.Open)
		epoch := uint64(max(0, int(before.Promise)+next(5)-2))
		said := false
		switch next(4) {
		default:
			b := &Ballot[string]{Epoch: epoch, Nonce: uint64(next(3)), Old: uint64(max(0, int(seen)+next(3)-1)), To: someCohorts[next(len(someCohorts))]}
			if same := asked[[2]uint64{b.Epoch, b.Nonce}]; same != nil {
				b = same
			}
			asked[[2]uint64{b.Epoch, b.Nonce}] = b
			answer := v.vote(b)
			said = answer.Granted
			if answer.Promise != v.kept().Promise {
				return "an answer with another promise"
			}
			if !answer.Granted {
				break
			}
			if nonce, ok := given[b.Epoch]; ok && nonce != b.Nonce {
				return "two candidacies got the vote of one epoch"
			}
			if _, ok := given[b.Epoch]; b.Epoch <= before.Promise && !ok {
				return "a vote for an epoch that was promised"
			}
			if _, ok := given[b.Epoch]; !ok && b.Old < seen {
				return "a vote from a cell that is gone"
			}
			given[b.Epoch] = b.Nonce
			if b.Old >= seen {
				open = append(open, Proposal[string]{Epoch: b.Epoch, Old: b.Old, To: b.To})
			}
		case 1:
			ok, changed := v.accept(epoch)
			said = changed
			if ok != (epoch >= before.Promise && epoch != 0) {
				return "a message below the promise took effect, or one at it did not"
			}
		case 2:
			at := uint64(max(0, int(seen)+next(4)-1))
			said = v.registered(at)
			seen = max(seen, at)
			open = slices.DeleteFunc(open, func(p Proposal[string]) bool { return p.Old < seen })
		}
		if law := kept(&before, v.kept(), open, said); law != "" {
			return law
		}
	}
	return ""
}

// kept checks what a message has made of an acceptor.
func kept(before, a *Acceptor[string], open []Proposal[string], said bool) string {
	switch {
	case a.Promise < before.Promise:
		return "a promise decreased"
	case a.Seen < before.Seen:
		return "what the register showed was forgotten"
	case len(a.Open) > MaxOpen:
		return "too many proposals are open"
	case !said && (a.Promise != before.Promise || a.Nonce != before.Nonce || len(a.Open) != len(before.Open)):
		return "a change that nobody was told of"
	}
	for _, o := range open {
		if !slices.ContainsFunc(a.Open, func(p Proposal[string]) bool { return p.Old == o.Old && p.Epoch >= o.Epoch && Same(p.To, o.To) }) {
			return "a proposal that may still win was dropped"
		}
	}
	for i, p := range a.Open {
		if slices.ContainsFunc(a.Open[i+1:], func(o Proposal[string]) bool { return o.Old == p.Old && Same(o.To, p.To) }) {
			return "a proposal is kept twice"
		}
	}
	return ""
}

// TestLawsOfTheAcceptor: promises never decrease, an epoch has one vote, what may
// still become the register's value is kept, and everything is bounded.
func TestLawsOfTheAcceptor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := &honest{}
		if law := broken(v, 60, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }); law != "" {
			t.Fatalf("%s: %+v", law, v.a)
		}
	})
}

// TestTheLawsCanBeBroken shows that each fault is seen.
func TestTheLawsCanBeBroken(t *testing.T) {
	for _, c := range []struct {
		make func() voter
		law  string
	}{
		{func() voter { return &generous{} }, "two candidacies got the vote of one epoch"},
		{func() voter { return &lax{} }, "a message below the promise took effect, or one at it did not"},
		{func() voter { return &forgetful{} }, "a proposal that may still win was dropped"},
		{func() voter { return &boundless{} }, "too many proposals are open"},
		{func() voter { return &wordless{} }, "a change that nobody was told of"},
		{func() voter { return &backward{} }, "what the register showed was forgotten"},
	} {
		seen := map[string]bool{}
		for seed := range uint64(300) {
			seen[broken(c.make(), 80, rand.New(rand.NewPCG(seed, 1)).IntN)] = true
		}
		if !seen[c.law] {
			t.Errorf("nobody noticed that %q: %v", c.law, seen)
		}
	}
}

// TestAPreVoteIsAsTheVoteWouldBe: whoever would vote does, and asking changes
// nothing.
func TestAPreVoteIsAsTheVoteWouldBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "n") }
		h := &honest{}
		broken(h, draw(40), draw)
		b := &Ballot[string]{Epoch: h.a.Promise + uint64(draw(3)), Nonce: 77, Old: h.a.Seen + uint64(draw(2)), To: someCohorts[draw(len(someCohorts))]}
		before := h.a
		would := h.a.Would(b, false).Granted
		if h.a.Promise != before.Promise || h.a.Nonce != before.Nonce || len(h.a.Open) != len(before.Open) {
			t.Fatal("a pre-vote has changed something")
		}
		if h.a.Would(b, true).Granted {
			t.Fatal("a leader that is well was not spared")
		}
		if did := h.a.Vote(b).Granted; did != would {
			t.Fatalf("it would vote: %t, it votes: %t", would, did)
		}
	})
}

// TestTheRegisterIsNotHeardBeforeItIsAsked: what it says between the last push
// and the compare-and-set is not its answer.
func TestTheRegisterIsNotHeardBeforeItIsAsked(t *testing.T) {
	now := clock.Time{Mono: 1}
	e := New(Config[string]{Self: "a", Rand: rand.New(rand.NewPCG(1, 2))})
	cell := Cell[string]{Epoch: 4, Nonce: 7, Cohort: []string{"a", "b", "c"}}
	e.Start(now, 1, cell, cell.Cohort, false, 4)
	c := e.running[1]
	c.phase, c.tally = pushing, quorum.NewTally(cell.Cohort)
	for _, m := range []string{"a", "b"} {
		e.Pushed(now, m, Vote{Partition: 1, Epoch: 5, Nonce: c.ballot.Nonce, Granted: true})
	}
	e.Written(now, 1, Cell[string]{Epoch: 6, Nonce: 1}, true)
	if r := e.Ready(now); len(r.Write) != 1 || len(r.Lost) != 0 {
		t.Fatalf("%+v", r)
	}
	e.Written(now, 1, Cell[string]{Epoch: 6, Nonce: 1}, true)
	if r := e.Ready(now); len(r.Lost) != 1 || len(r.Write) != 0 {
		t.Fatalf("%+v", r)
	}
}

package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
)

// copied is what is on a disk now.
func copied(m *memstore.Mem) *memstore.Mem {
	to := memstore.New()
	var b store.Batch
	for k, v := range m.Scan(nil, nil) {
		b.Set(k, v)
	}
	to.Commit(&b)()
	return to
}

// TestARegisterThatGoesBackIsNoticed: while the node runs by its revision, and at a start by
// what its own disk knows. An answer to an earlier question says nothing.
func TestARegisterThatGoesBackIsNoticed(t *testing.T) {
	r := newRig(t)
	old := copied(r.regStore)
	r.enqueue(spec("q"))
	r.pass(time.Second)
	answer := func(c *Core, revision int, late bool) {
		r.manual = true
		c.register.Ask(nil)
		asked := lastAsked(c)
		state := c.view.State
		if late { // it has moved on since it was asked
			c.view.State.Revision++
		}
		state.Revision += uint64(revision)
		c.register.Answered(r.now, register.Result{Tag: asked, State: state}, c.learn)
		r.turn()
		r.manual, r.waiting = false, nil
	}
	for _, step := range []struct {
		revision int
		late     bool
		want     bool
	}{{0, false, false}, {1, false, false}, {0, true, false}, {-2, false, true}, {0, false, true}} {
		answer(r.core, step.revision, step.late)
		if s := r.core.Stats(); (s.RegisterBack != "") != step.want {
			t.Fatalf("answered with %+d: %q", step.revision, s.RegisterBack)
		}
	}
	r.crash(time.Second)
	r.pass(2 * catchUpFor)
	if s := r.core.Stats(); s.RegisterBack != "" {
		t.Fatalf("it is as it was: %q", s.RegisterBack)
	}
	r.enqueue(spec("q")) // after another election
	r.regStore = old
	r.crash(time.Second)
	r.pass(2 * catchUpFor)
	if s := r.core.Stats(); s.RegisterBack == "" {
		t.Error("the register is one from before the last election, and the facts are not")
	}
}

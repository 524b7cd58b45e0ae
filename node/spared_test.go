package node

import (
	"errors"
	"fmt"
	"os"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
)

// older has these nodes stop, and gives what brings each one's directory back to what it
// is now, once all have gone on for a while.
func (r *trioOnDisk) older(which ...int) (back func()) {
	r.t.Helper()
	r.enqueue(10)
	backup := map[int]string{}
	for _, i := range which {
		backup[i] = r.t.TempDir()
		r.end(i)
		if err := os.CopyFS(backup[i], os.DirFS(r.configs[i].Data)); err != nil {
			r.t.Fatal(err)
		}
		r.begin(i)
		full(r.t, r.nodes[i], 3)
	}
	r.enqueue(10)
	return func() {
		for _, i := range which {
			r.end(i)
		}
		for _, i := range which {
			if err := errors.Join(os.RemoveAll(r.configs[i].Data), os.CopyFS(r.configs[i].Data, os.DirFS(backup[i]))); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// waits fails if one of these nodes ends for good or becomes another incarnation, until each
// has found out that it has forgotten something, and has asked often enough whether it is to
// end. Two that were set back deny each other's loss, so that one that has waited for
// [denyAfter] starts again as it is. It is the same incarnation then, and has waited.
func (r *trioOnDisk) waits(which ...int) {
	r.t.Helper()
	for _, i := range which {
		self := r.nodes[i].self
		eventually(r.t, fmt.Sprintf("node %d waits", i+1), func() bool {
			if r.alive(i) {
				return r.nodes[i].members.asked.Load() > 5
			}
			r.asItIs(i, self)
			return true
		})
	}
	for _, i := range which {
		if self := r.nodes[i].self; !r.alive(i) {
			r.asItIs(i, self)
		}
		count := through(r.t, r.nodes[i], nornv1.Method_METHOD_COUNT, &nornv1.CountRequest{}, &nornv1.CountReply{})
		if count.Total.GetTotal() == 0 {
			r.t.Errorf("node %d does not show what it has: %v", i+1, count)
		}
	}
}

// alive fails if a node has ended for good or as another incarnation. It is false when the
// node is to start again as it is.
func (r *trioOnDisk) alive(i int) bool {
	r.t.Helper()
	err := r.nodes[i].Alive()
	if err != nil && (!errors.Is(err, ErrStartAgain) || forgot(err)) {
		r.t.Fatalf("node %d ends: %v", i+1, err)
	}
	return err == nil
}

// asItIs starts a node again that was to be, as the same incarnation.
func (r *trioOnDisk) asItIs(i int, self register.Member) {
	r.t.Helper()
	r.end(i)
	r.begin(i)
	if now := r.nodes[i].self; now != self {
		r.t.Fatalf("node %d was %v and is %v", i+1, self, now)
	}
}

// TestTwoThatAreRefusedStay: two of three come back on older directories, and the third
// one, which runs, refuses both. Each became another incarnation by that alone, and what
// is a majority of two votes was left with one for good.
func TestTwoThatAreRefusedStay(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newTrioOnDisk(t)
	back := r.older(1, 2)
	back()
	r.begin(1)
	r.begin(2)
	r.waits(1, 2)
}

// TestWhoseRegisterHasForgottenStays, too, if the others cannot do without it: one goes, of
// two none does.
func TestWhoseRegisterHasForgottenStays(t *testing.T) {
	t.Parallel() // it waits most of the time
	lost := fmt.Errorf("%w: as if its log ended too early", group.ErrForgot)
	t.Run("one of three", func(t *testing.T) {
		r := newTrioOnDisk(t)
		n, old := r.nodes[1], r.nodes[1].self
		n.members.end(lost)
		eventually(t, "it ends", func() bool { return n.Alive() != nil })
		if err := n.Failure(); !forgot(err) || !errors.Is(err, ErrStartAgain) {
			t.Fatalf("it ends with %v", err)
		}
		r.end(1)
		r.begin(1)
		full(t, r.nodes[1], 3)
		if r.nodes[1].self == old {
			t.Error("it is the same incarnation as before")
		}
	})
	t.Run("two of three", func(t *testing.T) {
		r := newTrioOnDisk(t)
		r.enqueue(10)
		r.nodes[1].members.end(lost)
		r.nodes[2].members.end(lost)
		r.waits(1, 2)
	})
}

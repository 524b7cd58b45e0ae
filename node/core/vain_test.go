package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"
)

// TestAHandOverPassesOverWhoDoesNotAnswer: a member is in reach and no comparison with it
// comes to its end, as on a disk that is slow. The others are a majority, and get what
// only a node outside of their cohort has (track record).
func TestAHandOverPassesOverWhoDoesNotAnswer(t *testing.T) {
	r := newGrowing(t)
	for range 4 {
		r.join()
	}
	r.live(10*time.Second, 100*time.Millisecond, nothing)
	cohort := r.state().Cells[0].Cohort
	lone := slices.IndexFunc(r.peers, func(p *peer) bool { return !slices.Contains(cohort, p.self) })
	silent := slices.IndexFunc(r.peers, func(p *peer) bool { return p.self == cohort[0] })
	if len(cohort) != 3 || lone < 0 {
		t.Fatalf("the cohort is %v", cohort)
	}
	for i := range r.peers {
		r.cut[[2]int{i, lone}], r.cut[[2]int{lone, i}] = true, true
	}
	r.peers[lone].deaf = true
	r.live(time.Second, 100*time.Millisecond, nothing)
	task := r.in(0)
	res := r.result(lone, r.enqueue(lone, task, &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}))
	if res.GetReceipt() == nil || r.copies(task) != 1 {
		t.Fatalf("got %v", res)
	}
	clear(r.cut)
	r.peers[lone].deaf = false
	r.live(30*time.Second, 250*time.Millisecond, func(l letter) bool {
		_, compares := l.message.(*message.Repair)
		return compares && !r.between(silent, lone)(l)
	})
	if n := r.copies(task); n < 2 || !vnode.Empty(r.peers[lone].store, 0) {
		t.Errorf("after half a minute %d nodes have the task, and the one that took it in has let go of it: %v", n, vnode.Empty(r.peers[lone].store, 0))
	}
}

package core

import (
	"slices"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/vnode"
)

// TestAnAnswerCountsForWhatWasAskedOnly: a write is about two partitions. A node of
// the second one's cohort is found to be of a cohort that the first one needs, too,
// and is sent that one's facts as well. What it answered before it got them says
// nothing of them: it counted, and when the facts were lost nobody sent them again.
func TestAnAnswerCountsForWhatWasAskedOnly(t *testing.T) {
	r := newCluster(t, 5, 0)
	const through, voter = 2, 1
	cell := r.state().Cells[0]
	next := []register.Member{r.peers[2].self, r.peers[3].self, r.peers[4].self}
	r.say(4, voter, &Ballots{Ballots: []Ballot{{Partition: 0, Epoch: cell.Epoch + 40, Nonce: 9, Old: cell.Epoch, From: cell.Cohort, To: next, Transfer: true}}})
	r.post = nil
	first, second := r.at(0), r.at(2)
	a, b := spec("q"), spec("q")
	a.Id, b.Id = first.Bytes(), second.Bytes()
	from := r.send(through, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{a, b}})
	deliver := func(which func(letter) bool) {
		for n := slices.IndexFunc(r.post, which); n >= 0; n = slices.IndexFunc(r.post, which) {
			r.deliver(n)
		}
	}
	facts := func(l letter) bool { _, is := l.message.(*Facts); return is }
	deliver(func(l letter) bool { return facts(l) && l.to != 0 })
	deliver(func(l letter) bool { return l.from == voter && l.to == through })
	r.post = slices.DeleteFunc(r.post, facts) // also those that take the first one to its next cohort
	r.settleBut(facts)
	have := func() (n int) {
		for _, m := range next {
			i := slices.IndexFunc(r.peers, func(p *peer) bool { return p.self == m })
			if vnode.Known(r.peers[i].store.Crash(0), 0, first) {
				n++
			}
		}
		return n
	}
	if reply, answered := r.peers[through].replies[from]; answered || have() != 1 {
		t.Errorf("answered: %t, %v; of the next cohort %d have it", answered, reply.Message, have())
	}
	r.live(4*time.Second, 100*time.Millisecond, nothing)
	if _, answered := r.peers[through].replies[from]; !answered || have() < 2 {
		t.Errorf("when nothing is lost any more: answered: %t; of the next cohort %d have it", answered, have())
	}
}

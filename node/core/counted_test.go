package core

import (
	"testing"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// leaving makes a node outside of partition 0's cohort that hands it over, and has asked
// whether the cohort is about to change.
func leaving(t *testing.T) (r *trio, m *transfer.Machine, out *transfer.Move) {
	r = newCluster(t, 5, 0)
	m = r.peers[4].core.transfer
	if m.Found(r.now, 0); m.Outgoing[0] == nil {
		t.Fatal("partition 0 is not to be handed over")
	}
	out = m.Outgoing[0]
	out.Probe = 7
	return r, m, out
}

// TestWhoSaysThatNoCohortIsProposed: a majority of the cohort, each once, after its last
// answer to the contrary, and about the cell of now. Else a partition might be deleted
// that a candidate of an older cohort counts on (docs/contributors/model.md).
func TestWhoSaysThatNoCohortIsProposed(t *testing.T) {
	r, m, out := leaving(t)
	cohort := m.View.Cells[0].Cohort
	clear := func(from register.Member, a message.FactsTaken) int {
		t.Helper()
		a.Write = 7
		m.Answered(r.now, from, &a)
		return len(out.Clear)
	}
	if n := clear(cohort[0], message.FactsTaken{Refused: []ring.Partition{0}}); n != 0 {
		t.Error("a refusal counts")
	}
	if n := clear(r.peers[3].self, message.FactsTaken{}); n != 0 {
		t.Error("the word of who is no member counts")
	}
	if n := clear(cohort[0], message.FactsTaken{Refused: []ring.Partition{1}, Fences: []message.Fence{{Partition: 1}}}); n != 1 {
		t.Error("an answer about another partition is no answer")
	}
	if n := clear(cohort[0], message.FactsTaken{}); n != 1 {
		t.Error("one member counts twice")
	}
	clear(cohort[1], message.FactsTaken{Fences: []message.Fence{{Partition: 0, Cohorts: [][]register.Member{cohort[:2]}}}})
	if len(out.Clear) != 0 || out.Probe != 0 {
		t.Errorf("a cohort is proposed, and %d have said that none is", len(out.Clear))
	}
	if n := clear(cohort[0], message.FactsTaken{}); n != 0 {
		t.Error("an answer to the question of before counts")
	}
	out.Probe, out.Clear = 7, cohort[:1]
	m.View.Cells[0].Epoch++
	if m.Keep(out, 0); len(out.Clear) != 0 || out.Probe != 0 {
		t.Error("what was said of the cell before counts for the next one")
	}
}

// TestWhatCameLateIsComparedToo: what was taken in after a comparison had begun may be
// nowhere else, and neither is what came since the last ones.
func TestWhatCameLateIsComparedToo(t *testing.T) {
	r, m, out := leaving(t)
	cohort := m.View.Cells[0].Cohort
	compare := func(late bool) int {
		m.Busy[message.Pair{Partition: 0, Peer: cohort[0]}] = true
		out.Busy, out.Since, out.Lacks = cohort[0], r.now.Mono, false
		if late {
			m.Hinted(r.now, 0)
		}
		m.Compared(r.now, message.Pair{Partition: 0, Peer: cohort[0]}, &antientropy.Result{Equal: true})
		return len(out.Met)
	}
	if n := compare(true); n != 0 {
		t.Error("a comparison counts for what came after it had begun")
	}
	if n := compare(false); n != 1 {
		t.Error("a comparison does not count")
	}
	out.Probe, out.Clear = 7, cohort[:2]
	if m.Hinted(r.now, 0); len(out.Met) != 0 || len(out.Clear) != 0 || out.Probe != 0 {
		t.Errorf("something came, and counted are %d comparisons and %d words", len(out.Met), len(out.Clear))
	}
}

// TestWhatWasSeenIsOnTheDiskBeforeAPartitionGoes: older cells get no vote from here on,
// also after a crash.
func TestWhatWasSeenIsOnTheDiskBeforeAPartitionGoes(t *testing.T) {
	r, m, _ := leaving(t)
	const node = 4
	seen := m.View.Cells[0].Epoch
	m.Forget(0)
	r.turn(node)
	r.kill(node)
	r.peers[node].mute = true
	r.open(node)
	a := &r.peers[node].core.acceptors.All[0]
	if a.Seen < seen {
		t.Errorf("it has seen epoch %d, and after a crash %d", seen, a.Seen)
	}
}

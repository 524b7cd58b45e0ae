package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/register"
)

// lies has what one node says of another one's disk be this, in each answer to a beat.
func lies(liar, of int, mark func(own uint64) uint64) func(r *trio) func(letter) bool {
	return func(r *trio) func(letter) bool {
		return func(l letter) bool {
			if m, is := l.message.(*message.Beaten); is && l.from == liar && l.to == of {
				m.Seen = mark(m.Seen)
			}
			return false
		}
	}
}

// TestOneMemberEndsNoDisk: it says that it has seen more of another one's disk than there is,
// by little or by much. That one stands aside at once, and its incarnation does not end,
// though the others can spare it; also when it starts again meanwhile.
func TestOneMemberEndsNoDisk(t *testing.T) {
	for _, more := range []uint64{1, 1000, 2 * standing.MostUnseen, 1 << 40, 1 << 55} {
		r := newTrio(t)
		r.put(0, 1)
		r.live(3*time.Second, 250*time.Millisecond, nothing)
		r.kill(1)
		r.open(1)
		r.tell()
		lie := lies(0, 1, func(own uint64) uint64 { return own + more })(r)
		r.live(3*time.Second, 100*time.Millisecond, lie)
		if m := r.peers[1].core.standing.Disk; m.Lost == 0 || m.Trusts(1) {
			t.Errorf("%d: it does not stand aside", more)
		}
		r.live(5*time.Second, 100*time.Millisecond, lie)
		r.kill(1)
		r.open(1)
		r.tell()
		r.live(5*time.Second, 100*time.Millisecond, lie)
		if err := r.peers[1].forgot; err != nil {
			t.Errorf("%d: it ends: %v", more, err)
		}
		if more <= standing.MostUnseen {
			continue
		}
		r.live(10*time.Second, 100*time.Millisecond, lie)
		if m := r.peers[1].core.standing.Disk; m.Lost != 0 || !m.Trusts(1) {
			t.Errorf("%d: it stands aside though the other one knows nothing of it: %v", more, Forgotten(r.peers[1].core))
		}
		r.kill(1) // what was denied is not taken up again
		r.open(1)
		r.tell()
		r.live(3*time.Second, 100*time.Millisecond, lie)
		if m := r.peers[1].core.standing.Disk; m.Lost != 0 {
			t.Errorf("%d: after one more start it stands aside", more)
		}
	}
}

// TestAWordThatComesLateIsDenied: one member says of all others at once that their disks have
// lost something, while they run. They stand aside, and go on when they have heard each other.
func TestAWordThatComesLateIsDenied(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	r.live(3*time.Second, 250*time.Millisecond, nothing)
	lie := func(l letter) bool {
		if m, is := l.message.(*message.Beaten); is && l.from == 0 {
			m.Seen += 100
		}
		return false
	}
	r.live(3*time.Second, 100*time.Millisecond, lie)
	for i := 1; i < 3; i++ {
		if m := r.peers[i].core.standing.Disk; m.Lost == 0 || m.Trusts(1) {
			t.Errorf("node %d does not stand aside", i+1)
		}
	}
	r.live(15*time.Second, 100*time.Millisecond, lie)
	for i := 1; i < 3; i++ {
		if m := r.peers[i].core.standing.Disk; r.peers[i].forgot != nil || m.Lost != 0 || !m.Trusts(1) {
			t.Errorf("node %d still stands aside, or has ended: %v", i+1, r.peers[i].forgot)
		}
	}
	r.elect()
}

// TestAWordIsTakenBack: who has said that a disk has lost something does not any more, or is
// no member any more; the node stands for what it stood for, and remembers nothing of it.
func TestAWordIsTakenBack(t *testing.T) {
	for _, removed := range []bool{false, true} {
		r := newTrio(t)
		r.put(0, 1)
		r.live(3*time.Second, 250*time.Millisecond, nothing)
		lie := lies(0, 1, func(own uint64) uint64 { return own + 100 })(r)
		r.live(3*time.Second, 100*time.Millisecond, lie)
		if r.peers[1].core.standing.Disk.Lost == 0 {
			t.Fatal("it does not stand aside")
		}
		if removed {
			state := *r.state()
			state.Nodes = slices.Clone(state.Nodes)
			state.Nodes[0].Status = register.Removed
			state.Nodes = append(state.Nodes, register.Node{Member: r.peers[2].self, Status: register.Active})
			state.Revision++
			r.check(r.peers[1].core.Step(r.now, message.Changed{State: state, Voters: []register.Member{r.peers[1].self, r.peers[2].self}}))
			lie = func(l letter) bool { return l.from == 0 && l.to == 1 }
		} else {
			lie = nothing
		}
		r.live(3*time.Second, 100*time.Millisecond, lie)
		m := r.peers[1].core.standing.Disk
		if m.Lost != 0 || m.Written {
			t.Errorf("removed %t: it still stands aside: lost %d", removed, m.Lost)
		}
		if _, there := r.peers[1].store.Crash(0).Get(standing.LostMarkKey); there {
			t.Errorf("removed %t: the word is still on disk", removed)
		}
	}
}

// TestAWordIsTakenBackThoughTheDiskHasGoneOn: a member that has lied is honest again. What it
// has seen of the disk by then is more than what it has lied about, so that its word would
// stay for good.
func TestAWordIsTakenBackThoughTheDiskHasGoneOn(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	r.live(3*time.Second, 250*time.Millisecond, nothing)
	r.kill(1)
	r.open(1)
	r.tell()
	said := uint64(0)
	lie := lies(0, 1, func(seen uint64) uint64 {
		if said == 0 {
			said = seen + 5
		}
		return said
	})(r)
	r.live(time.Second, 100*time.Millisecond, lie)
	m := r.peers[1].core.standing.Disk
	if m.Lost == 0 || m.Trusts(1) {
		t.Fatal("it does not stand aside")
	}
	for range 20 {
		r.put(0, 1)
		r.live(200*time.Millisecond, 100*time.Millisecond, lie)
	}
	if m.Durable <= said {
		t.Fatalf("the disk is at %d only, want more than %d", m.Durable, said)
	}
	r.live(3*time.Second, 100*time.Millisecond, nothing)
	if m.Lost != 0 || !m.Trusts(1) {
		t.Errorf("it still stands aside: %v", Forgotten(r.peers[1].core))
	}
	r.put(0, 1)
	r.live(3*time.Second, 100*time.Millisecond, nothing)
	if known := r.peers[0].core.standing.Disk.HeardOf[r.peers[1].self]; known <= said {
		t.Errorf("the other one has seen %d of a disk that is at %d", known, m.Durable)
	}
}

// TestTwoMembersEndADisk: and one does where nobody else has ever seen anything of it.
func TestTwoMembersEndADisk(t *testing.T) {
	for _, others := range []int{1, 2} {
		r := newTrio(t)
		r.put(0, 1)
		r.live(3*time.Second, 250*time.Millisecond, nothing)
		self := r.peers[1].self
		r.live(5*time.Second, 100*time.Millisecond, func(l letter) bool {
			if m, is := l.message.(*message.Beaten); is && l.to == 1 {
				switch {
				case l.from == 0 || others == 2:
					m.Seen = 1 << 30
				default:
					m.Seen = 0
				}
			}
			return false
		})
		if r.peers[1].forgot == nil {
			t.Errorf("%d say so, of %s: it stays", others, self.Node)
		}
	}
}

// unmarked drops the letters that only say how far a disk is.
func (r *trio) unmarked() {
	r.post = slices.DeleteFunc(r.post, func(l letter) bool {
		_, marked := l.message.(*message.DurabilityEpoch)
		return marked
	})
}

// TestOneMemberNamesNoCell: a node that was removed hands over, and deletes then, to whom a
// cell names. One member names itself alone; two have to say the same.
func TestOneMemberNamesNoCell(t *testing.T) {
	r := newTrio(t)
	r.before = r.state()
	now := r.before.Cells[0].Epoch
	o := r.removed(2).core
	o.view.State.Nodes = append(slices.Clone(o.view.State.Nodes), register.Node{Member: r.peers[1].self, Status: register.Active})
	say := func(from int, epoch uint64) {
		cell := register.Cell{Epoch: epoch, Nonce: epoch, Cohort: []register.Member{r.peers[0].self}}
		r.check(o.Step(r.now, &message.FromPeer{From: r.peers[from].self, Message: &message.Cells{Cells: []message.KnownCell{{Partition: 0, Cell: cell}}}}))
	}
	for range 3 {
		if say(0, now+9); o.view.Cells[0].Epoch != now {
			t.Fatal("one says which cell it is, and is believed")
		}
	}
	if say(1, now+1); o.view.Cells[0].Epoch != now {
		t.Error("two say different ones, and one is believed")
	}
	if say(0, now+1); o.view.Cells[0].Epoch != now+1 {
		t.Error("two say the same, and are not believed")
	}
}

package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
)

// stays fails unless these nodes know that they have forgotten something, and are still there.
func (r *trio) stays(when string, nodes ...int) {
	r.t.Helper()
	for _, i := range nodes {
		p := r.peers[i]
		if p.forgot != nil {
			r.t.Errorf("%s: node %d ended: %v", when, i+1, p.forgot)
		} else if c := p.core; c.standing.Disk.Lost == 0 || c.Leading() != 0 {
			r.t.Errorf("%s: node %d has lost %d, leads %d", when, i+1, c.standing.Disk.Lost, c.Leading())
		}
	}
}

// setAllBack ends all nodes at once, and starts them again, those on older disks that have one.
func (r *trio) setAllBack(old map[int]*memstore.Mem) {
	for i := range r.peers {
		r.kill(i)
	}
	for i, p := range r.peers {
		if disk := old[i]; disk != nil {
			p.store = disk
		}
		r.open(i)
	}
	r.tell()
}

// TestWhoHasForgottenIsNoMajorityForAnother: two of three have forgotten something. Each took
// the other one for intact, so that both became other incarnations as soon as the third was
// back, and neither the partitions nor the register had a majority ever again. Both stay.
func TestWhoHasForgottenIsNoMajorityForAnother(t *testing.T) {
	t.Run("one after the other, while the third is down", func(t *testing.T) {
		r := newTrio(t)
		old := []*memstore.Mem{r.backup(0), r.backup(1)}
		r.put(1, 1)
		r.live(2*standing.SeenAfter, time.Second, nothing)
		r.kill(2)
		r.tell()
		for _, i := range []int{1, 0} {
			r.setBack(i, old[i])
			r.live(5*time.Second, 100*time.Millisecond, nothing)
			r.stays("the third is down", i)
		}
		r.open(2)
		r.tell()
		r.live(20*time.Second, 100*time.Millisecond, nothing)
		r.stays("the third is back", 0, 1)
	})
	t.Run("unnoticed, while the third is down", func(t *testing.T) { // both take each other for intact, until it is back
		r := newTrio(t)
		old := map[int]*memstore.Mem{0: r.backup(0), 1: r.backup(1)}
		r.put(1, 1)
		r.live(2*standing.SeenAfter, time.Second, nothing)
		r.setAllBack(old)
		r.kill(2)
		r.tell()
		r.post = nil
		r.live(5*time.Second, 100*time.Millisecond, nothing)
		for i := range 2 {
			if lost := r.peers[i].core.standing.Disk.Lost; lost != 0 {
				t.Fatalf("node %d knows already: %d", i+1, lost)
			}
		}
		r.open(2)
		r.tell()
		r.live(20*time.Second, 100*time.Millisecond, nothing)
		r.stays("the third is back", 0, 1)
	})
	t.Run("all three, to different moments", func(t *testing.T) {
		r := newTrio(t)
		old := map[int]*memstore.Mem{}
		for i := range 3 {
			old[i] = r.backup(i)
			r.put(1, 1)
			r.live(2*standing.SeenAfter, time.Second, nothing)
		}
		r.setAllBack(old)
		r.live(20*time.Second, 100*time.Millisecond, nothing)
		r.stays("all were set back", 0, 1)
		if p := r.peers[2]; p.forgot != nil || p.core.standing.Disk.Lost != 0 {
			t.Errorf("the newest disk of the three: ended %v", p.forgot)
		}
	})
}

// TestWhoHasForgottenIsLetGoAfterACommonRestart: nobody has heard of anybody yet, and the
// others are intact as soon as they have. Those who only vote in the register, and share no
// partition with who has forgotten, are asked too.
func TestWhoHasForgottenIsLetGoAfterACommonRestart(t *testing.T) {
	for name, open := range map[string]func() *trio{
		"three nodes": func() *trio { return newTrio(t) },
		"five nodes":  func() *trio { return newCluster(t, 5, 0) },
		"voters elsewhere": func() *trio {
			return newCohorts(t, 6, 0, func(p int) []int { return [][]int{{0, 1, 2}, {3, 4, 5}}[p%2] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := open()
			old := map[int]*memstore.Mem{0: r.backup(0)}
			for p := range ring.Partition(testPartitions) {
				r.put(1, p)
			}
			r.live(2*standing.SeenAfter, time.Second, nothing)
			r.setAllBack(old)
			r.live(10*time.Second, 100*time.Millisecond, nothing)
			for i, p := range r.peers {
				if (p.forgot != nil) != (i == 0) {
					t.Errorf("node %d ended: %v", i+1, p.forgot)
				}
			}
		})
	}
}

// TestWhoSaysNothingOfItsDiskIsNotCounted: a node of a build that does not say whether it
// has forgotten something. Whoever has waits until enough others say that they have not.
func TestWhoSaysNothingOfItsDiskIsNotCounted(t *testing.T) {
	r := newTrio(t)
	old := r.backup(0)
	r.put(1, 1)
	r.live(2*standing.SeenAfter, time.Second, nothing)
	r.setBack(0, old)
	before := func(l letter) bool {
		if m, is := l.message.(*message.Beaten); is && l.from == 2 {
			m.Whole, m.Sound = false, false
		}
		return false
	}
	r.live(10*time.Second, 100*time.Millisecond, before)
	r.stays("one of three says nothing", 0)
	r.live(3*time.Second, 100*time.Millisecond, nothing)
	if r.peers[0].forgot == nil {
		t.Error("it stays though both others are intact")
	}
}

// TestWhatIsSaidOfADiskCountsWhileInReach: who comes back may do so on another disk, and an
// answer to an earlier question says nothing against one to a later question.
func TestWhatIsSaidOfADiskCountsWhileInReach(t *testing.T) {
	r := newTrio(t)
	r.live(3*time.Second, 250*time.Millisecond, nothing)
	s, o := &r.peers[0].core.standing.Disk.Peers, r.peers[1].self
	if !s.Counts(o) || s.Counts(r.peers[0].self) {
		t.Fatalf("of the others it has heard %v", s.Of)
	}
	at := s.Of[o].Asked
	say := func(after int64, sound bool) {
		m := &message.Beaten{Whole: true, Sound: sound}
		m.Sent.Mono = at + after
		s.Hears(o, m)
	}
	for _, step := range []struct {
		after int64
		sound bool
		want  bool
	}{{-1, false, true}, {1, false, false}, {0, true, false}, {2, true, true}} {
		if say(step.after, step.sound); s.Counts(o) != step.want {
			t.Errorf("after what was asked %d later it counts: %t", step.after, !step.want)
		}
	}
	cut := func(all ...int) {
		var alive message.Alive
		for _, i := range all {
			alive.Members = append(alive.Members, r.peers[i].self)
		}
		r.check(r.peers[0].core.Step(r.now, alive))
	}
	cut(2)
	if say(3, true); s.Counts(o) {
		t.Error("it counts though it is out of reach")
	}
	if cut(1, 2); s.Counts(o) {
		t.Error("it counts by what it has said before it came back")
	}
}

// TestWhoIsSoundForWhom: a node says so as soon as enough others have told it what they
// know, in the cohorts that it shares with who asks; who has forgotten something knows
// nothing, and who is in reach and has not told yet may know better.
func TestWhoIsSoundForWhom(t *testing.T) {
	r := newCohorts(t, 5, 0, func(p int) []int { return [][]int{{0, 1, 2}, {0, 3, 4}}[p%2] })
	r.live(3*time.Second, 250*time.Millisecond, nothing)
	m, all := r.peers[0].core.standing.Disk, r.peers
	want := func(when string, sound ...bool) {
		t.Helper()
		m.Peers.Look = true
		for i, o := range all[1:] {
			if got := m.Peers.Towards(o.self); got != sound[i] {
				t.Errorf("%s: sound for node %d: %t", when, i+2, got)
			}
		}
	}
	want("all have told", true, true, true, true)
	delete(m.ConfirmedBy, all[1].self)
	want("one in reach has not told", false, false, true, true)
	delete(all[0].core.view.Alive(), all[1].self)
	want("one out of reach has not told", true, true, true, true)
	w := m.Peers.Of[all[2].self]
	w.ClaimsIntact = false
	m.Peers.Of[all[2].self] = w
	want("and the other one has forgotten something", false, false, true, true)
	m.Lost = 1
	want("it has forgotten something", false, false, false, false)
	m.Lost, all[0].core.view.Current = 0, false
	want("the register has not answered", false, false, false, false)
}

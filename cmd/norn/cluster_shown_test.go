package main

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
)

// shown is a cluster of real processes under load, and what has been seen of it.
type shown struct {
	*company
	t     *testing.T
	load  *producers
	tasks int // to be acknowledged in all
	began time.Time
}

func (s *shown) step(what string) {
	s.t.Logf("%6.1fs %s, %d tasks acknowledged", time.Since(s.began).Seconds(), what, s.load.count())
}

// TestClusterShown is what a cluster is to stand, in one go, with clients that
// enqueue through all nodes and see no error: a node is killed, wiped and joins
// again, another is cut off and healed, and the cluster grows to five nodes and
// shrinks to three; then the last of three nodes takes tasks with one copy. In the
// end every acknowledged task is on the disks of all three nodes. NORN_TEST_TASKS
// says how many there are at least.
func TestClusterShown(t *testing.T) {
	thorough(t)
	s := &shown{company: wired(t), t: t, tasks: number("NORN_TEST_TASKS", 6000), began: time.Now()}
	for range 3 {
		s.add().start(t)
	}
	s.settled(3)
	s.load = s.produce("q", 50, 20*time.Millisecond)
	s.wipedAndCutOff()
	s.growsAndShrinks()
	for s.load.count() < s.tasks {
		s.load.more(t, min(1000, s.tasks-s.load.count()))
	}
	s.load.end(t)
	s.step("load ended")
	s.settled(3)
	s.equal()
	s.step("verified")
	taken := s.lastOfThree()
	s.step("the last of three nodes has taken tasks")
	s.settled(3)
	s.equal() // before that two nodes together may not know what the third has
	for _, p := range s.all {
		for _, task := range taken {
			if r := p.norn(t, "task", "get", task.String()); r.code != 0 {
				t.Errorf("through %s, a task that n1 took alone: exit %d, %s", p.name, r.code, r.err)
			}
		}
	}
	s.everywhere(s.load.acked, s.load.sent)
	s.step("read on all disks")
}

// equal wants equal replicas and the right count through every node.
func (s *shown) equal() {
	s.t.Helper()
	for _, p := range s.all {
		p.verified(s.t)
		p.counted(s.t, "q", uint64(len(s.load.acked)))
	}
}

// wipedAndCutOff kills, wipes and starts one node while tasks come, and cuts
// another one off.
func (s *shown) wipedAndCutOff() {
	n2, n3, part := s.all[1], s.all[2], s.tasks/8
	s.load.more(s.t, part)
	n2.kill(s.t)
	s.step("n2 killed")
	s.load.more(s.t, part)
	n2.wipe(s.t)
	n2.args = append(n2.args, "--join", n3.reached()) // n1 is down now and then, too
	n2.start(s.t)
	s.step("n2 is back, empty")
	s.load.more(s.t, part)
	s.settled(3)
	s.step("n2 has everything")
	s.isolate(n3)
	s.step("n3 cut off")
	s.load.more(s.t, part)
	<-time.After(8 * time.Second) // longer than anybody waits for an answer
	s.load.more(s.t, part)
	s.heal()
	s.step("n3 healed")
	s.settled(3)
	s.step("n3 has everything")
}

// growsAndShrinks has two nodes come and go again.
func (s *shown) growsAndShrinks() {
	n4, n5 := s.add(), s.add()
	n4.start(s.t)
	n5.start(s.t)
	eventually(s.t, "five nodes have their share", func() bool {
		now := s.all[0].status(s.t)
		if now == nil || len(now.Voters) != 5 {
			return false
		}
		for _, n := range now.Nodes {
			if n.State == "up" && (n.Vnodes < 7 || n.Vnodes > 12) {
				return false
			}
		}
		return whole(now, 3) == ""
	})
	s.step("five nodes")
	s.load.more(s.t, s.tasks/10)
	for _, p := range []*process{n4, n5} {
		if r := s.all[0].norn(s.t, "cluster", "leave", p.name, "--wait", "3m"); r.code != 0 {
			s.t.Fatalf("%s does not leave: %d, %s%s", p.name, r.code, r.out, r.err)
		}
		if code := p.failed(s.t); code != 0 {
			s.t.Errorf("%s has left and ends with %d", p.name, code)
		}
		s.step(p.name + " has left")
	}
	s.all = s.all[:3]
}

// lastOfThree kills two of three nodes, enqueues through the third, and starts
// the two again.
func (s *shown) lastOfThree() (taken []id.ID) {
	n1, n2, n3 := s.all[0], s.all[1], s.all[2]
	n2.kill(s.t)
	n3.kill(s.t)
	alone := func(level string) result {
		return n1.norn(s.t, "task", "enqueue", "-q", "q", "-w", level, "--timeout", "20s", "alone")
	}
	for range 20 { // in most partitions
		r := alone("one")
		task, err := id.Parse(strings.TrimSpace(r.out))
		if r.code != 0 || err != nil {
			s.t.Fatalf("-w one exits with %d: %s%s", r.code, r.out, r.err)
		}
		taken = append(taken, task)
		s.load.acked[task], s.load.sent[task] = true, true
	}
	n2.start(s.t)
	n3.start(s.t)
	return taken
}

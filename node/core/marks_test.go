package core

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/standing"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"
)

// backup copies what a node has on disk.
func (r *trio) backup(i int) *memstore.Mem {
	old := memstore.New()
	var b store.Batch
	for k, v := range r.peers[i].store.Crash(0).Scan(nil, nil) {
		b.Set(k, v)
	}
	old.Commit(&b)()
	return old
}

// setBack starts a node on an older disk.
func (r *trio) setBack(i int, old *memstore.Mem) {
	r.kill(i)
	r.peers[i].store = old
	r.open(i)
}

// TestADiskThatWasSetBackIsNoticed: the node ends, to become another incarnation,
// before it has voted for anybody or kept a claim; also when those who know have
// been restarted in between.
func TestADiskThatWasSetBackIsNoticed(t *testing.T) {
	for _, restart := range []bool{false, true} {
		r := newTrio(t)
		i := r.leader(1)
		forgetful := (i + 1) % 3
		old := r.backup(forgetful)
		task := r.put(0, 1)
		ask1 := r.send(i, claimUpTo(1))
		r.live(2*time.Second, 250*time.Millisecond, nothing)
		if grants, _ := r.granted(i, ask1); len(grants) != 1 || parse(t, grants[0].Task.Id) != task {
			t.Fatalf("granted %v", grants)
		}
		if restart {
			r.live(2*standing.SeenAfter, time.Second, nothing)
			for j := range r.peers {
				if j != forgetful {
					r.kill(j)
					r.open(j)
				}
			}
		}
		r.setBack(forgetful, old)
		spoke := 0
		r.live(5*time.Second, 50*time.Millisecond, func(l letter) bool {
			switch m := l.message.(type) {
			case *message.Votes:
				for _, v := range m.Votes {
					if l.from == forgetful && v.Granted {
						spoke++
					}
				}
			case *message.ClaimsTaken:
				for _, p := range m.Parts {
					if l.from == forgetful && !p.No {
						spoke++
					}
				}
			}
			return false
		})
		if r.peers[forgetful].forgot == nil || spoke > 0 {
			t.Fatalf("others restarted %t: it ended with %v, after %d votes", restart, r.peers[forgetful].forgot, spoke)
		}
	}
}

// TestWhoIsOfTheCohortIsAskedFirst: a node on a disk that was set back does not know
// of the register either, or has an old state of it. Until the register has answered
// this process, nobody counts as a majority of a cohort: it neither votes nor keeps
// claims. One that did made up a majority of the ignorant with a leader whose disk was
// old too, and a completed task was granted again (track record, simulator, seed 11).
func TestWhoIsOfTheCohortIsAskedFirst(t *testing.T) {
	for name, says := range map[string]func(r *trio, i int) *register.State{
		"nothing is known of the register": func(*trio, int) *register.State { return nil },
		"a state of before it had company": func(r *trio, i int) *register.State { s := r.atFirst(i); return &s },
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrio(t)
			i := r.leader(1)
			r.put(0, 1)
			r.live(2*time.Second, 250*time.Millisecond, nothing)
			forgetful := (i + 1) % 3
			p := r.peers[forgetful]
			p.mute = true
			r.setBack(forgetful, memstore.New())
			if s := says(r, forgetful); s != nil {
				r.check(p.core.Step(r.clock(forgetful), message.Changed{State: *s}))
				r.turn(forgetful)
			}
			cell := r.state().Cells[1]
			kept := func() (claims, votes bool) {
				r.post = nil
				r.say(i, forgetful, &message.Claims{Round: 1, Parts: []message.PartClaims{{Partition: 1, Epoch: cell.Epoch, Claims: vnode.AppendHeld(nil, nil)}}})
				r.say(i, forgetful, &message.Ballots{Ballots: []message.Ballot{{Partition: 1, Epoch: cell.Epoch + 1, Nonce: 9, Old: cell.Epoch, From: cell.Cohort, To: cell.Cohort, Transfer: true}}})
				for _, l := range r.post {
					switch m := l.message.(type) {
					case *message.ClaimsTaken:
						claims = !m.Parts[0].No
					case *message.Votes:
						votes = m.Votes[0].Granted
					}
				}
				r.post = nil
				return claims, votes
			}
			if claims, votes := kept(); claims || votes || p.core.standing.Disk.MayRetire() {
				t.Errorf("before the register has answered: it keeps claims: %t, votes: %t, may go: %t", claims, votes, p.core.standing.Disk.MayRetire())
			}
			p.mute = false
			r.check(p.core.Step(r.clock(forgetful), message.Registered{Result: register.Result{Tag: 1, State: *r.state()}}))
			if claims, votes := kept(); claims || votes {
				t.Errorf("before anybody has told what it has seen: it keeps claims: %t, votes: %t", claims, votes)
			}
			for _, o := range []int{i, (i + 2) % 3} {
				p.core.standing.Disk.Heard(r.peers[o].self, 0)
			}
			if claims, votes := kept(); !claims || !votes {
				t.Errorf("when all have told that they have seen nothing: it keeps claims: %t, votes: %t", claims, votes)
			}
		})
	}
}

// TestASuperblockIsEnoughToNotice: what a node keeps beside its store is proof that
// the store was set back, though nobody else knows of it any more. As much as it
// has is no proof.
func TestASuperblockIsEnoughToNotice(t *testing.T) {
	for _, c := range []struct {
		more    uint64 // than the disk has
		setBack bool
	}{{0, false}, {1, false}, {0, true}} {
		r := newTrio(t)
		r.put(0, 1)
		r.live(2*time.Second, 250*time.Millisecond, nothing)
		own := MarkOf(r.peers[1].core)
		r.kill(1)
		r.beside = func(cfg *Config) { cfg.Mark, cfg.SetBack = own+c.more, c.setBack }
		r.open(1)
		r.live(5*time.Second, 50*time.Millisecond, nothing)
		if p, lost := r.peers[1], c.more > 0 || c.setBack; own == 0 || (p.forgot != nil) != lost {
			t.Errorf("of mark %d it lacks %d, set back %t: it ended with %v", own, c.more, c.setBack, p.forgot)
		}
	}
}

// TestAForgetfulNodeThatCannotBeSparedStays: it neither votes nor leads, but what
// it has may be all there is.
func TestAForgetfulNodeThatCannotBeSparedStays(t *testing.T) {
	r := newTrio(t)
	old := r.backup(0)
	r.put(1, 1)
	r.live(2*standing.SeenAfter, time.Second, nothing) // both others have it on disk
	r.kill(2)
	r.setBack(0, old)
	r.live(10*time.Second, 100*time.Millisecond, nothing)
	if p := r.peers[0]; p.forgot != nil || p.core.standing.Disk.Lost == 0 || p.core.Leading() != 0 {
		t.Fatalf("ended %v, knows %d, leads %d", p.forgot, p.core.standing.Disk.Lost, p.core.Leading())
	}
	if err := Forgotten(r.peers[0].core); !errors.Is(err, standing.ErrForgot) || Forgotten(r.peers[1].core) != nil {
		t.Fatalf("it says %v, another one %v", err, Forgotten(r.peers[1].core))
	}
	cell := r.state().Cells[1]
	b := message.Ballot{Partition: 1, Epoch: cell.Epoch + 90, Nonce: 9, Old: cell.Epoch, From: cell.Cohort, To: cell.Cohort, Transfer: true}
	if v := (leadership.Voter{Machine: r.peers[0].core.elector}).Vote(r.now, r.peers[1].self, &b); v.Granted {
		t.Fatal("it votes")
	}
	r.open(2) // now there are enough without it
	r.tell()
	r.live(10*time.Second, 100*time.Millisecond, nothing)
	if r.peers[0].forgot == nil {
		t.Fatal("it stays though the others can go on without it")
	}
}

// TestWhoHasForgottenKnowsItAfterARestart: while the others cannot spare it, its disk
// goes on, and gets further than what they have seen of it. Then nothing that they
// know tells that something before that is missing.
func TestWhoHasForgottenKnowsItAfterARestart(t *testing.T) {
	for _, beside := range []bool{false, true} { // who knows: another node, or its superblock
		r := newTrio(t)
		old := r.backup(0)
		r.put(1, 1)
		r.live(2*standing.SeenAfter, time.Second, nothing) // both others have it on disk
		seen := MarkOf(r.peers[0].core)
		r.kill(2)
		if beside {
			r.beside = func(cfg *Config) { cfg.Mark = seen }
		}
		r.setBack(0, old)
		r.beside = nil
		r.live(2*time.Second, 100*time.Millisecond, nothing)
		for MarkOf(r.peers[0].core) <= seen+9 {
			one := &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}
			r.enqueue(0, r.at(1), one)
			r.live(100*time.Millisecond, 100*time.Millisecond, nothing)
		}
		r.kill(0)
		r.open(0)
		r.live(10*time.Second, 100*time.Millisecond, nothing)
		if p := r.peers[0]; p.forgot != nil || p.core.standing.Disk.Lost == 0 || p.core.Leading() != 0 {
			t.Fatalf("ended %v, knows %d, leads %d", p.forgot, p.core.standing.Disk.Lost, p.core.Leading())
		}
		r.open(2)
		r.tell()
		r.live(10*time.Second, 100*time.Millisecond, nothing)
		if r.peers[0].forgot == nil {
			t.Fatal("it stays though the others can go on without it")
		}
		cfg := r.peers[1].core.cfg // another life of the same disk has forgotten nothing
		cfg.Self.Node = r.peers[0].self.Node
		cfg.Rand = rand.New(rand.NewPCG(1, 1))
		if c, err := Open(cfg, r.backup(0), r.now); err != nil || c.standing.Disk.Lost != 0 {
			t.Fatalf("it goes on as another incarnation: %v, lost %d", err, c.standing.Disk.Lost)
		}
	}
}

// TestWhoHasForgottenStaysForTheRegister: the only one that votes in it, or one of a
// majority that would not be there without it. The register would stand still for good.
func TestWhoHasForgottenStaysForTheRegister(t *testing.T) {
	r := newTrio(t)
	old := r.backup(0)
	r.put(1, 1)
	r.live(2*time.Second, 250*time.Millisecond, nothing)
	r.peers[0].deaf = true // to who votes
	r.setBack(0, old)
	c, all := r.peers[0].core, []register.Member{r.peers[0].self, r.peers[1].self, r.peers[2].self}
	away := register.Member{Node: "n9"}
	for i, sight := range []message.Changed{
		{}, // nobody has said who votes
		{Voters: all[:1]},
		{Voters: all[:2]},
		{Voters: []register.Member{all[0], all[1], away}},
		{Voters: all[1:], Outgoing: all[:2]},
		{Voters: all[1:2], Outgoing: append([]register.Member{away}, all...)[:3]},
	} {
		sight.State = *r.state()
		r.check(c.Step(r.now, sight))
		r.live(2*time.Second, 100*time.Millisecond, nothing)
		if p := r.peers[0]; p.forgot != nil || c.standing.Disk.Lost == 0 {
			t.Fatalf("%d: ended %v, knows %d", i, p.forgot, c.standing.Disk.Lost)
		}
	}
	r.check(c.Step(r.now, message.Changed{State: *r.state(), Voters: all[1:], Outgoing: all}))
	r.live(2*time.Second, 100*time.Millisecond, nothing)
	if r.peers[0].forgot == nil {
		t.Fatal("it stays though the others can go on without it")
	}
}

// TestANodeVotesWhenAMajorityHasTold: not before, because it cannot know.
func TestANodeVotesWhenAMajorityHasTold(t *testing.T) {
	r := newTrio(t)
	r.kill(0)
	r.open(0)
	cell, c := r.state().Cells[1], r.peers[0].core
	r.check(c.Step(r.now, message.Changed{State: *r.state()}))
	b := &message.Ballot{Partition: 1, Epoch: cell.Epoch + 9, Nonce: 9, Old: cell.Epoch, From: cell.Cohort, To: cell.Cohort, Transfer: true}
	if (leadership.Voter{Machine: c.elector}).Vote(r.now, r.peers[1].self, b).Granted {
		t.Fatal("it votes though nobody has told what it knows of this node")
	}
	c.standing.Disk.Heard(r.peers[2].self, c.standing.Disk.Durable)
	if !(leadership.Voter{Machine: c.elector}).Vote(r.now, r.peers[1].self, b).Granted {
		t.Fatal("it does not vote")
	}
}

// TestMarksNeverGoBack: what leaves names a round that is on disk with it, and a
// restart goes on from there.
func TestMarksNeverGoBack(t *testing.T) {
	r := newTrio(t)
	highest := map[int]uint64{}
	check := func(l letter) bool {
		if at := message.DurabilityIn(l.message); at != nil && *at != 0 {
			if *at < highest[l.from] {
				t.Fatalf("mark %d of node %d after %d", *at, l.from+1, highest[l.from])
			}
			highest[l.from] = *at
			own, _, err := standing.ReadMarks(r.peers[l.from].store.Crash(0))
			if err != nil || own < *at {
				t.Fatalf("node %d says %d, and its disk %d, %v", l.from+1, *at, own, err)
			}
		}
		return false
	}
	for n := range 30 {
		r.enqueue(n%3, r.at(ring.Partition(n%testPartitions)), nil)
		r.live(500*time.Millisecond, 250*time.Millisecond, check)
		if n%7 == 6 {
			i := n % 3
			r.kill(i)
			r.open(i)
			if own := r.peers[i].core.standing.Disk.Durable; own < highest[i] {
				t.Fatalf("node %d begins at %d after %d", i+1, own, highest[i])
			}
		}
	}
	if len(highest) != 3 || highest[0] < 5 {
		t.Fatalf("marks: %v", highest)
	}
}

// TestMarksOfALifeBeforeAreNoProofOfForgetting: a node that was set back comes back
// as another incarnation, and knows from its life before how far the disks of the
// others are.
func TestMarksOfALifeBeforeAreNoProofOfForgetting(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	r.live(2*time.Second, 250*time.Millisecond, nothing)
	m := r.peers[1].core.standing.Disk
	if m.Durable <= m.Base || !m.ConfirmedBy[r.peers[2].self] {
		t.Fatalf("nothing was written: %d, began with %d", m.Durable, m.Base)
	}
	m.Heard(register.Member{Node: r.peers[2].self.Node, Incarnation: register.Incarnation{77}}, m.Durable)
	if m.Lost != 0 {
		t.Fatalf("it takes itself for forgetful: it began with %d, is at %d, and %s knows %d", m.Base, m.Durable, m.By.Node, m.Lost)
	}
	m.Heard(register.Member{Node: "stranger", Incarnation: register.Incarnation{78}}, m.Durable)
	if m.Lost == 0 {
		t.Fatal("a mark that nobody can know of this process is not noticed")
	}
}

// TestANewcomerHearsWhatMembersKnowOfIt: it may be the one to lead a partition whose
// members it shares no other one with, and stands only when they have told it.
func TestANewcomerHearsWhatMembersKnowOfIt(t *testing.T) {
	r := newGrowing(t)
	var tasks []*nornv1.TaskSpec
	for range 20 * testPartitions {
		tasks = append(tasks, spec("q"))
	}
	ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: tasks})
	for range 2 {
		r.join()
		r.run(len(r.peers))
	}
	i := r.join()
	for range 4 {
		r.tell()
		r.live(time.Second, 250*time.Millisecond, func(l letter) bool {
			_, copying := l.message.(*message.Repair)
			return copying
		})
	}
	c := r.peers[i].core
	if len(c.transfer.Incoming) == 0 {
		t.Fatal("it is to copy nothing")
	}
	for p := range c.transfer.Incoming {
		if slices.Contains(c.view.Cells[p].Cohort, c.cfg.Self) {
			t.Fatalf("it is a member of partition %d without having copied it", p)
		}
		if !c.standing.Disk.Trusts(p) {
			t.Errorf("it may not stand for partition %d: %d of %d have told it what they know", p, c.standing.Disk.Telling(p), len(c.view.Cells[p].Cohort))
		}
	}
}

// TestDamagedMarksStopTheNode: they are not taken for none.
func TestDamagedMarksStopTheNode(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	r.live(2*standing.SeenAfter, time.Second, nothing)
	r.kill(2)
	r.tell()
	r.peers[0].core.standing.Disk.HeardOf[r.peers[1].self] = 1 << 20 // it has forgotten, and cannot be spared
	r.live(2*time.Second, 100*time.Millisecond, nothing)
	cfg := r.peers[1].core.cfg
	cfg.Rand = rand.New(rand.NewPCG(1, 1))
	for _, key := range [][]byte{standing.OwnMarkKey, standing.SeenMarksKey, standing.LostMarkKey} {
		disk := r.backup(1)
		b, ok := disk.Get(key)
		if !ok {
			t.Fatalf("no %s", key)
		}
		b = append([]byte(nil), b...)
		b[len(b)-1] ^= 1
		var w store.Batch
		w.Set(key, b)
		disk.Commit(&w)()
		if _, err := Open(cfg, disk, r.now); !errors.Is(err, vnode.ErrDamaged) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestMarksOfOthersAreBounded: names that come and go do not fill the memory.
func TestMarksOfOthersAreBounded(t *testing.T) {
	r := newTrio(t)
	m := r.peers[0].core.standing.Disk
	clear(m.HeardOf) // the members are new
	for n := range 2 * standing.MaxMarks {
		m.Saw(r.now, register.Member{Node: "x", Incarnation: register.Incarnation{byte(n), byte(n >> 8), 9}}, 5)
	}
	member := r.peers[1].self
	m.Saw(r.now, member, 7)
	if len(m.HeardOf) != standing.MaxMarks || m.HeardOf[member] != 7 {
		t.Fatalf("%d marks are kept, that of a member is %d", len(m.HeardOf), m.HeardOf[member])
	}
}

// TestACandidateThatHasForgottenDoesNotLead: a node that had begun to stand before
// somebody told it that its disk was set back went on, won, and handed out claims
// without knowing what it had forgotten.
func TestACandidateThatHasForgottenDoesNotLead(t *testing.T) {
	for _, writes := range []bool{false, true} { // whether its compare-and-set has left
		r := newTrio(t)
		r.put(0, 1)
		r.live(2*time.Second, 250*time.Millisecond, nothing)
		old := r.leader(1)
		heir, third := (old+1)%3, (old+2)%3
		r.kill(third) // so that the other one cannot do without the heir
		r.tell()
		r.settle()
		cell, c := r.state().Cells[1], r.peers[heir].core
		r.say(old, heir, &message.Elect{Stand: []message.Stand{{Partition: 1, Epoch: cell.Epoch, Nonce: cell.Nonce, To: cell.Cohort}}})
		r.settleBut(func(l letter) bool {
			m, is := l.message.(*message.PushesTaken)
			if !is || l.to != heir {
				return false
			}
			if writes {
				c.elector.Runs.Pushed(r.now, r.peers[l.from].self, m.Votes[0])
				c.elector.Runs.Ready(r.now) // what is to be written is on its way
			}
			c.standing.Disk.Heard(r.peers[third].self, c.standing.Disk.Durable+100)
			if writes {
				epoch, _ := c.elector.Runs.Running(1)
				won := cell
				won.Epoch, won.Leader = epoch, r.peers[heir].self
				c.view.Set(1, won)
				c.elector.Lead(r.now, &election.Victory[register.Member]{Partition: 1, Cell: leadership.CellOf(&won)})
			}
			return writes
		})
		if c.standing.Disk.Lost == 0 || c.vnodes.See(1).Leading() != 0 {
			t.Errorf("compare-and-set on its way %t: it has lost %d, and leads epoch %d", writes, c.standing.Disk.Lost, c.vnodes.See(1).Leading())
		}
	}
}

// TestAForgetfulLeaderHasOthersLead: it stays, because others cannot do without it
// elsewhere. Those who are a majority without it take over what it leads.
func TestAForgetfulLeaderHasOthersLead(t *testing.T) {
	r := newCluster(t, 4, 0) // of partition 0 the fourth keeps nothing
	r.live(2*time.Second, 250*time.Millisecond, nothing)
	if old := r.leader(0); old != 0 {
		r.depose(0, old, 0)
	}
	r.kill(3)
	r.live(time.Second, 250*time.Millisecond, nothing)
	c := r.peers[0].core
	if r.leader(0) != 0 || c.standing.Disk.Lost != 0 {
		t.Fatalf("node %d leads, lost %d", r.leader(0)+1, c.standing.Disk.Lost)
	}
	r.peers[1].core.standing.Disk.HeardOf[c.cfg.Self] = c.standing.Disk.Durable + 100
	r.live(5*time.Second, 250*time.Millisecond, nothing)
	if r.peers[0].forgot != nil || c.Leading() != 0 {
		t.Fatalf("it ended with %v, and leads %d", r.peers[0].forgot, c.Leading())
	}
	if r.leader(0) == 0 {
		t.Fatal("nobody else leads")
	}
}

// TestTheCopyOfAForgetfulNodeDoesNotCount: it has forgotten for which cohorts it has
// voted, and a completion that its copy made up a majority of could be unknown to all
// of the cohort that comes after. It is stored all the same.
func TestTheCopyOfAForgetfulNodeDoesNotCount(t *testing.T) {
	r := newTrio(t)
	tasks := []id.ID{r.put(0, 1), r.put(0, 1)}
	r.live(2*time.Second, 100*time.Millisecond, nothing)
	r.kill(2)
	r.tell()
	r.settle()
	c := r.peers[1].core
	r.check(c.Step(r.now, message.Forgot{Why: "as its register's group has found"}))
	for i, task := range tasks { // through the other one, and through itself
		from := r.send(i, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: 1<<32 + 1}}})
		r.live(2*replication.WriteTimeout, 250*time.Millisecond, nothing)
		reply := r.peers[i].replies[from]
		if reply.Err != nil || reply.Message == nil {
			t.Fatalf("node %d: %v", i+1, reply)
		}
		res := reply.Message.(*nornv1.WriteReply).Results[0]
		if res.Error == nil || res.Error.Effect != nornv1.Effect_EFFECT_UNKNOWN || r.ended3(task) != 2 {
			t.Errorf("node %d answers %v, on %d disks", i+1, res, r.ended3(task))
		}
	}
	one := &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}
	from := r.enqueue(1, r.at(1), one)
	r.settle()
	if res := r.result(1, from); res.GetReceipt() == nil {
		t.Errorf("one copy is no matter of cohorts: %v", res)
	}
}

// TestAnAnswerToTheProcessBeforeSaysNothing: it was on its way while this node's disk
// went on, so that whoever gave it seemed to have told what it knows.
func TestAnAnswerToTheProcessBeforeSaysNothing(t *testing.T) {
	r := newTrio(t)
	i := r.leader(1)
	forgetful, late := (i+1)%3, (*message.Beaten)(nil)
	r.live(2*time.Second, 250*time.Millisecond, func(l letter) bool {
		if m, is := l.message.(*message.Beaten); is && l.to == forgetful && l.from == i {
			late = m
		}
		return false
	})
	old := r.backup(forgetful)
	r.put(0, 1)
	r.live(3*time.Second, 250*time.Millisecond, nothing)
	r.post = nil
	r.setBack(forgetful, old)
	c := r.peers[forgetful].core
	r.say(i, forgetful, late)
	if c.standing.Disk.ConfirmedBy[r.peers[i].self] {
		t.Fatal("it counts")
	}
	r.live(3*time.Second, 250*time.Millisecond, nothing)
	if r.peers[forgetful].forgot == nil {
		t.Fatal("that the disk was set back was not noticed")
	}
}

// TestALeadersOwnCopyIsKnownToThoseItWroteTo: within a tenth of a second they know how far the disk
// is whose copy counts with theirs, so that one that is set back by that much is found out (K4);
// and within a second, or two, all know who share a cohort with it.
func TestALeadersOwnCopyIsKnownToThoseItWroteTo(t *testing.T) {
	r := newCluster(t, 5, time.Minute)
	r.live(5*time.Second, 250*time.Millisecond, nothing)
	i := r.leader(1)
	r.put(i, 1)
	own := r.peers[i].core.standing.Disk.Durable
	r.live(150*time.Millisecond, 50*time.Millisecond, nothing)
	for _, m := range r.state().Cells[1].Cohort {
		for j, o := range r.peers {
			if seen := o.core.standing.Disk.HeardOf[r.peers[i].self]; o.self == m && j != i && seen < own {
				t.Errorf("node %d has seen mark %d of the leader, whose copy is of %d", j+1, seen, own)
			}
		}
	}
	r.live(2*time.Second, 250*time.Millisecond, nothing)
	for j, o := range r.peers {
		if seen := o.core.standing.Disk.HeardOf[r.peers[i].self]; j != i && slices.Contains(r.peers[i].core.standing.Company(), o.self) && seen < own {
			t.Errorf("node %d has seen mark %d of the leader after two seconds, which is at %d", j+1, seen, own)
		}
	}
}

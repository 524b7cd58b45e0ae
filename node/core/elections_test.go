package core

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"
)

// at gives the ID of a task of a partition.
func (r *trio) at(p ring.Partition) id.ID {
	for {
		if task := r.ids.Next(r.now.Wall); ring.Of(task, testPartitions) == p {
			return task
		}
	}
}

// put enqueues a task of a partition through a node.
func (r *trio) put(i int, p ring.Partition) id.ID {
	r.t.Helper()
	task := r.at(p)
	from := r.enqueue(i, task, nil)
	r.settle()
	if res := r.result(i, from); res.GetReceipt() == nil {
		r.t.Fatalf("not enqueued: %v", res)
	}
	return task
}

// leader is the node that leads a partition.
func (r *trio) leader(p ring.Partition) int {
	r.t.Helper()
	cell := r.state().Cells[p]
	i := slices.IndexFunc(r.peers, func(o *peer) bool {
		return !o.down && o.self == cell.Leader && o.core.vnodes.See(p).Leading() == cell.Epoch
	})
	if i < 0 {
		r.t.Fatalf("nobody leads partition %d", p)
	}
	return i
}

// settleBut delivers everything but what gets lost.
func (r *trio) settleBut(lost func(letter) bool) {
	for len(r.post) > 0 {
		if lost(r.post[0]) {
			r.post = r.post[1:]
		} else {
			r.deliver(0)
		}
	}
}

// live lets time pass in steps, with everything delivered but what gets lost.
func (r *trio) live(d, step time.Duration, lost func(letter) bool) {
	for end := r.now.Add(d).Mono; r.now.Mono < end; {
		r.pass(step)
		r.settleBut(lost)
		r.tell()
		r.settleBut(lost)
	}
}

func nothing(letter) bool { return false }

// say hands a node a message as if another had sent it.
func (r *trio) say(from, to int, m message.PeerMessage) {
	r.t.Helper()
	r.check(r.peers[to].core.Step(r.now, &message.FromPeer{From: r.peers[from].self, Message: m}))
	r.turn(to)
}

func claimUpTo(n uint32) *nornv1.ClaimRequest {
	return &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: n, Worker: "w", LeaseSeconds: leaseTime.Seconds()}
}

func refOf(task id.ID, token uint64) []*nornv1.ClaimRef {
	return []*nornv1.ClaimRef{{Id: task.Bytes(), Token: token}}
}

// TestClaimsSurviveTheDeathOfTheirLeader: whoever leads after it knows them,
// also one whom they had not reached. A task is not handed out again before its
// lease and the buffer are over, the worker goes on through the new leader, and
// tokens rise.
func TestClaimsSurviveTheDeathOfTheirLeader(t *testing.T) {
	for lacking := 1; lacking <= 2; lacking++ {
		r := newTrio(t)
		dead := r.leader(1)
		without, other := (dead+lacking)%3, (dead+3-lacking)%3
		first, until := map[string]uint64{}, map[string]int64{}
		for p := range ring.Partition(testPartitions) {
			r.put(0, p)
		}
		from := r.send(dead, claimUpTo(10))
		r.settleBut(func(l letter) bool { _, ok := l.message.(*message.Claims); return ok && l.to == without })
		grants, _ := r.granted(dead, from)
		for _, g := range grants {
			first[g.Task.Id], until[g.Task.Id] = g.Token, r.now.Mono+int64(leaseTime+eta)
		}
		if len(first) != testPartitions || r.holders(parse(t, grants[0].Task.Id), grants[0].Token) != 2 {
			t.Fatalf("%d tasks were granted of %d", len(first), testPartitions)
		}
		r.kill(dead)
		r.elect()
		r.live(10*time.Second, time.Second, nothing)
		for _, g := range grants[:2] {
			until[g.Task.Id] = r.now.Mono + int64(leaseTime+eta)
			res := ask[*nornv1.RenewReply](r, other, &nornv1.RenewRequest{Claims: refOf(parse(t, g.Task.Id), g.Token), LeaseSeconds: leaseTime.Seconds()}).Results[0]
			if res.Error != nil {
				t.Fatalf("the worker lost its claim with the leader: %v", res.Error)
			}
		}
		r.handedOutAgain(without, first, until)
	}
}

// handedOutAgain claims through a node until all tasks were granted again, none
// of them before its time, and each with a higher token.
func (r *trio) handedOutAgain(through int, first map[string]uint64, until map[string]int64) {
	r.t.Helper()
	again := map[string]bool{}
	for range 120 {
		for _, g := range ask[*nornv1.ClaimReply](r, through, claimUpTo(10)).Grants {
			if r.now.Mono < until[g.Task.Id] {
				r.t.Errorf("%s was handed out again %v too early", g.Task.Id, time.Duration(until[g.Task.Id]-r.now.Mono))
			}
			if g.Token <= first[g.Task.Id] {
				r.t.Errorf("token %d after %d", g.Token, first[g.Task.Id])
			}
			again[g.Task.Id] = true
		}
		if len(again) == len(first) {
			r.audit()
			return
		}
		r.live(time.Second, time.Second, nothing)
	}
	r.t.Fatalf("only %v were handed out again", again)
}

// TestAMinorityLeaderStepsDown: it grants nothing that anybody hears of, and what
// the others have granted since stays theirs.
func TestAMinorityLeaderStepsDown(t *testing.T) {
	r := newTrio(t)
	task, old := r.put(0, 1), r.leader(1)
	others := []int{(old + 1) % 3, (old + 2) % 3}
	for _, o := range others {
		r.cut[[2]int{old, o}], r.cut[[2]int{o, old}] = true, true
	}
	r.peers[old].deaf = true
	wait := claimUpTo(1)
	wait.WaitSeconds = 30
	from := r.send(old, wait)
	r.live(leadership.Lonely+time.Second, 100*time.Millisecond, nothing)
	if n := r.peers[old].core.Leading(); n != 0 {
		t.Fatalf("it still leads %d partitions", n)
	}
	r.elect()
	grants := ask[*nornv1.ClaimReply](r, others[0], claimUpTo(1)).Grants
	if len(grants) != 1 || parse(t, grants[0].Task.Id) != task {
		t.Fatalf("the majority grants %v", grants)
	}
	clear(r.cut)
	r.peers[old].deaf = false
	epochs := r.epochs()
	r.live(20*time.Second, 500*time.Millisecond, nothing)
	if now := r.epochs(); !slices.Equal(now, epochs) {
		t.Errorf("epochs went from %v to %v because a node was cut off", epochs, now)
	}
	if reply := r.peers[old].replies[from]; reply.Message != nil && len(reply.Message.(*nornv1.ClaimReply).Grants) != 0 {
		t.Fatalf("both sides granted the task: %v", reply.Message)
	}
	r.audit()
}

// TestAWrongHintDisturbsNoLeader: the simulator of clusters, seed 13. A follower
// that takes the leader for dead for a moment loses its pre-vote, and nothing
// comes of that: no new epoch, and no answer is late.
func TestAWrongHintDisturbsNoLeader(t *testing.T) {
	r := newTrio(t)
	epochs := r.epochs()
	for range 20 {
		for i, p := range r.peers {
			r.check(p.core.Step(r.now, message.Alive{Members: []register.Member{r.peers[(i+2)%3].self}}))
			r.turn(i)
			r.settle()
			r.tell() // and knows better
			r.live(500*time.Millisecond, 100*time.Millisecond, nothing)
		}
	}
	if now := r.epochs(); !slices.Equal(now, epochs) {
		t.Errorf("epochs went from %v to %v, and nothing was wrong", epochs, now)
	}
	r.audit()
}

// TestALeaderThatIsRefusedIsElectedAnew: a majority has promised more to somebody
// who is gone; it steps down, and leads again above that.
func TestALeaderThatIsRefusedIsElectedAnew(t *testing.T) {
	r := newTrio(t)
	task, i := r.put(0, 1), r.leader(1)
	cell := r.state().Cells[1]
	b := message.Ballot{Partition: 1, Epoch: 50, Nonce: 9, Old: cell.Epoch, From: cell.Cohort, To: cell.Cohort, Transfer: true}
	for _, j := range []int{(i + 1) % 3, (i + 2) % 3} {
		r.say((i+1)%3, j, &message.Ballots{Ballots: []message.Ballot{b}})
	}
	r.post = nil
	m := claimUpTo(1)
	m.WaitSeconds = 60
	from := r.send(i, m)
	for n := 0; len(r.post) > 0 && n < 200; n++ {
		r.deliver(0)
	}
	if n := r.peers[i].core.vnodes.See(1).Leading(); n == cell.Epoch {
		t.Fatalf("it leads in epoch %d, though all the others have promised 50", n)
	}
	r.live(2*time.Second, 50*time.Millisecond, nothing) // it frees what its old epoch has granted: nobody has heard of it
	grants, _ := r.granted(i, from)
	if len(grants) != 1 || parse(t, grants[0].Task.Id) != task || grants[0].Token>>32 <= 50 {
		t.Fatalf("granted: %v", grants)
	}
	r.leader(1)
	r.audit()
}

// TestALeaderThatHasVotedForALoserStandsAgain: while its own candidacy was being written
// to the register, it has promised a later epoch to another candidate from the same cell.
// That one has lost by then; it was given sixteen seconds to win, in which nobody led.
func TestALeaderThatHasVotedForALoserStandsAgain(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	i := r.leader(1)
	old, other := r.state().Cells[1], (i+1)%3
	b := message.Ballot{Partition: 1, Epoch: old.Epoch + 5, Nonce: 9, Old: old.Epoch, From: old.Cohort, To: old.Cohort, Transfer: true}
	r.say(other, i, &message.Ballots{Ballots: []message.Ballot{b}})
	r.settle()
	won := old
	won.Epoch, won.Nonce = old.Epoch+1, 7
	r.register.Do(register.Request{Changes: []register.Change{{Partition: 1, Old: old, New: won}}}, func(res register.Result) {
		if !res.State.Cells[1].Same(&won) {
			t.Fatal("the cell is not changed")
		}
	})
	r.tell()
	r.settle()
	if l := r.peers[i].core.vnodes.See(1).Leading(); l == old.Epoch || l == won.Epoch {
		t.Fatalf("it leads in epoch %d, below what it has promised", l)
	}
	r.live(time.Second, 50*time.Millisecond, nothing)
	if l := r.peers[i].core.vnodes.See(1).Leading(); l <= b.Epoch {
		t.Errorf("after a second it leads in epoch %d", l)
	}
}

func (r *trio) epochs() (all []uint64) {
	for _, cell := range r.state().Cells {
		all = append(all, cell.Epoch)
	}
	return all
}

// TestAPromiseSurvivesACrash: with the proposals that are open, and before the
// vote is sent.
func TestAPromiseSurvivesACrash(t *testing.T) {
	r := newCluster(t, 5, 0)
	cell, c := r.state().Cells[0], r.peers[1].core
	to := []register.Member{cell.Cohort[0], cell.Cohort[1], r.peers[4].self}
	b := message.Ballot{Partition: 0, Epoch: 40, Nonce: 9, Old: cell.Epoch, From: cell.Cohort, To: to, Transfer: true}
	r.check(c.Step(r.now, &message.FromPeer{From: r.peers[2].self, Message: &message.Ballots{Ballots: []message.Ballot{b}}}))
	ready, err := c.Ready(r.now)
	r.check(err)
	voted := func(all []message.Send) bool {
		return slices.ContainsFunc(all, func(s message.Send) bool { _, ok := s.Message.(*message.Votes); return ok })
	}
	if ready.Persist == nil || !voted(ready.Send) || voted(ready.Early) {
		t.Fatal("the vote does not wait for the disk")
	}
	r.peers[1].store.Apply(ready.Persist)
	r.peers[1].store.Sync()
	r.kill(1)
	r.open(1)
	for _, m := range cell.Cohort {
		r.peers[1].core.standing.Disk.Heard(m, 0) // nobody knows that it has forgotten anything
	}
	a := &r.peers[1].core.acceptors.All[0]
	if a.Promise != 40 || a.Nonce != 9 || len(a.Open) != 1 || a.Open[0].Old != cell.Epoch || a.Open[0].Epoch != 40 || !slices.Equal(a.Open[0].To, to) {
		t.Fatalf("after the crash: %+v", a)
	}
	for _, c := range []struct {
		epoch, nonce uint64
		granted      bool
	}{{39, 8, false}, {40, 8, false}, {40, 9, true}, {41, 8, true}} {
		r.post = nil
		b.Epoch, b.Nonce = c.epoch, c.nonce
		r.say(2, 1, &message.Ballots{Ballots: []message.Ballot{b}})
		votes := r.post[slices.IndexFunc(r.post, func(l letter) bool { _, ok := l.message.(*message.Votes); return ok })].message.(*message.Votes).Votes
		if len(votes) != 1 || votes[0].Granted != c.granted {
			t.Errorf("epoch %d of %d: %+v", c.epoch, c.nonce, votes)
		}
	}
}

// TestADamagedPromiseStopsTheNode: it is not taken for one that was never made.
func TestADamagedPromiseStopsTheNode(t *testing.T) {
	r := newTrio(t)
	cfg := r.peers[1].core.cfg
	good := vnode.Ballot(r.peers[1].store, 2)
	if len(good) == 0 {
		t.Fatal("nothing was promised")
	}
	open := func(b []byte) error {
		tx := store.NewOverlay(r.peers[1].store)
		vnode.SetBallot(tx, 2, b)
		r.peers[1].store.Apply(tx.Take())
		r.peers[1].store.Sync()
		r.peers[1].store = r.peers[1].store.Crash(0)
		cfg.Rand = rand.New(rand.NewPCG(1, 1))
		_, err := Open(cfg, r.peers[1].store, r.now)
		return err
	}
	for name, b := range map[string][]byte{ // Any order: each for itself.
		"empty": {}, "cut off": good[:len(good)-1], "longer": append(slices.Clone(good), 0),
		"another version": append([]byte{good[0] + 1}, good[1:]...),
	} {
		if err := open(b); !errors.Is(err, vnode.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := open(good); err != nil {
		t.Fatalf("undamaged: %v", err)
	}
}

// TestALeaderThatStopsHandsOver: another one leads before any time has passed.
func TestALeaderThatStopsHandsOver(t *testing.T) {
	r := newTrio(t)
	r.put(0, 0)
	grant := ask[*nornv1.ClaimReply](r, 1, claimUpTo(1)).Grants[0]
	old, now := r.leader(0), r.now
	r.check(r.peers[old].core.Step(r.now, message.Drain{}))
	r.turn(old)
	for range 3 {
		r.settle()
		r.tell()
	}
	r.settle()
	heirs := map[int]bool{}
	for p := range ring.Partition(testPartitions) {
		i := r.leader(p)
		heirs[i] = true
		if i == old {
			t.Errorf("partition %d is led as before", p)
		}
	}
	if r.now != now || r.peers[old].core.Leading() != 0 {
		t.Fatalf("it leads %d partitions after %v", r.peers[old].core.Leading(), time.Duration(r.now.Mono-now.Mono))
	}
	if len(heirs) != 2 {
		t.Errorf("all partitions went to one node")
	}
	task := parse(t, grant.Task.Id)
	if res := ask[*nornv1.RenewReply](r, (old+1)%3, &nornv1.RenewRequest{Claims: refOf(task, grant.Token)}).Results[0]; res.Error != nil {
		t.Fatalf("the claim is lost: %v", res.Error)
	}
}

// TestManyPartitionsAreElectedAtOnce: with one message per member and phase.
func TestManyPartitionsAreElectedAtOnce(t *testing.T) {
	const wide = 1024
	r := newWide(t, wide)
	ballots, pushes := map[[2]int][]int{}, map[[2]int]int{}
	led := func() int { return r.peers[0].core.Leading() }
	for range 100 {
		if led() == wide {
			break
		}
		r.pass(50 * time.Millisecond)
		r.tell()
		for len(r.post) > 0 {
			l := r.post[0]
			switch m := l.message.(type) {
			case *message.Ballots:
				ballots[[2]int{l.from, l.to}] = append(ballots[[2]int{l.from, l.to}], len(m.Ballots))
			case *message.Pushes:
				pushes[[2]int{l.from, l.to}]++
			}
			r.deliver(0)
		}
	}
	if led() != wide {
		t.Fatalf("%d partitions are led", led())
	}
	for _, to := range []int{1, 2} {
		way := [2]int{0, to}
		if !slices.Equal(ballots[way], []int{wide, wide}) || pushes[way] != 1 {
			t.Errorf("to node %d: ballots for %v partitions, %d pushes", to+1, ballots[way], pushes[way])
		}
	}
	if len(ballots) != 2 {
		t.Errorf("others stood too: %v", ballots)
	}
}

// newWide is a trio with more partitions, which nobody leads yet.
func newWide(t *testing.T, wide int) *trio {
	r := &trio{leads: -1, t: t, now: clock.Time{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: 1}, rand: rand.New(rand.NewPCG(1, 2)), cut: map[[2]int]bool{}}
	r.ids = id.NewGenerator(7, r.rand.Uint64)
	var all []register.Member
	for i := range 3 {
		m := register.Member{Node: fmt.Sprintf("n%d", i+1), Incarnation: register.Incarnation{byte(i + 1)}}
		all = append(all, m)
		r.peers = append(r.peers, &peer{self: m, store: memstore.New(), replies: map[message.Origin]message.Reply{}})
	}
	cells := memstore.New()
	r.check(register.Format(cells, register.Cluster{ID: register.UUID{9}, Partitions: wide, Replicas: 3}, all[0]))
	var err error
	r.register, err = register.OpenLocal(cells)
	r.check(err)
	var changes []register.Change
	for p, cell := range r.state().Cells {
		changes = append(changes, register.Change{Partition: ring.Partition(p), Old: cell, New: register.Cell{Epoch: 1, Cohort: all, Nonce: 1}})
	}
	r.register.Do(register.Request{Changes: changes}, func(res register.Result) { r.check(res.Err) })
	for i := range r.peers {
		r.open(i)
	}
	return r
}

// TestALoneNodeSaysThatItHandsOutNothing: of three, with the others dead. That
// there is nothing to do would be the wrong answer, also to who has waited; tasks
// are taken all the same, and handed out when another one is back.
func TestALoneNodeSaysThatItHandsOutNothing(t *testing.T) {
	r := newTrio(t)
	i := r.leader(1)
	r.kill((i + 1) % 3)
	r.kill((i + 2) % 3)
	patient := claimUpTo(1)
	patient.WaitSeconds = 8
	waits := r.send(i, patient) // while it leads, as far as it knows
	r.live(leadership.Lonely+time.Second, 100*time.Millisecond, nothing)
	refused := func(from message.Origin) {
		t.Helper()
		reply, ok := r.peers[i].replies[from]
		if !ok || reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || reply.Err.Guarantee != "exclusive claims" || reply.Err.RetryAfter <= 0 {
			t.Fatalf("a claim is answered (%v): %+v", ok, reply)
		}
	}
	refused(r.send(i, claimUpTo(1)))
	long := claimUpTo(1)
	long.WaitSeconds = 30
	refused(r.send(i, long))
	r.live(8*time.Second, 200*time.Millisecond, nothing)
	refused(waits)
	task := r.at(1)
	from := r.enqueue(i, task, &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE})
	r.live(time.Second, 100*time.Millisecond, nothing)
	if res := r.result(i, from); res.GetReceipt() == nil {
		t.Fatalf("a task is not taken: %v", res)
	}
	r.open((i + 1) % 3)
	r.elect()
	if grants := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants; len(grants) != 1 || parse(t, grants[0].Task.Id) != task {
		t.Fatalf("two of three grant %v", grants)
	}
}

// TestALeaderWhoseDiskStallsLeadsNothing: and stands for nothing, until it answers.
func TestALeaderWhoseDiskStallsLeadsNothing(t *testing.T) {
	r := newTrio(t)
	r.check(r.peers[0].core.Step(r.now, message.DiskStalled{Is: true}))
	r.turn(0)
	if n := r.peers[0].core.Leading(); n != 0 {
		t.Fatalf("it leads %d partitions", n)
	}
	r.cut[[2]int{0, 1}], r.cut[[2]int{0, 2}], r.cut[[2]int{1, 0}], r.cut[[2]int{2, 0}] = true, true, true, true
	r.elect()
	if n := r.peers[0].core.Leading(); n != 0 {
		t.Fatalf("it was elected for %d partitions", n)
	}
	clear(r.cut)
	r.check(r.peers[0].core.Step(r.now, message.DiskStalled{}))
	r.kill(1)
	r.elect()
	if r.peers[0].core.Leading() == 0 {
		t.Fatal("it never leads again")
	}
}

// TestALostRequestToLeadIsRepeated: a node that is about to stop asks again, and
// another one if the first does not answer.
func TestALostRequestToLeadIsRepeated(t *testing.T) {
	r := newTrio(t)
	r.put(0, 0)
	old := r.leader(0)
	lost, deaf := 0, (old+1)%3
	r.check(r.peers[old].core.Step(r.now, message.Drain{}))
	r.turn(old)
	r.live(2*time.Second, 50*time.Millisecond, func(l letter) bool {
		if _, is := l.message.(*message.Elect); is && l.from == old && (lost < 2 || l.to == deaf) {
			lost++
			return true
		}
		return false
	})
	if n := r.peers[old].core.Leading(); n != 0 || lost < 2 {
		t.Fatalf("it leads %d partitions after %d lost requests", n, lost)
	}
	for p := range ring.Partition(testPartitions) {
		r.leader(p)
	}
}

// TestALeaderDoesNotJudgeClaimsOfLaterEpochs: it was deposed and has not heard of it,
// and said of a claim that its successor had granted that it was lost.
func TestALeaderDoesNotJudgeClaimsOfLaterEpochs(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	r.settle()
	old := r.leader(1)
	epoch := r.state().Cells[1].Epoch
	ref := refOf(task, (epoch+1)<<32|1)
	for what, results := range map[string]func() *nornv1.Error{
		"renewal": func() *nornv1.Error {
			return ask[*nornv1.RenewReply](r, old, &nornv1.RenewRequest{Claims: ref}).Results[0].Error
		},
		"release": func() *nornv1.Error {
			return ask[*nornv1.WriteReply](r, old, &nornv1.ReleaseRequest{Claims: ref}).Results[0].Error
		},
		"failure": func() *nornv1.Error {
			f := []*nornv1.Failure{{Id: ref[0].Id, Token: ref[0].Token}}
			return ask[*nornv1.WriteReply](r, old, &nornv1.FailRequest{Failures: f}).Results[0].Error
		},
	} {
		if e := results(); e.GetKind() != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || e.GetRetryAfterSeconds() <= 0 {
			t.Errorf("%s: %v", what, e)
		}
	}
	ref[0].Token = epoch<<32 | 99
	if e := ask[*nornv1.RenewReply](r, old, &nornv1.RenewRequest{Claims: ref}).Results[0].Error; e.GetKind() != nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST {
		t.Errorf("of its own epoch: %v", e)
	}
}

// TestWhatIsTooLateGoesNowhere: a request that came after its deadline was sent on to the node
// that it is for, which carried it out.
func TestWhatIsTooLateGoesNowhere(t *testing.T) {
	r := newCluster(t, 5, 0)
	r.elect()
	p := slices.IndexFunc(r.state().Cells, func(c register.Cell) bool {
		return !slices.Contains(c.Cohort, r.peers[0].self)
	})
	s := spec("q")
	s.Id = r.at(ring.Partition(p)).Bytes()
	r.next++
	late := &message.Request{From: message.Origin{Conn: 1, Request: r.next}, Body: &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}, Received: r.now.Mono, Deadline: r.now.Mono}
	r.check(r.peers[0].core.Step(r.now, late))
	r.turn(0)
	r.settle()
	reply, answered := r.peers[0].replies[late.From]
	if e := reply.Err; !answered || e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_DEADLINE_EXCEEDED || e.Effect != nornv1.Effect_EFFECT_NONE {
		t.Errorf("answered %v: %v", answered, reply)
	}
	if r.known(id.ID(s.Id)) {
		t.Error("it was carried out all the same")
	}
}

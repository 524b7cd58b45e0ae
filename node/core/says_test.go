package core

import (
	"errors"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

func victory(p ring.Partition, epoch uint64) *election.Victory[register.Member] {
	return &election.Victory[register.Member]{Partition: p, Cell: election.Cell[register.Member]{Epoch: epoch}}
}

// TestWhatWaitsToBeSaid: an answer about facts whose copies could not be counted at once. What is
// being deleted by then is no copy, and after a while nobody waits for it.
func TestWhatWaitsToBeSaid(t *testing.T) {
	r := newTrio(t)
	c := r.peers[0].core
	m := &message.Facts{Write: 9}
	for p := range ring.Partition(2) {
		m.Parts = append(m.Parts, message.PartFacts{Partition: p, Epoch: c.view.Cells[p].Epoch})
	}
	say := func(after time.Duration) []message.Send {
		c.round.Ready.Send = nil
		c.replication.Acks.Look = true
		c.replication.Acks.Work(r.now.Add(after))
		return c.round.Ready.Send
	}
	c.replication.Acks.Later(r.now, r.peers[1].self, m, nil)
	if all := say(replication.WriteTimeout + 1); len(all) != 0 || len(c.replication.Acks.List) != 0 {
		t.Errorf("too late it says %v, and %d wait", all, len(c.replication.Acks.List))
	}
	c.replication.Acks.Later(r.now, r.peers[1].self, m, nil)
	c.view.Dropping[1] = true
	all := say(0)
	if delete(c.view.Dropping, 1); len(all) != 1 || len(all[0].Message.(*message.FactsTaken).Refused) != 1 || all[0].Message.(*message.FactsTaken).Refused[0] != 1 {
		t.Errorf("while partition 1 is being deleted it says %+v", all)
	}
	c.round.Ready.Send = nil
}

// TestWhoseCopyCounts: not that of a node that has lost what it had acknowledged, though it keeps
// what it is sent, and no word on other cohorts by one that was removed.
func TestWhoseCopyCounts(t *testing.T) {
	r := newTrio(t)
	c := r.peers[0].core
	epoch := c.view.Cells[1].Epoch
	refused := func(facts ...crdt.Fact) bool {
		c.round.Ready.Send = nil
		c.arrivals.Take(r.now, r.peers[1].self, &message.Facts{Write: 9, Parts: []message.PartFacts{{Partition: 1, Epoch: epoch, Facts: facts}}})
		if len(c.round.Ready.Send) != 1 {
			t.Fatalf("it says %v", c.round.Ready.Send)
		}
		m, is := c.round.Ready.Send[0].Message.(*message.FactsTaken)
		return is && len(m.Refused) == 1
	}
	task := r.at(1)
	fact := crdt.Completed{Token: 1<<32 + 1, At: r.now.Wall}.Fact(task)
	if refused() || refused(fact) {
		t.Error("refused without a reason")
	}
	c.view.Dismissed = true
	if !refused() {
		t.Error("a node that was removed knows of no other cohort")
	}
	c.view.Dismissed = false
	c.standing.Disk.Lost, c.standing.Disk.By = 99, r.peers[1].self
	other := crdt.Completed{Token: 1<<32 + 2, At: r.now.Wall}.Fact(task)
	if !refused(other) {
		t.Error("a copy counts on a disk that has forgotten something")
	}
	if _, kept := vnode.FactOf(c.round.Tx, 1, task, other.Key); !kept {
		t.Error("it is not kept")
	}
	c.standing.Disk.Lost = 0
}

// TestWhoAnswersAReader: nobody who knows of a later cohort than it can name, and nobody who is
// deleting the partition; and nothing counts that is about another task.
func TestWhoAnswersAReader(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	c := r.peers[1].core
	answers := func() bool {
		r.post = nil
		c.round.Ready.Send = nil
		c.replication.Reads.Asked(r.peers[0].self, &message.Fetch{Number: 1, Epoch: c.view.Cells[1].Epoch, Task: task})
		n := len(c.round.Ready.Send)
		c.round.Ready.Send = nil
		return n > 0
	}
	if !answers() {
		t.Fatal("it does not answer")
	}
	seen := c.acceptors.All[1].Seen
	c.acceptors.All[1].Seen = c.view.Cells[1].Epoch + 1
	if answers() {
		t.Error("there is a later cohort, which it cannot name")
	}
	c.acceptors.All[1].Seen = seen
	c.acceptors.All[1].Open = []election.Proposal[register.Member]{{Epoch: 99, Old: c.view.Cells[1].Epoch, To: []register.Member{c.cfg.Self}}}
	if !answers() {
		t.Error("it is to be of the next cohort")
	}
	c.view.Dropping[1] = true
	if answers() {
		t.Error("it is deleting the partition")
	}
	delete(c.view.Dropping, 1)
	c.acceptors.All[1].Open = nil
	from := r.send(0, &nornv1.GetRequest{Id: task.Bytes(), Consistency: &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_QUORUM}})
	r.post = nil
	r.say(1, 0, &message.Fetched{Number: r.peers[0].core.replication.Reads.Number, Facts: []crdt.Fact{crdt.Completed{Token: 1<<32 + 1}.Fact(r.at(1))}})
	if reply, is := r.peers[0].replies[from]; is {
		t.Errorf("facts of another task are an answer: %v", reply)
	}
	r.say(1, 0, &message.Fetched{Number: r.peers[0].core.replication.Reads.Number})
	if _, is := r.peers[0].replies[from]; !is {
		t.Error("an answer is none")
	}
}

// TestAWritersOwnCopy counts only while it knows which cohort is the newest.
func TestAWritersOwnCopy(t *testing.T) {
	r := newTrio(t)
	c := r.peers[0].core
	c.acceptors.All[1].Seen = c.view.Cells[1].Epoch + 1
	from := r.enqueue(0, r.at(1), nil)
	r.settleBut(r.between(0, 1))
	if res := r.result(0, from); res != nil {
		t.Errorf("one other copy, and %v", res)
	}
}

// TestWhatOneMemberSaysCountsOnce: of a page that is kept aside, and only what is old by this
// clock, too, is set aside.
func TestWhatOneMemberSaysCountsOnce(t *testing.T) {
	r, m, out := leaving(t)
	a, cohort := m.Quarantine, m.View.Cells[0].Cohort
	out.Aside.Write = 7
	a.Answered(r.now, cohort[0], &message.FactsTaken{Write: 7})
	if a.Answered(r.now, cohort[0], &message.FactsTaken{Write: 7}); out.Aside.Write == 0 {
		t.Error("one member is a majority")
	}
	if a.Answered(r.now, cohort[1], &message.FactsTaken{Write: 7}); out.Aside.Write != 0 {
		t.Error("a majority is none")
	}
	young := r.at(0)
	fact := crdt.Completed{Token: 1<<32 + 1, At: r.now.Wall}.Fact(young)
	r.say(0, 4, &message.Facts{Write: 3, Parts: []message.PartFacts{{Partition: 0, Epoch: m.View.Cells[0].Epoch, Facts: []crdt.Fact{fact}}}})
	r.say(0, 4, &message.QuarantineFacts{Partition: 0, Epoch: m.View.Cells[0].Epoch, Tasks: []id.ID{young}})
	if n, _ := vnode.KeptAside(m.Partitions.See(0)); n != 0 || !vnode.Known(m.Round.Tx, 0, young) {
		t.Errorf("%d young tasks are set aside", n)
	}
	out.Met = []transfer.Met{{With: cohort[0], Ended: r.now.Mono}}
	if n := len(out.With(r.now.Add(transfer.Fresh))); n != 1 {
		t.Errorf("compared with %d a moment ago", n)
	}
	if n := len(out.With(r.now.Add(transfer.Fresh + 1))); n != 0 {
		t.Errorf("compared with %d too long ago", n)
	}
}

// TestWhoIsSpared: a node that has forgotten something goes only where each of its cohorts has a
// majority without it that is in reach and has told what it knows.
func TestWhoIsSpared(t *testing.T) {
	r := newCluster(t, 5, 0)
	r.live(3*time.Second, 500*time.Millisecond, nothing)
	m := r.peers[0].core.standing.Disk
	r.peers[0].core.view.Voters = []register.Member{r.peers[3].self, r.peers[4].self}
	if !m.MayRetire() {
		t.Fatalf("nobody lacks it: %v have told", m.ConfirmedBy)
	}
	other := r.peers[1].self
	if delete(m.ConfirmedBy, other); m.MayRetire() {
		t.Error("one of a cohort of three has not told")
	}
	m.ConfirmedBy[other] = true
	if r.peers[0].core.heard([]register.Member{r.peers[2].self, r.peers[3].self, r.peers[4].self}); m.MayRetire() {
		t.Error("one of a cohort of three is not in reach")
	}
}

// TestAClockThatNobodyMeasures is taken for good for a while only.
func TestAClockThatNobodyMeasures(t *testing.T) {
	r := newTrio(t)
	k := r.peers[0].core.standing.Clocks
	cohort := []register.Member{r.peers[0].self, {Node: "x", Incarnation: register.Incarnation{77}}, {Node: "y", Incarnation: register.Incarnation{78}}}
	for _, step := range []struct {
		after time.Duration
		want  standing.Judgement
	}{{0, standing.ClockUnsure}, {standing.Unsure - 1, standing.ClockUnsure}, {standing.Unsure, standing.ClockOff}} {
		if got := k.GoodFor(r.now.Add(step.after), cohort); got != step.want {
			t.Errorf("after %v: %d", step.after, got)
		}
	}
}

// TestWhatTheRegisterDidNotTakeIsAskedForAgain: how nodes are to be configured alike.
func TestWhatTheRegisterDidNotTakeIsAskedForAgain(t *testing.T) {
	r := newRig(t)
	r.manual = true
	r.core.sharedConfig.Write = true
	r.core.sharedConfig.Compare(true)
	tag := lastAsked(r.core)
	if r.core.sharedConfig.Asked == 0 {
		t.Fatal("nothing is asked")
	}
	r.step(message.Registered{Result: register.Result{Tag: tag, Err: errors.New("no majority")}})
	if r.core.sharedConfig.Asked != 0 {
		t.Error("it is not asked again")
	}
}

// TestANodeThatWasRemovedLearnsOfItsPartitions: and holds on to no proposal of before.
func TestANodeThatWasRemovedLearnsOfItsPartitions(t *testing.T) {
	r, m, _ := leaving(t)
	cell := m.View.Cells[0]
	old := cell.Epoch
	cell.Epoch += 3
	m.Former.Learn(r.now, register.Member{Node: "x"}, []message.KnownCell{{Partition: 0, Cell: cell}})
	if m.View.Cells[0].Epoch != old+3 || r.peers[4].core.acceptors.All[0].Seen != old+3 {
		t.Errorf("told of epoch %d it knows of %d, and has seen %d", old+3, m.View.Cells[0].Epoch, r.peers[4].core.acceptors.All[0].Seen)
	}
	cell.Epoch--
	if m.Former.Learn(r.now, register.Member{Node: "x"}, []message.KnownCell{{Partition: 0, Cell: cell}}); m.View.Cells[0].Epoch != old+3 {
		t.Error("an older word takes that back")
	}
}

// TestAFullDiskTakesPartsOfOthers: they have room, and it is copied here anyway.
func TestAFullDiskTakesPartsOfOthers(t *testing.T) {
	r := newRig(t)
	r.core.intake.Disk.Least, r.core.intake.Disk.Free = 2, 1
	if e := r.core.intake; !e.Shut(message.Origin{Conn: 1}) || e.Shut(message.Origin{Conn: message.PeerConns}) {
		t.Errorf("shut for clients: %v, for other nodes: %v", e.Shut(message.Origin{Conn: 1}), e.Shut(message.Origin{Conn: message.PeerConns}))
	}
}

// TestAQuestionAboutManyTasksIsBounded: past so many reads it is said that the answer is not sure.
func TestAQuestionAboutManyTasksIsBounded(t *testing.T) {
	r := newTrio(t)
	f := r.peers[0].core.replication.Reads
	f.Open = make(map[uint64]*replication.Fetch)
	for n := range uint64(replication.MaxFetches) {
		f.Open[n] = nil
	}
	q := &message.Request{From: message.Origin{Conn: 1, Request: 9}, Body: &nornv1.CancelRequest{Ids: [][]byte{r.at(1).Bytes()}}}
	if waits := f.ReadBeforeDecide(r.now, q, nil); waits || !q.Unsure || len(f.Open) > replication.MaxFetches {
		t.Errorf("it waits: %v, is unsure: %v, with %d reads", waits, q.Unsure, len(f.Open))
	}
}

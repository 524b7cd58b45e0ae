package witness

import (
	"slices"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// What it finds, beside what the checkers of package check find.
const (
	Promise  = "promise"  // an acceptor takes back what it has promised (E1, E2)
	Majority = "majority" // a claim was handed out or renewed that a majority does not hold (K3)
	Vote     = "vote"     // an election without both majorities, or a vote that does not say what its member knows
)

// Witness sees every message and every disk of a cluster, and holds them to the
// invariants of the protocol while clients work. It says at once what clients
// would notice only with much bad luck. It stands by in clusters whose disks
// neither get lost nor older.
type Witness struct {
	f Fleet
	// promised is the highest promise that a member has spoken of.
	promised map[acceptorOf]uint64
	pushed   map[acceptorOf]uint64 // the highest epoch of a push that was taken
	asked    map[roundOf]uint64    // the epoch of claims that were sent
	begun    map[cellOf]register.Cell
	leaders  map[cellOf]register.Member // by whom an epoch was registered
	votes    map[cellOf][]register.Member
	solid    map[id.ID]history.Func // acknowledged by a majority: enqueue, then its end
	lasting  []id.ID
	wanted   map[id.ID]int // how often somebody has asked to enqueue a task
	// collected has the tasks of which a tombstone was seen. Only the first of it says that a
	// node has collected the task: later ones are the same, told to a cohort that may be another.
	collected map[id.ID]bool
}

type acceptorOf struct {
	register.Member
	ring.Partition
}

type roundOf struct {
	leader    register.Member
	round     uint64
	partition ring.Partition
}

type cellOf struct {
	partition ring.Partition
	number    uint64 // an epoch, or the nonce of a cell
}

// New has seen nothing yet.
func New(f Fleet) *Witness {
	return &Witness{
		f: f, promised: map[acceptorOf]uint64{}, pushed: map[acceptorOf]uint64{}, asked: map[roundOf]uint64{}, begun: map[cellOf]register.Cell{},
		leaders: map[cellOf]register.Member{}, solid: map[id.ID]history.Func{}, votes: map[cellOf][]register.Member{}, wanted: map[id.ID]int{},
		collected: map[id.ID]bool{},
	}
}

// Said sees a message leave.
func (w *Witness) Said(n Node, m *message.Send) {
	switch m := m.Message.(type) {
	case *message.Votes:
		for i := range m.Votes {
			w.spoke(n, m.Votes[i].Partition, m.Votes[i].Promise)
		}
	case *message.PushesTaken:
		for i := range m.Votes {
			w.spoke(n, m.Votes[i].Partition, m.Votes[i].Promise)
		}
	case *message.Facts:
		for i := range m.Parts {
			w.buried(n, &m.Parts[i])
		}
	case *message.Claims:
		for i := range m.Parts {
			w.asked[roundOf{n.Self(), m.Round, m.Parts[i].Partition}] = m.Parts[i].Epoch
		}
	}
	if t, ok := m.Message.(*message.ClaimsTaken); ok {
		for i := range t.Parts {
			w.took(n, m.To, t.Round, &t.Parts[i])
		}
	}
}

// spoke (E1): a promise never decreases, whatever happens to the process.
func (w *Witness) spoke(n Node, p ring.Partition, promised uint64) {
	k := acceptorOf{n.Self(), p}
	if promised < w.promised[k] {
		w.f.Violation(Promise, "%spartition %d: it says that it has promised %d, and has promised %d before", n, p, promised, w.promised[k])
	}
	w.promised[k] = max(w.promised[k], promised)
}

// buried (K8): a task is collected only once every member of the cohort knows how
// it ended.
func (w *Witness) buried(n Node, part *message.PartFacts) {
	p := part.Partition
	known, _ := n.Known()
	cells := known.Cells
	judged := !w.f.Look().Forming && int(p) < len(w.f.Look().Cells) && int(p) < len(cells) && cells[p].Leader == n.Self() && cells[p].Epoch == w.f.Look().Cells[p].Epoch
	for i := range part.Facts {
		f := &part.Facts[i]
		if f.Key.Kind != crdt.KindTombstone || w.collected[f.Task] {
			continue
		}
		w.collected[f.Task] = true
		if !judged {
			continue
		}
		know := w.count(&cells[p], func(o Node) bool {
			end, err := vnode.Outcome(o.Disk().Mem, p, f.Task)
			return err != nil || end.Finished()
		})
		if know < len(cells[p].Cohort) {
			w.f.Violation(check.Collected, "%scollects task %s, and only %d of %d members of the cohort know that it has ended", n, f.Task, know, len(cells[p].Cohort))
		}
	}
}

// Formed sees the messages of a round, when what they say has just been applied.
// What a candidate has pushed to this node it may know beside its vote.
func (w *Witness) Formed(n Node, sends []message.Send) {
	for i := range sends {
		if m, ok := sends[i].Message.(*message.PushesTaken); ok {
			for _, v := range m.Votes {
				k := acceptorOf{n.Self(), v.Partition}
				w.pushed[k] = max(w.pushed[k], v.Epoch)
			}
		}
	}
	for i := range sends {
		if m, ok := sends[i].Message.(*message.Votes); ok {
			for i := range m.Votes {
				w.voted(n, &m.Votes[i])
			}
		}
	}
}

// voted (E4): with a vote leaves every claim that is known by then.
func (w *Witness) voted(n Node, v *message.CastVote) {
	if !v.Granted || v.Pre {
		return
	}
	k := cellOf{v.Partition, v.Epoch}
	w.votes[k] = append(w.votes[k], n.Self())
	if w.pushed[acceptorOf{n.Self(), v.Partition}] >= v.Epoch {
		return
	}
	told, err := vnode.DecodeHeld(v.Claims)
	if err != nil {
		w.f.Violation(Vote, "%spartition %d: %v", n, v.Partition, err)
		return
	}
	for j := range w.f.Believed() {
		says := func(h vnode.Held) bool { return h.Task == j.Task && h.Record.Token == j.Token }
		if ring.Of(j.Task, w.f.Look().Partitions) == v.Partition && j.Token>>32 < v.Epoch && !slices.ContainsFunc(told, says) && w.active(n, j) {
			w.f.Violation(Vote, "%spartition %d: its vote for epoch %d says nothing of claim %x on task %s, which it holds", n, v.Partition, v.Epoch, j.Token, j.Task)
		}
	}
}

// active tells whether a claim is on the disk of a node and has not ended.
func (w *Witness) active(n Node, j Claim) bool {
	d, err := vnode.ReadTask(n.Disk().Mem, ring.Of(j.Task, w.f.Look().Partitions), j.Task, vnode.ReadOptions{NoLog: true})
	return err == nil && !d.Task.Finished() && slices.ContainsFunc(d.Claims, func(c claim.Record) bool { return c.Token == j.Token && c.Outcome == claim.Active })
}

// elected: a leader has the votes of a majority of the old cohort and of the new
// one. Its own leave in no message.
func (w *Witness) elected(p ring.Partition, old, now *register.Cell) {
	tally := quorum.NewTally(old.Cohort, now.Cohort)
	tally.Add(now.Leader)
	for _, m := range w.votes[cellOf{p, now.Epoch}] {
		tally.Add(m)
	}
	if !tally.Reached() {
		w.f.Violation(Vote, "%s leads partition %d in epoch %d, with the votes of %v only: of %v to %v", now.Leader.Node, p, now.Epoch,
			Names(w.votes[cellOf{p, now.Epoch}]), Names(old.Cohort), Names(now.Cohort))
	}
}

// took (E2): nothing of a lower epoch is accepted after a promise.
func (w *Witness) took(n Node, leader register.Member, round uint64, t *message.PartTaken) {
	epoch, known := w.asked[roundOf{leader, round, t.Partition}]
	if !t.No && known && w.promised[acceptorOf{n.Self(), t.Partition}] > epoch {
		w.f.Violation(Promise, "%spartition %d: it takes claims of epoch %d, and has promised %d", n, t.Partition, epoch, w.promised[acceptorOf{n.Self(), t.Partition}])
		return
	}
	if t.Promise > 0 {
		w.spoke(n, t.Partition, t.Promise)
	}
}

// Asks remembers from which cell a change of the register starts.
func (w *Witness) Asks(q *register.Request) {
	for i := range q.Changes {
		c := &q.Changes[i]
		w.begun[cellOf{c.Partition, c.New.Nonce}] = c.Old
	}
}

// Changed sees a cell change: epochs rise, the change starts from exactly the
// cell that was there (E3), and the new cohort knows what the old one had
// committed (E4, I7).
func (w *Witness) Changed(p ring.Partition, old, now *register.Cell) {
	if old.Same(now) || w.f.Look().Found {
		return
	}
	if now.Epoch <= old.Epoch {
		w.f.Violation(check.Register, "partition %d: epoch %d follows epoch %d", p, now.Epoch, old.Epoch)
	}
	if from, known := w.begun[cellOf{p, now.Nonce}]; known && !from.Same(old) {
		w.f.Violation(check.Register, "partition %d: epoch %d was set by who had read epoch %d, and followed epoch %d", p, now.Epoch, from.Epoch, old.Epoch)
	}
	w.leaders[cellOf{p, now.Epoch}] = now.Leader
	if w.f.Look().Forming || now.Leader == (register.Member{}) {
		return
	}
	if from, known := w.begun[cellOf{p, now.Nonce}]; known && from.Leader == (register.Member{}) && len(from.Cohort) > 0 {
		w.elected(p, old, now)
	}
	for j := range w.f.Believed() {
		if ring.Of(j.Task, w.f.Look().Partitions) == p && j.Until > w.f.Look().Now && !j.Over && !w.held(now, j.Task, j.Token, 0) {
			w.f.Violation(check.Leader, "epoch %d of partition %d begins, and a majority of its cohort does not know claim %x on task %s, in which its worker believes", now.Epoch, p, j.Token, j.Task)
		}
	}
	for _, task := range w.lasting {
		if ring.Of(task, w.f.Look().Partitions) == p {
			w.lasts(now, task)
		}
	}
}

// count gives how many of a cohort have something on their disks.
func (w *Witness) count(cell *register.Cell, has func(n Node) bool) (n int) {
	for _, m := range cell.Cohort {
		if o := w.f.Find(m); o != nil && has(o) {
			n++
		}
	}
	return n
}

// held tells whether a majority of a cohort knows a claim for good, up to an end (0:
// any), or that it is over.
func (w *Witness) held(cell *register.Cell, task id.ID, token uint64, end int64) bool {
	p := ring.Of(task, w.f.Look().Partitions)
	n := w.count(cell, func(n Node) bool {
		d, err := vnode.ReadTask(n.Disk().Safe(), p, task, vnode.ReadOptions{NoLog: true})
		if err != nil {
			return false
		}
		for i := range d.Claims {
			if c := &d.Claims[i]; c.Token > token || c.Token == token && (c.End >= end || c.Outcome != 0) {
				return true
			}
		}
		return d.Task.Finished() || d.Task.Collected() || d.Task.Attempts() > 0 && w.ended(n, p, task, token)
	})
	return n >= quorum.Majority(len(cell.Cohort))
}

// ended tells whether a fact on the disk says that a claim is over.
func (w *Witness) ended(n Node, p ring.Partition, task id.ID, token uint64) bool {
	facts, err := vnode.Facts(n.Disk().Safe(), p, task)
	if err != nil {
		return false
	}
	for i := range facts {
		if facts[i].Key.A >= token {
			return true
		}
	}
	return false
}

// lasts: what a majority has acknowledged is on a majority of the registered
// cohort, whichever that is by now (P1, P5).
func (w *Witness) lasts(cell *register.Cell, task id.ID) {
	p := ring.Of(task, w.f.Look().Partitions)
	what := w.solid[task]
	n := w.count(cell, func(n Node) bool {
		if what == history.Enqueue {
			return vnode.Known(n.Disk().Mem, p, task)
		}
		t, err := vnode.LoadTask(n.Disk().Mem, p, task)
		return err == nil && t.Finished() && (!t.Collected() || t.Outcome() == crdt.StateCompleted)
	})
	if n < quorum.Majority(len(cell.Cohort)) {
		w.f.Violation(check.Lost, "the %s of task %s was acknowledged by a majority, and in epoch %d of partition %d it is on %d of %d disks of the cohort", what, task, cell.Epoch, p, n, len(cell.Cohort))
	}
}

// Acknowledged hears what clients are told: what they have asked, and how it ended.
func (w *Witness) Acknowledged(asked, end *history.Event) {
	if w.f.Look().Forming || len(w.f.Look().Cells) == 0 || end.Phase != history.OK {
		return
	}
	for i := range end.Items {
		item := &end.Items[i]
		if item.Error != "" || item.Task.IsZero() {
			continue
		}
		cell := &w.f.Look().Cells[ring.Of(item.Task, w.f.Look().Partitions)]
		switch f := asked.Func; f {
		case history.Enqueue, history.Complete:
			if asked.Weak || w.gone(cell, item.Task) {
				continue
			}
			if _, known := w.solid[item.Task]; !known {
				w.lasting = append(w.lasting, item.Task)
			}
			if w.solid[item.Task] != history.Complete {
				w.solid[item.Task] = f
			}
			w.lasts(cell, item.Task)
		}
	}
}

// gone tells whether a task was collected somewhere: how it ended was decided
// before.
func (w *Witness) gone(cell *register.Cell, task id.ID) bool {
	return w.count(cell, func(n Node) bool {
		t, err := vnode.LoadTask(n.Disk().Mem, ring.Of(task, w.f.Look().Partitions), task)
		return err != nil || t.Collected()
	}) > 0
}

// Received counts who has asked for a task.
func (w *Witness) Received(body any) {
	if m, ok := body.(*nornv1.EnqueueRequest); ok {
		for _, t := range m.GetTasks() {
			w.wanted[convert.IDOf(t.GetId())]++
		}
	}
}

// honest (I16): of an enqueue that is said to have had no effect nothing is on a
// disk, unless somebody else has asked for the task too.
func (w *Witness) honest(asked *nornv1.EnqueueRequest, answer *nornv1.EnqueueReply) {
	for i, r := range answer.GetResults() {
		if r.GetError() == nil || r.GetError().GetEffect() != nornv1.Effect_EFFECT_NONE || i >= len(asked.GetTasks()) {
			continue
		}
		task := convert.IDOf(asked.GetTasks()[i].GetId())
		p := ring.Of(task, w.f.Look().Partitions)
		for n := range w.f.Nodes() {
			if w.wanted[task] == 1 && vnode.Known(n.Disk().Mem, p, task) {
				w.f.Violation(check.Honesty, "the enqueue of task %s is said to have failed without effect, and it is on the disk of %s: %s", task, n.Self().Node, r.GetError().GetMessage())
				return
			}
		}
	}
}

// Granted (K1, K3): a claim that leaves was given out in an epoch that the register
// has, and a majority of the cohort holds it.
func (w *Witness) Granted(asked any, reply *message.Reply) {
	if w.f.Look().Forming || len(w.f.Look().Cells) == 0 {
		return
	}
	switch m := reply.Message.(type) {
	case *nornv1.ClaimReply:
		for _, g := range m.GetGrants() {
			w.holds(convert.Parse(g.GetTask().GetId()), g.GetToken(), 0)
		}
	case *nornv1.EnqueueReply:
		if q, ok := asked.(*nornv1.EnqueueRequest); ok {
			w.honest(q, m)
		}
	case *nornv1.RenewReply:
		refs := asked.(*nornv1.RenewRequest).GetClaims()
		for i, r := range m.GetResults() {
			if c := r.GetClaim(); r.GetError() == nil && c != nil && i < len(refs) {
				w.holds(convert.IDOf(refs[i].GetId()), c.GetToken(), c.GetEnd().AsTime().UnixNano())
			}
		}
	}
}

func (w *Witness) holds(task id.ID, token uint64, end int64) {
	p := ring.Of(task, w.f.Look().Partitions)
	if _, registered := w.leaders[cellOf{p, token >> 32}]; !registered && token>>32 > w.f.Look().Cells[p].Epoch {
		w.f.Violation(check.Register, "task %s is handed out as %x, and epoch %d of partition %d is in no register", task, token, token>>32, p)
		return
	}
	if !w.held(&w.f.Look().Cells[p], task, token, end) {
		w.f.Violation(Majority, "claim %x on task %s leaves, and is not on a majority of %v", token, task, Names(w.f.Look().Cells[p].Cohort))
	}
}

package sim

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

// What the simulator finds, beside what the checkers of package check find.
const (
	// Of the witness.
	Promise  = "promise"  // an acceptor takes back what it has promised (E1, E2)
	Majority = "majority" // a claim was handed out or renewed that a majority does not hold (K3)
	Vote     = "vote"     // an election without both majorities, or a vote that does not say what its member knows
	// Of looks into nodes and at all of them.
	Audit       = "audit"       // an index, a counter or a hash is not what the facts say (I8)
	Convergence = "convergence" // replicas differ though nothing goes wrong any more (I8)
)

// witness sees every message and every disk of a cluster, and holds them to the
// invariants of the protocol while clients work. It says at once what clients
// would notice only with much bad luck. It stands by in clusters whose disks
// neither get lost nor older.
type witness struct {
	f *fleet
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

func newWitness(f *fleet) *witness {
	return &witness{
		f: f, promised: map[acceptorOf]uint64{}, pushed: map[acceptorOf]uint64{}, asked: map[roundOf]uint64{}, begun: map[cellOf]register.Cell{},
		leaders: map[cellOf]register.Member{}, solid: map[id.ID]history.Func{}, votes: map[cellOf][]register.Member{}, wanted: map[id.ID]int{},
		collected: map[id.ID]bool{},
	}
}

// said sees a message leave.
func (w *witness) said(n *node, m *message.Send) {
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
			w.asked[roundOf{n.self, m.Round, m.Parts[i].Partition}] = m.Parts[i].Epoch
		}
	}
	if t, ok := m.Message.(*message.ClaimsTaken); ok {
		for i := range t.Parts {
			w.took(n, m.To, t.Round, &t.Parts[i])
		}
	}
}

// spoke (E1): a promise never decreases, whatever happens to the process.
func (w *witness) spoke(n *node, p ring.Partition, promised uint64) {
	k := acceptorOf{n.self, p}
	if promised < w.promised[k] {
		w.f.s.violation(Promise, "%spartition %d: it says that it has promised %d, and has promised %d before", n, p, promised, w.promised[k])
	}
	w.promised[k] = max(w.promised[k], promised)
}

// buried (K8): a task is collected only once every member of the cohort knows how
// it ended.
func (w *witness) buried(n *node, part *message.PartFacts) {
	s, p := w.f.s, part.Partition
	cells := n.peers.state().Cells
	judged := !w.f.forming && int(p) < len(w.f.cells) && int(p) < len(cells) && cells[p].Leader == n.self && cells[p].Epoch == w.f.cells[p].Epoch
	for i := range part.Facts {
		f := &part.Facts[i]
		if f.Key.Kind != crdt.KindTombstone || w.collected[f.Task] {
			continue
		}
		w.collected[f.Task] = true
		if !judged {
			continue
		}
		know := w.count(&cells[p], func(o *node) bool {
			end, err := vnode.Outcome(o.disk.Mem, p, f.Task)
			return err != nil || end.Finished()
		})
		if know < len(cells[p].Cohort) {
			s.violation(check.Collected, "%scollects task %s, and only %d of %d members of the cohort know that it has ended", n, f.Task, know, len(cells[p].Cohort))
		}
	}
}

// formed sees the messages of a round, when what they say has just been applied.
// What a candidate has pushed to this node it may know beside its vote.
func (w *witness) formed(n *node, sends []message.Send) {
	for i := range sends {
		if m, ok := sends[i].Message.(*message.PushesTaken); ok {
			for _, v := range m.Votes {
				k := acceptorOf{n.self, v.Partition}
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
func (w *witness) voted(n *node, v *message.CastVote) {
	if !v.Granted || v.Pre {
		return
	}
	s := w.f.s
	k := cellOf{v.Partition, v.Epoch}
	w.votes[k] = append(w.votes[k], n.self)
	if w.pushed[acceptorOf{n.self, v.Partition}] >= v.Epoch {
		return
	}
	told, err := vnode.DecodeHeld(v.Claims)
	if err != nil {
		s.violation(Vote, "%spartition %d: %v", n, v.Partition, err)
		return
	}
	for _, worker := range s.workers {
		for _, j := range worker.jobs {
			says := func(h vnode.Held) bool { return h.Task == j.task && h.Record.Token == j.token }
			if ring.Of(j.task, s.plan.Partitions) == v.Partition && j.token>>32 < v.Epoch && !slices.ContainsFunc(told, says) && w.active(n, j) {
				s.violation(Vote, "%spartition %d: its vote for epoch %d says nothing of claim %x on task %s, which it holds", n, v.Partition, v.Epoch, j.token, j.task)
			}
		}
	}
}

// active tells whether a claim is on the disk of a node and has not ended.
func (w *witness) active(n *node, j *work) bool {
	d, err := vnode.ReadTask(n.disk.Mem, ring.Of(j.task, w.f.s.plan.Partitions), j.task, vnode.ReadOptions{NoLog: true})
	return err == nil && !d.Task.Finished() && slices.ContainsFunc(d.Claims, func(c claim.Record) bool { return c.Token == j.token && c.Outcome == claim.Active })
}

// elected: a leader has the votes of a majority of the old cohort and of the new
// one. Its own leave in no message.
func (w *witness) elected(p ring.Partition, old, now *register.Cell) {
	tally := quorum.NewTally(old.Cohort, now.Cohort)
	tally.Add(now.Leader)
	for _, m := range w.votes[cellOf{p, now.Epoch}] {
		tally.Add(m)
	}
	if !tally.Reached() {
		w.f.s.violation(Vote, "%s leads partition %d in epoch %d, with the votes of %v only: of %v to %v", now.Leader.Node, p, now.Epoch,
			names(w.votes[cellOf{p, now.Epoch}]), names(old.Cohort), names(now.Cohort))
	}
}

// took (E2): nothing of a lower epoch is accepted after a promise.
func (w *witness) took(n *node, leader register.Member, round uint64, t *message.PartTaken) {
	epoch, known := w.asked[roundOf{leader, round, t.Partition}]
	if !t.No && known && w.promised[acceptorOf{n.self, t.Partition}] > epoch {
		w.f.s.violation(Promise, "%spartition %d: it takes claims of epoch %d, and has promised %d", n, t.Partition, epoch, w.promised[acceptorOf{n.self, t.Partition}])
		return
	}
	if t.Promise > 0 {
		w.spoke(n, t.Partition, t.Promise)
	}
}

// asks remembers from which cell a change of the register starts.
func (w *witness) asks(q *register.Request) {
	for i := range q.Changes {
		c := &q.Changes[i]
		w.begun[cellOf{c.Partition, c.New.Nonce}] = c.Old
	}
}

// changed sees a cell change: epochs rise, the change starts from exactly the
// cell that was there (E3), and the new cohort knows what the old one had
// committed (E4, I7).
func (w *witness) changed(p ring.Partition, old, now *register.Cell) {
	s := w.f.s
	if old.Same(now) || s.found != nil {
		return
	}
	if now.Epoch <= old.Epoch {
		s.violation(check.Register, "partition %d: epoch %d follows epoch %d", p, now.Epoch, old.Epoch)
	}
	if from, known := w.begun[cellOf{p, now.Nonce}]; known && !from.Same(old) {
		s.violation(check.Register, "partition %d: epoch %d was set by who had read epoch %d, and followed epoch %d", p, now.Epoch, from.Epoch, old.Epoch)
	}
	w.leaders[cellOf{p, now.Epoch}] = now.Leader
	if w.f.forming || now.Leader == (register.Member{}) {
		return
	}
	if from, known := w.begun[cellOf{p, now.Nonce}]; known && from.Leader == (register.Member{}) && len(from.Cohort) > 0 {
		w.elected(p, old, now)
	}
	for _, worker := range s.workers {
		for _, j := range worker.jobs {
			if ring.Of(j.task, s.plan.Partitions) == p && j.until > s.Now && !j.over && !w.held(now, j.task, j.token, 0) {
				s.violation(check.Leader, "epoch %d of partition %d begins, and a majority of its cohort does not know claim %x on task %s, in which its worker believes", now.Epoch, p, j.token, j.task)
			}
		}
	}
	for _, task := range w.lasting {
		if ring.Of(task, s.plan.Partitions) == p {
			w.lasts(now, task)
		}
	}
}

// count gives how many of a cohort have something on their disks.
func (w *witness) count(cell *register.Cell, has func(n *node) bool) (n int) {
	for _, m := range cell.Cohort {
		if o := w.f.find(m); o != nil && o.self == m && has(o) {
			n++
		}
	}
	return n
}

// held tells whether a majority of a cohort knows a claim for good, up to an end (0:
// any), or that it is over.
func (w *witness) held(cell *register.Cell, task id.ID, token uint64, end int64) bool {
	p := ring.Of(task, w.f.s.plan.Partitions)
	n := w.count(cell, func(n *node) bool {
		d, err := vnode.ReadTask(n.disk.Safe(), p, task, vnode.ReadOptions{NoLog: true})
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
func (w *witness) ended(n *node, p ring.Partition, task id.ID, token uint64) bool {
	facts, err := vnode.Facts(n.disk.Safe(), p, task)
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
func (w *witness) lasts(cell *register.Cell, task id.ID) {
	s := w.f.s
	p := ring.Of(task, s.plan.Partitions)
	what := w.solid[task]
	n := w.count(cell, func(n *node) bool {
		if what == history.Enqueue {
			return vnode.Known(n.disk.Mem, p, task)
		}
		t, err := vnode.LoadTask(n.disk.Mem, p, task)
		return err == nil && t.Finished() && (!t.Collected() || t.Outcome() == crdt.StateCompleted)
	})
	if n < quorum.Majority(len(cell.Cohort)) {
		s.violation(check.Lost, "the %s of task %s was acknowledged by a majority, and in epoch %d of partition %d it is on %d of %d disks of the cohort", what, task, cell.Epoch, p, n, len(cell.Cohort))
	}
}

// acknowledged hears what clients are told.
func (w *witness) acknowledged(k *call, end *history.Event) {
	s := w.f.s
	if w.f.forming || len(w.f.cells) == 0 || end.Phase != history.OK {
		return
	}
	for i := range end.Items {
		item := &end.Items[i]
		if item.Error != "" || item.Task.IsZero() {
			continue
		}
		cell := &w.f.cells[ring.Of(item.Task, s.plan.Partitions)]
		switch f := k.asked.Func; f {
		case history.Enqueue, history.Complete:
			if k.asked.Weak || w.gone(cell, item.Task) {
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
func (w *witness) gone(cell *register.Cell, task id.ID) bool {
	return w.count(cell, func(n *node) bool {
		t, err := vnode.LoadTask(n.disk.Mem, ring.Of(task, w.f.s.plan.Partitions), task)
		return err != nil || t.Collected()
	}) > 0
}

// received counts who has asked for a task.
func (w *witness) received(body any) {
	if m, ok := body.(*nornv1.EnqueueRequest); ok {
		for _, t := range m.GetTasks() {
			w.wanted[convert.IDOf(t.GetId())]++
		}
	}
}

// honest (I16): of an enqueue that is said to have had no effect nothing is on a
// disk, unless somebody else has asked for the task too.
func (w *witness) honest(asked *nornv1.EnqueueRequest, answer *nornv1.EnqueueReply) {
	for i, r := range answer.GetResults() {
		if r.GetError() == nil || r.GetError().GetEffect() != nornv1.Effect_EFFECT_NONE || i >= len(asked.GetTasks()) {
			continue
		}
		task := convert.IDOf(asked.GetTasks()[i].GetId())
		p := ring.Of(task, w.f.s.plan.Partitions)
		for _, n := range w.f.nodes {
			if w.wanted[task] == 1 && vnode.Known(n.disk.Mem, p, task) {
				w.f.s.violation(check.Honesty, "the enqueue of task %s is said to have failed without effect, and it is on the disk of %s: %s", task, n.self.Node, r.GetError().GetMessage())
				return
			}
		}
	}
}

// granted (K1, K3): a claim that leaves was given out in an epoch that the register
// has, and a majority of the cohort holds it.
func (w *witness) granted(asked any, reply *message.Reply) {
	if w.f.forming || len(w.f.cells) == 0 {
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

func (w *witness) holds(task id.ID, token uint64, end int64) {
	s := w.f.s
	p := ring.Of(task, s.plan.Partitions)
	if _, registered := w.leaders[cellOf{p, token >> 32}]; !registered && token>>32 > w.f.cells[p].Epoch {
		s.violation(check.Register, "task %s is handed out as %x, and epoch %d of partition %d is in no register", task, token, token>>32, p)
		return
	}
	if !w.held(&w.f.cells[p], task, token, end) {
		s.violation(Majority, "claim %x on task %s leaves, and is not on a majority of %v", token, task, names(w.f.cells[p].Cohort))
	}
}

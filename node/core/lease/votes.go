package lease

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Asked keeps what a leader has granted, as far as this member's own rules allow
// it (design 7.3). The answer leaves when it is on disk.
func (g *Machine) Asked(now clock.Time, from register.Member, m *message.Claims) {
	answer, room := &message.ClaimsTaken{Round: m.Round}, int64(factBytes)
	for i := range m.Parts {
		if int(m.Parts[i].Partition) < len(g.env.View.Cells) {
			answer.Parts = append(answer.Parts, g.keep(now, &m.Parts[i], answer, &room))
		}
	}
	g.env.Round.Send(from, answer)
}

// keep votes on the claims of one partition. room is how many bytes of facts are still to
// be told: of finished tasks after that the leader learns the next time.
//
// It returns a refusal of the whole part where the epoch is too low, this node is not of the
// cohort, or its clock or disk is in doubt; else a verdict for each claim that it does not
// hold. Where the task has ended here it sends the facts that ended it: the leader has missed
// them.
func (g *Machine) keep(now clock.Time, m *message.PartClaims, answer *message.ClaimsTaken, room *int64) message.PartTaken {
	p := m.Partition
	t := message.PartTaken{Partition: p}
	cell := &g.env.View.Cells[p]
	outside := cell.Epoch >= m.Epoch && !slices.Contains(cell.Cohort, g.env.Self) && !g.env.Policy.PlannedCohort
	all, err := vnode.DecodeHeld(m.Claims)
	if err != nil || outside || !g.env.Standing.May(p, standing.Accept) || !promised(g, p, m.Epoch, all) {
		t.No, t.Promise = true, g.env.Acceptors.All[p].Promise
		return t
	}
	g.env.Leadership.StepDownBelow(p, m.Epoch)
	v := g.env.Partitions.Use(p)
	judge := vnode.Judge{HalfEta: g.env.Eta / 2, Confirmed: g.env.Standing.Clocks.Peers.Confirmed(now, g.env.Eta)}
	for i := range all {
		h := &all[i]
		if h.Released {
			g.env.Round.Check(vnode.AcceptRelease(v, g.env.Round.Tx, h.Task, h.Record.Token, now))
			g.reclaims.ended(p, h.Task, h.Record.Token)
			continue
		}
		saved, known, err := vnode.SavedBefore(v, g.env.Round.Tx, h.Task, h.Record.Token)
		if !g.env.Round.Check(err) {
			break
		}
		verdict, blocker, err := vnode.Accept(v, g.env.Round.Tx, vnode.Proposed{Task: h.Task, Record: h.Record}, judge, now)
		if !g.env.Round.Check(err) {
			break
		}
		if verdict == vnode.Accepted {
			if known && *room > 0 {
				*room -= int64(len(saved.Body))
				answer.Facts = append(answer.Facts, message.PartFacts{Partition: p, Facts: []crdt.Fact{saved}})
			}
			continue
		}
		refusal := message.Refusal{Index: i, Verdict: verdict}
		if blocker != nil {
			refusal.Claim, refusal.Left = vnode.AppendHeld(nil, []vnode.Held{{Task: h.Task, Record: blocker.Record}}), blocker.Left
		}
		if tells := verdict == vnode.Finished || verdict == vnode.Stale && blocker == nil; tells && *room > 0 {
			facts, _, err := vnode.EndOf(v, g.env.Round.Tx, h.Task, h.Record.Token)
			g.env.Round.Check(err)
			*room -= vnode.AsideSize(facts)
			if len(facts) > 0 {
				answer.Facts = append(answer.Facts, message.PartFacts{Partition: p, Facts: facts})
			}
		}
		t.Refused = append(t.Refused, refusal)
	}
	t.Promise = g.env.Acceptors.All[p].Promise
	return t
}

// promised tells whether claims of an epoch may be taken here.
func promised(g *Machine, p ring.Partition, epoch uint64, all []vnode.Held) bool {
	renewal := func(h vnode.Held) bool { return h.Record.End-h.Record.Start != int64(h.Record.Lease) }
	if g.env.Policy.UnpromisedGrant || g.env.Policy.UnfencedRenewal && !slices.ContainsFunc(all, func(h vnode.Held) bool { return !renewal(h) }) {
		return true
	}
	return g.env.Acceptors.Accept(p, epoch)
}

// Taken counts what a member has accepted.
//
// Members may answer in any order, twice, or never. Each is counted once per part; a batch is
// closed when all of its proposals are decided, and by time at [Timeout].
func (g *Machine) Taken(now clock.Time, from register.Member, m *message.ClaimsTaken) {
	for i := range m.Facts {
		if int(m.Facts[i].Partition) < len(g.env.View.Cells) {
			g.env.Others.Keep(now, from, &m.Facts[i])
		}
	}
	at, found := slices.BinarySearchFunc(g.open, m.Round, func(o *batch, n uint64) int { return int(int64(o.number - n)) })
	if !found {
		return // late, or of the process before this one
	}
	o := g.open[at]
	for i := range m.Facts {
		o.saved(&m.Facts[i])
	}
	left := false
	for _, part := range o.parts {
		for i := range m.Parts {
			if t := &m.Parts[i]; t.Partition == part.p {
				g.count(now, from, part, t)
			}
		}
		left = left || part.open > 0
	}
	if !left {
		g.open = slices.Delete(g.open, at, at+1)
	}
}

// saved notes where the worker of a task is to go on, which a member has told who has taken
// its claim: the leader may lack an update that the others have acknowledged, or one before
// it, so that it does not show it.
func (o *batch) saved(f *message.PartFacts) {
	for _, part := range o.parts {
		if part.p != f.Partition || len(f.Facts) != 1 || f.Facts[0].Key.Kind != crdt.KindUpdate || f.Facts[0].Intact() != nil {
			continue
		}
		u, err := crdt.DecodeUpdate(f.Facts[0].Body)
		for _, pl := range part.pledges {
			if err == nil && pl.held.Task == f.Facts[0].Task && u.Token < pl.held.Record.Token && Beyond(&u, pl.Saved) {
				pl.Saved = &u
			}
		}
	}
}

// Beyond tells whether an update comes after another one, or there is none.
func Beyond(u, than *crdt.Update) bool {
	return than == nil || u.Token > than.Token || u.Token == than.Token && u.Seq > than.Seq
}

// count takes the answer of one member for one partition.
//
// A refusal with a higher promise means that another candidate has this member's vote: this
// node steps down rather than wait for its majority to melt away.
func (g *Machine) count(now clock.Time, from register.Member, part *batchPart, t *message.PartTaken) {
	if t.No || len(t.Refused) > len(part.pledges) {
		if t.Promise > part.epoch {
			g.env.Leadership.Runs.Heard(part.p, from, t.Promise)
			if t.Promise > g.env.Partitions.See(part.p).Leading() { // else it was to this node, which was elected again since
				g.env.Leadership.StepDown(part.p) // another one has the votes
			}
		}
		if !slices.Contains(part.no, from) {
			part.no = append(part.no, from)
		}
		g.settle(now, part)
		return
	}
	if slices.Contains(part.acks, from) || !slices.Contains(part.cohort, from) {
		return
	}
	for i := range t.Refused {
		g.refused(now, from, part, &t.Refused[i])
	}
	part.acks = append(part.acks, from)
	part.tally.Add(from)
	g.settle(now, part)
}

// refused notes why a member does not hold a claim.
func (g *Machine) refused(now clock.Time, from register.Member, part *batchPart, r *message.Refusal) {
	if r.Index < 0 || r.Index >= len(part.pledges) {
		return
	}
	pl := part.pledges[r.Index]
	if r.Verdict == vnode.Lacking { // it holds the claim; the task is to follow
		facts, err := vnode.Newest(g.env.Round.Tx, part.p, pl.held.Task, factBytes)
		if g.env.Round.Check(err) && len(facts) > 0 {
			g.env.Round.Send(from, &message.Facts{Parts: []message.PartFacts{{Partition: part.p, Epoch: part.epoch, Facts: facts}}})
		}
		return
	}
	if part.refused == nil {
		part.refused = make(map[int][]register.Member)
	}
	part.refused[r.Index] = append(part.refused[r.Index], from)
	part.own = part.own || !alike(r.Verdict)
	if r.Verdict == vnode.SkewedClock {
		g.Skewed++
	}
	if g.env.Partitions.See(part.p).Leading() == 0 {
		return
	}
	if r.Claim == nil {
		correct(g, from, part, pl, r.Verdict)
		return
	}
	held, err := vnode.DecodeHeld(r.Claim)
	if err != nil || len(held) != 1 || held[0].Task != pl.held.Task || r.Left > maxBlock {
		return
	}
	g.inform(from, part, &held[0])
	g.env.Round.Check(vnode.Learn(g.env.Partitions.Use(part.p), g.env.Round.Tx, held[0].Task, vnode.Blocker{Record: held[0].Record, Left: r.Left}, now))
	g.env.Others.Learned(now, part.p, held[0].Task, &held[0].Record)
}

// correct sends a member that refuses a claim because of how its task stands, and has said
// so, what is known of that here, where the task goes on all the same: it has missed a retry.
func correct(g *Machine, to register.Member, part *batchPart, pl *Proposal, v message.Verdict) {
	if v != vnode.Finished && v != vnode.Stale {
		return
	}
	t, err := vnode.LoadTask(g.env.Round.Tx, part.p, pl.held.Task)
	if !g.env.Round.Check(err) || t.Generation() == 0 || t.Finished() || t.NotBefore() > pl.held.Record.Start {
		return
	}
	g.inform(to, part, &pl.held)
}

// inform sends a member what has ended a claim here that it still holds.
func (g *Machine) inform(to register.Member, part *batchPart, h *vnode.Held) {
	facts, released, err := vnode.EndOf(g.env.Partitions.Use(part.p), g.env.Round.Tx, h.Task, h.Record.Token)
	if !g.env.Round.Check(err) {
		return
	}
	if len(facts) > 0 {
		g.env.Round.Send(to, &message.Facts{Parts: []message.PartFacts{{Partition: part.p, Epoch: part.epoch, Facts: facts}}})
	}
	if released {
		g.Propose(part.p, h.Task, &claim.Record{Token: h.Record.Token, Outcome: claim.Released}, true)
	}
}

// factBytes bounds the facts in one answer, and those of a task that a member lacks.
const factBytes = 8 << 20

// maxBlock bounds for how long a member may say that another claim is in the way:
// the longest lease and its buffer.
const maxBlock = clock.MaxLease + time.Hour

// Met looks at what is on its way again after somebody has come in reach or gone.
func (g *Machine) Met(now clock.Time) {
	g.breakers.retryNow(now)
	for _, o := range g.open {
		for _, part := range o.parts {
			g.settle(now, part)
		}
	}
}

// settle decides what can be decided.
func (g *Machine) settle(now clock.Time, part *batchPart) {
	for i, pl := range part.pledges {
		if pl.state != waiting {
			continue
		}
		tally := g.tally(part, i)
		switch {
		case tally.Reached():
			g.decide(now, pl, committed)
		case tally.Lost():
			pl.tripsBreaker = part.tripsBreaker(i)
			g.decide(now, pl, failed)
		default:
			continue
		}
	}
	part.open = 0
	if part.confirmsAt != 0 && g.tally(part, 0).Reached() {
		g.confirmed(part)
	}
	if part.confirmsAt != 0 {
		part.open++
	}
	for _, pl := range part.pledges {
		if pl.state == waiting {
			part.open++
		}
	}
}

// tally counts who has a pledge. Once somebody has refused it, who is out of reach
// and has not answered will not make up for that: nobody is sent it a second time.
// Such a member may hold the claim all the same, as one whose answer has not come in
// time may: what fails here is undone or told to be unknown, never taken for undone.
func (g *Machine) tally(part *batchPart, pledge int) *quorum.Tally[register.Member] {
	no := part.refused[pledge]
	if len(no)+len(part.no) == 0 {
		return part.tally
	}
	tally := quorum.NewTally(part.cohort)
	for _, m := range part.cohort {
		switch {
		case m == g.env.Self, slices.Contains(part.acks, m) && (!slices.Contains(no, m) || g.env.Policy.ClaimRefusalIgnored):
			tally.Add(m)
		case slices.Contains(no, m), slices.Contains(part.no, m), !g.env.View.Up(m):
			tally.Refuse(m)
		}
	}
	return tally
}

package nodes

import (
	"errors"
	"time"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/witness"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
)

// turn is one turn of the loop: steps 1 to 4 of the contract. While too many
// rounds wait for the disk it does nothing; the syncer pokes it again.
func (n *Node) turn() {
	if !n.Clock.Awake(n.S.Now) {
		n.Later(0, n.loop) // once it is
		return
	}
	n.turning = false
	if n.Disk.Bad != "" {
		defer ends(n)
	}
	if len(n.waiting) >= n.S.Plan.Disk.Depth {
		return
	}
	now := n.Clock.Time(n.S.Now)
	if n.S.Mutant.Clock != nil {
		now = n.S.Mutant.Clock(n, now)
	}
	events := append(n.first, n.rest...)
	clear(n.rest)
	n.first, n.rest = n.before[:0], n.rest[:0]
	for _, e := range events {
		if n.S.Mutant.Event != nil && !n.S.Mutant.Event(n, e) {
			continue
		}
		if err := n.Core.Step(now, e); err != nil {
			n.halt(err)
			return
		}
		if n.step() || n.early() {
			return
		}
	}
	clear(events)
	n.before = events
	ready, err := n.Core.Ready(now)
	if err != nil {
		n.halt(err)
		return
	}
	if n.S.Stats[stats.Rounds]%auditRounds == 0 {
		if err := n.Core.Audit(); err != nil {
			n.S.Violation(run.Audit, "%s%v", n, err)
		}
	}
	if n.step() {
		return
	}
	n.perform(&ready)
}

// early sends, in every other round, the answers that wait for no sync as soon as they are there,
// as a node does that gathers, and tells whether the process died at it.
func (n *Node) early() bool {
	if n.synced%2 != 0 {
		return false
	}
	for _, reply := range n.Core.Due(n.synced) {
		if n.Send(reply); n.step() {
			return true
		}
	}
	return false
}

// auditRounds is in how many rounds a core is audited once: it has to look at all of
// its vnodes for it.
const auditRounds = 16

// halt is the end of a process whose core says that it must stop.
func (n *Node) halt(err error) {
	if n.S.Fleet != nil {
		n.S.Fleet.fatal(n, err)
		return
	}
	n.S.Broken("the core stops: %v", err)
}

// perform applies a Ready and hands on what must wait for the disk.
func (n *Node) perform(ready *message.Ready) {
	n.S.Outputs.Ready(n.Index, ready)
	r := n.begin(ready)
	witness.Hasty(seenNode{n}, ready, n.S.Violation)
	if ready.Persist != nil {
		n.Disk.Write(ready.Persist)
		n.Core.Recycle(ready.Persist)
		r.dirty = true
		if n.Armed {
			n.Steps, n.Armed = 1+n.S.Rnd.IntN(5), false
		}
		if n.step() {
			return
		}
	}
	if n.S.Fleet != nil && n.S.Fleet.Witness != nil {
		n.S.Fleet.Witness.Formed(seenNode{n}, ready.Send)
	}
	r.mark = n.Disk.Applied
	if len(r.reads)+len(r.archives) > 0 {
		r.snapshot = n.Disk.Snapshot()
	}
	for _, q := range ready.Register {
		n.ask(q)
	}
	for i := range ready.Early {
		n.S.Fleet.Send(n, &ready.Early[i])
		if n.step() {
			return
		}
	}
	if n.letGo(r, ready) {
		return
	}
	if r.dirty || len(r.replies)+len(r.reads)+len(r.archives)+len(r.sends)+len(r.commit) > 0 {
		n.waiting = append(n.waiting, r)
	} else {
		defer n.end(r)
	}
	n.spin(r.dirty, ready)
	Looking{n}.look(r, ready)
	n.sync()
	n.wakeAt(min(n.Clock.WhenWall(ready.WakeWall), n.Clock.WhenMono(ready.WakeMono)))
	if len(n.first)+len(n.rest) > 0 {
		n.poke()
	}
}

// begin makes the round of a Ready, of the space of one that is over.
func (n *Node) begin(ready *message.Ready) *round {
	var r *round
	if k := len(n.over); k > 0 {
		r, n.over = n.over[k-1], n.over[:k-1]
	} else {
		r = &round{}
	}
	r.number, r.reads, r.archives, r.commit = ready.Round, ready.Reads, ready.Archives, ready.Commit
	return r
}

// end gives back the space of a round that nobody looks at any more.
func (n *Node) end(r *round) {
	if len(r.reads)+len(r.archives) > 0 {
		return // they are yet to be carried out
	}
	clear(r.sends)
	clear(r.replies)
	*r = round{sends: r.sends[:0], replies: r.replies[:0]}
	n.over = append(n.over, r)
}

// letGo sends what waits for no round that is not durable yet, keeps the rest
// for the round, and tells whether the process died at it.
func (n *Node) letGo(r *round, ready *message.Ready) bool {
	due := func(after uint64) bool { return after != 0 && after <= n.synced }
	for i := range ready.Send {
		if !due(ready.Send[i].After) {
			r.sends = append(r.sends, ready.Send[i])
		} else if n.S.Fleet.Send(n, &ready.Send[i]); n.step() {
			return true
		}
	}
	for _, reply := range ready.Replies {
		if !due(reply.After) {
			r.replies = append(r.replies, reply)
		} else if n.Send(reply); n.step() {
			return true
		}
	}
	return false
}

// maxSpins is how often in a row a loop may go on at once with nothing to do.
const maxSpins = 1000

// spin looks for a loop that goes round and round: on a real machine it burns a
// processor.
func (n *Node) spin(dirty bool, ready *message.Ready) {
	now := n.Clock.Time(n.S.Now)
	idle := !dirty && len(ready.Replies)+len(ready.Reads)+len(ready.Archives)+len(ready.Send)+len(ready.Commit)+len(ready.Early)+len(ready.Register) == 0
	if !idle || ready.WakeMono > now.Mono && ready.WakeWall > now.Wall {
		n.spins = 0
		return
	}
	if n.spins++; n.spins > maxSpins {
		n.S.Violation("wake-up", "%sthe loop has gone round %d times with nothing to do", n, n.spins)
	}
}

// wakeAt makes the loop look around at a true time, a little late at times.
func (n *Node) wakeAt(at int64) {
	if at == n.wake && at > n.S.Now {
		return // a timer is set
	}
	n.wake = at
	if at == run.Never {
		return
	}
	at = max(at, n.S.Now) + int64(n.S.About(50*time.Microsecond))
	life := n.Life
	n.S.At(at, func() {
		if n.Life == life && n.wake <= n.S.Now && !n.turning {
			n.turning = true
			n.turn()
		}
	})
}

// ask gives a request to the register, which decides it, then answers late or
// with nothing but doubt.
func (n *Node) ask(q register.Request) {
	if n.Peers != nil {
		n.S.Fleet.Asks(n, &q)
		if n.S.Fleet.Witness != nil {
			n.S.Fleet.Witness.Asks(&q)
		}
		n.Peers.Do(q, func(r register.Result) { n.Put(message.Registered{Result: r}, true) })
		return
	}
	d := n.S.About(n.S.Plan.Disk.Answer)
	for _, c := range q.Queues {
		n.paused[c.Name] = true
	}
	n.Later(d/2, func() {
		var result register.Result
		if n.S.Chance(n.S.Plan.Disk.Doubt / 2) {
			result = register.Result{Tag: q.Tag, Err: errLost}
		} else {
			n.register.Do(q, func(r register.Result) { result = r })
			if n.S.Chance(n.S.Plan.Disk.Doubt / 2) {
				result = register.Result{Tag: q.Tag, Err: errLost}
			}
		}
		n.Later(d/2, func() { n.Put(message.Registered{Result: result}, true) })
	})
}

var errLost = errors.New("the register's answer was lost")

// sync makes the waiting rounds durable, one sync for all of them, and lets
// them go: steps 5 to 7 of the contract.
func (n *Node) sync() {
	if n.syncing || len(n.waiting) == 0 {
		return
	}
	rounds, dirty, mark := n.waiting, false, n.Disk.Applied
	n.waiting, n.flying = nil, rounds
	for _, r := range rounds {
		dirty = dirty || r.dirty
	}
	if n.S.Mutant.NoSync || mutant.AckBeforeSync.On() {
		dirty = false
	}
	n.syncing = true
	d := time.Duration(0)
	if dirty {
		n.S.Stats[stats.Syncs]++
		d = n.syncTime()
	}
	n.Later(d, func() {
		if dirty {
			n.Disk.Secure(mark)
		}
		if n.step() {
			return
		}
		n.synced = rounds[len(rounds)-1].number
		for _, r := range rounds {
			if n.release(r) {
				return
			}
		}
		for _, r := range rounds {
			n.end(r)
		}
		n.syncing, n.flying = false, nil
		n.sync()
		if len(n.first)+len(n.rest) > 0 || n.wake <= n.S.Now { // the loop was held up by what waited
			n.poke()
		}
	})
	if len(n.first)+len(n.rest) > 0 || n.wake <= n.S.Now {
		n.poke()
	}
}

// syncTime draws how long a sync takes.
func (n *Node) syncTime() time.Duration {
	d := n.S.About(n.S.Plan.Disk.Sync)
	if n.S.Chance(n.S.Plan.Disk.Stall) {
		d = n.S.Between(0, plan.StallFor)
	}
	return d
}

// release lets a durable round go and tells whether the process died at it.
func (n *Node) release(r *round) bool {
	for _, q := range r.commit {
		n.ask(q)
	}
	for i := range r.sends {
		n.S.Fleet.Send(n, &r.sends[i])
		if n.step() {
			return true
		}
	}
	for i := range r.replies {
		n.Send(r.replies[i])
		if n.step() {
			return true
		}
	}
	for i := range r.reads {
		read := &r.reads[i]
		n.Later(n.S.About(n.S.Plan.Disk.Read), func() { n.read(r.snapshot, read) })
	}
	for i := range r.archives {
		a := &r.archives[i]
		n.Later(n.S.About(n.S.Plan.Disk.Sync), func() { n.archive(r.snapshot, a) })
	}
	return false
}

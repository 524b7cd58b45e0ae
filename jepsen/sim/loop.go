package sim

import (
	"errors"
	"time"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/witness"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
)

// turn is one turn of the loop: steps 1 to 4 of the contract. While too many
// rounds wait for the disk it does nothing; the syncer pokes it again.
func (n *node) turn() {
	if !n.Clock.Awake(n.s.Now) {
		n.later(0, n.loop) // once it is
		return
	}
	n.turning = false
	if n.disk.Bad != "" {
		defer ends(n)
	}
	if len(n.waiting) >= n.s.plan.Disk.Depth {
		return
	}
	now := n.Clock.Time(n.s.Now)
	if n.s.mutant.Clock != nil {
		now = n.s.mutant.Clock(n, now)
	}
	events := append(n.first, n.rest...)
	clear(n.rest)
	n.first, n.rest = n.before[:0], n.rest[:0]
	for _, e := range events {
		if n.s.mutant.Event != nil && !n.s.mutant.Event(n, e) {
			continue
		}
		if err := n.core.Step(now, e); err != nil {
			n.halt(err)
			return
		}
		if n.step() || n.early() {
			return
		}
	}
	clear(events)
	n.before = events
	ready, err := n.core.Ready(now)
	if err != nil {
		n.halt(err)
		return
	}
	if n.s.stats[stats.Rounds]%auditRounds == 0 {
		if err := n.core.Audit(); err != nil {
			n.s.violation(Audit, "%s%v", n, err)
		}
	}
	if n.step() {
		return
	}
	n.perform(&ready)
}

// early sends, in every other round, the answers that wait for no sync as soon as they are there,
// as a node does that gathers, and tells whether the process died at it.
func (n *node) early() bool {
	if n.synced%2 != 0 {
		return false
	}
	for _, reply := range n.core.Due(n.synced) {
		if n.send(reply); n.step() {
			return true
		}
	}
	return false
}

// auditRounds is in how many rounds a core is audited once: it has to look at all of
// its vnodes for it.
const auditRounds = 16

// halt is the end of a process whose core says that it must stop.
func (n *node) halt(err error) {
	if n.s.fleet != nil {
		n.s.fleet.fatal(n, err)
		return
	}
	n.s.broken("the core stops: %v", err)
}

// perform applies a Ready and hands on what must wait for the disk.
func (n *node) perform(ready *message.Ready) {
	n.s.outputs.Ready(n.index, ready)
	r := n.begin(ready)
	witness.Hasty(seenNode{n}, ready, n.s.violation)
	if ready.Persist != nil {
		n.disk.Write(ready.Persist)
		n.core.Recycle(ready.Persist)
		r.dirty = true
		if n.armed {
			n.steps, n.armed = 1+n.s.Rnd.IntN(5), false
		}
		if n.step() {
			return
		}
	}
	if n.s.fleet != nil && n.s.fleet.witness != nil {
		n.s.fleet.witness.Formed(seenNode{n}, ready.Send)
	}
	r.mark = n.disk.Applied
	if len(r.reads)+len(r.archives) > 0 {
		r.snapshot = n.disk.Snapshot()
	}
	for _, q := range ready.Register {
		n.ask(q)
	}
	for i := range ready.Early {
		n.s.fleet.send(n, &ready.Early[i])
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
	looking{n}.look(r, ready)
	n.sync()
	n.wakeAt(min(n.Clock.WhenWall(ready.WakeWall), n.Clock.WhenMono(ready.WakeMono)))
	if len(n.first)+len(n.rest) > 0 {
		n.poke()
	}
}

// begin makes the round of a Ready, of the space of one that is over.
func (n *node) begin(ready *message.Ready) *round {
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
func (n *node) end(r *round) {
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
func (n *node) letGo(r *round, ready *message.Ready) bool {
	due := func(after uint64) bool { return after != 0 && after <= n.synced }
	for i := range ready.Send {
		if !due(ready.Send[i].After) {
			r.sends = append(r.sends, ready.Send[i])
		} else if n.s.fleet.send(n, &ready.Send[i]); n.step() {
			return true
		}
	}
	for _, reply := range ready.Replies {
		if !due(reply.After) {
			r.replies = append(r.replies, reply)
		} else if n.send(reply); n.step() {
			return true
		}
	}
	return false
}

// maxSpins is how often in a row a loop may go on at once with nothing to do.
const maxSpins = 1000

// spin looks for a loop that goes round and round: on a real machine it burns a
// processor.
func (n *node) spin(dirty bool, ready *message.Ready) {
	now := n.Clock.Time(n.s.Now)
	idle := !dirty && len(ready.Replies)+len(ready.Reads)+len(ready.Archives)+len(ready.Send)+len(ready.Commit)+len(ready.Early)+len(ready.Register) == 0
	if !idle || ready.WakeMono > now.Mono && ready.WakeWall > now.Wall {
		n.spins = 0
		return
	}
	if n.spins++; n.spins > maxSpins {
		n.s.violation("wake-up", "%sthe loop has gone round %d times with nothing to do", n, n.spins)
	}
}

// wakeAt makes the loop look around at a true time, a little late at times.
func (n *node) wakeAt(at int64) {
	if at == n.wake && at > n.s.Now {
		return // a timer is set
	}
	n.wake = at
	if at == never {
		return
	}
	at = max(at, n.s.Now) + int64(n.s.About(50*time.Microsecond))
	life := n.Life
	n.s.At(at, func() {
		if n.Life == life && n.wake <= n.s.Now && !n.turning {
			n.turning = true
			n.turn()
		}
	})
}

// ask gives a request to the register, which decides it, then answers late or
// with nothing but doubt.
func (n *node) ask(q register.Request) {
	if n.peers != nil {
		n.s.fleet.asks(n, &q)
		if n.s.fleet.witness != nil {
			n.s.fleet.witness.Asks(&q)
		}
		n.peers.do(q, func(r register.Result) { n.put(message.Registered{Result: r}, true) })
		return
	}
	d := n.s.About(n.s.plan.Disk.Answer)
	for _, c := range q.Queues {
		n.paused[c.Name] = true
	}
	n.later(d/2, func() {
		var result register.Result
		if n.s.Chance(n.s.plan.Disk.Doubt / 2) {
			result = register.Result{Tag: q.Tag, Err: errLost}
		} else {
			n.register.Do(q, func(r register.Result) { result = r })
			if n.s.Chance(n.s.plan.Disk.Doubt / 2) {
				result = register.Result{Tag: q.Tag, Err: errLost}
			}
		}
		n.later(d/2, func() { n.put(message.Registered{Result: result}, true) })
	})
}

var errLost = errors.New("the register's answer was lost")

// sync makes the waiting rounds durable, one sync for all of them, and lets
// them go: steps 5 to 7 of the contract.
func (n *node) sync() {
	if n.syncing || len(n.waiting) == 0 {
		return
	}
	rounds, dirty, mark := n.waiting, false, n.disk.Applied
	n.waiting, n.flying = nil, rounds
	for _, r := range rounds {
		dirty = dirty || r.dirty
	}
	if n.s.mutant.NoSync || mutant.AckBeforeSync.On() {
		dirty = false
	}
	n.syncing = true
	d := time.Duration(0)
	if dirty {
		n.s.stats[stats.Syncs]++
		d = n.syncTime()
	}
	n.later(d, func() {
		if dirty {
			n.disk.Secure(mark)
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
		if len(n.first)+len(n.rest) > 0 || n.wake <= n.s.Now { // the loop was held up by what waited
			n.poke()
		}
	})
	if len(n.first)+len(n.rest) > 0 || n.wake <= n.s.Now {
		n.poke()
	}
}

// syncTime draws how long a sync takes.
func (n *node) syncTime() time.Duration {
	d := n.s.About(n.s.plan.Disk.Sync)
	if n.s.Chance(n.s.plan.Disk.Stall) {
		d = n.s.Between(0, plan.StallFor)
	}
	return d
}

// release lets a durable round go and tells whether the process died at it.
func (n *node) release(r *round) bool {
	for _, q := range r.commit {
		n.ask(q)
	}
	for i := range r.sends {
		n.s.fleet.send(n, &r.sends[i])
		if n.step() {
			return true
		}
	}
	for i := range r.replies {
		n.send(r.replies[i])
		if n.step() {
			return true
		}
	}
	for i := range r.reads {
		read := &r.reads[i]
		n.later(n.s.About(n.s.plan.Disk.Read), func() { n.read(r.snapshot, read) })
	}
	for i := range r.archives {
		a := &r.archives[i]
		n.later(n.s.About(n.s.plan.Disk.Sync), func() { n.archive(r.snapshot, a) })
	}
	return false
}

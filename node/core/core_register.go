package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/operator"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// registerRequest is what a request to the register is for.
type registerRequest struct {
	changes []register.Change
	set     *setQueue                         // nil: none
	then    func(clock.Time, register.Result) // hears the answer; nil: nobody

	generation, revision uint64 // of the register here when it was asked
}

// registerAsks is what this node asks of the register.
type registerAsks struct {
	tag     uint64                     // of the last request
	pending map[uint64]registerRequest // by tag
	askAt   int64                      // when to ask again, mono ns; 0: no need

	behind   *register.State // what it said that is older than what this node was shown before; nil: nothing
	behindAt int64           // mono ns from when on that has to do
}

// askAgain is the pause after the register has failed.
const askAgain = 100 * time.Millisecond

// ask sends a request to the register: a read when there are no changes.
func (c *Core) ask(changes []register.Change) {
	c.send(registerRequest{changes: changes}, register.Request{Changes: changes})
}

func (c *Core) send(e registerRequest, r register.Request) {
	c.asked.tag++
	r.Tag = c.asked.tag
	e.generation, e.revision = c.view.State.Generation, c.view.State.Revision
	if b := &c.standing.Rollback; standing.Earlier(e.generation, e.revision, b.Generation, b.Revision) {
		e.generation, e.revision = b.Generation, b.Revision // of before this start
	}
	c.asked.pending[r.Tag] = e
	c.round.Ready.Register = append(c.round.Ready.Register, r)
}

// consult sends a request to the register and answers a client with what comes of it, or that
// the register does not answer, which may have had an effect.
func (c *Core) consult(
	from message.Origin, r register.Request, unavailable func(error, nornv1.Effect) *proto.Error, effect nornv1.Effect,
	then func(clock.Time, *register.Result) (gproto.Message, *proto.Error),
) (gproto.Message, *proto.Error) {
	c.send(registerRequest{then: func(now clock.Time, res register.Result) {
		if res.Err != nil {
			c.round.Refuse(from, unavailable(res.Err, effect))
			return
		}
		m, err := then(now, &res)
		c.round.Done(from, m, err)
	}}, r)
	return nil, nil
}

// registered takes the register's answer.
func (c *Core) registered(now clock.Time, r register.Result) {
	e, ok := c.asked.pending[r.Tag]
	if !ok {
		return
	}
	delete(c.asked.pending, r.Tag)
	if r.Err != nil && e.set != nil {
		m, err := c.queues.changed(now, e.set, r)
		c.round.Done(e.set.from, m, err)
	}
	if r.Err != nil {
		c.asked.askAt = now.Mono + int64(askAgain) // unknown is not failed: read what came of it
		if e.then != nil {
			e.then(now, r)
		}
		return
	}
	c.standing.Rollback.Judge(e.generation, e.revision, &r.State)
	if !c.learn(now, &r.State) {
		if !c.view.Current {
			c.asked.askAt = now.Mono + int64(askAgain)
		}
		return
	}
	c.view.Current = true
	if e.set != nil && r.Err == nil {
		m, err := c.queues.changed(now, e.set, r)
		c.round.Done(e.set.from, m, err)
	}
	if e.then != nil {
		e.then(now, r)
	}
}

// changed takes over what has changed in the register.
func (c *Core) changed(now clock.Time, e message.Changed) {
	c.view.Leads = e.Leads
	if !slices.Equal(c.view.Voters, e.Voters) || !slices.Equal(c.view.Outgoing, e.Outgoing) {
		c.view.VoterChanges++
	}
	c.view.Voters, c.view.Outgoing, c.view.Majority = e.Voters, e.Outgoing, e.Majority
	c.learn(now, &e.State)
	c.schedules.Lead(now, e.Leads)
}

// catchUpFor is how long a node waits at its start for its register to get to where
// it was: longer than an election of the register's takes, with all that comes before.
const catchUpFor = 3 * time.Second

// catchUp tells whether a state that is behind what this node was shown before it
// started has to do: without a majority the register cannot go through its log, and
// tasks are to be taken in all the same. Whoever goes by it counts for nothing where a
// majority is asked for ([leadership.Acceptors.Blind], [standing.Disk.Trusts], [replication.Writes.unsure]).
func catchUp(c *Core, now clock.Time, s *register.State) bool {
	if c.asked.behind == nil {
		c.asked.behindAt = now.Mono + int64(catchUpFor)
	}
	c.asked.behind = s
	return now.Mono >= c.asked.behindAt
}

// learn takes over what the register says. States may come out of order.
func (c *Core) learn(now clock.Time, s *register.State) bool {
	if len(s.Cells) != len(c.view.Cells) {
		return false // of a member that nobody has filled yet
	}
	if !c.view.Joined && c.acceptors.Ahead(s) && !catchUp(c, now, s) {
		return false // of a register that has just been opened, and goes through its log
	}
	c.view.Joined, c.asked.behind = true, nil
	if c.closed == nil && operator.Destroyed(s) {
		c.drain(refusal.Stopping()) // nothing is to be acknowledged that is about to be deleted
	}
	left := false // some partition is kept by others from now on
	for p := range s.Cells {
		if s.Cells[p].Epoch >= c.view.Cells[p].Epoch {
			kept := !c.view.Elsewhere(ring.Partition(p))
			c.view.Cells[p] = s.Cells[p]
			left = left || kept && c.view.Elsewhere(ring.Partition(p))
			c.retention.Tombstones.Follow(ring.Partition(p))
		}
	}
	c.standing.Disk.Changed()
	c.stand()
	c.acceptors.Registered()
	c.elector.Changed(now)
	c.view.Look()
	for p := range c.view.Cells {
		if slices.Contains(c.view.Cells[p].Cohort, c.cfg.Self) && !c.vnodes.Opened(ring.Partition(p)) {
			c.vnodes.Use(ring.Partition(p))
		}
	}
	c.replication.Writes.Changed()
	c.view.Keep(s)
	c.standing.Disk.Words.Keep(c.standing.Disk)
	c.stand()
	grow(c)
	c.sharedConfig.compare(c.view.Leads)
	c.repairs.Changed(now)
	c.transfer.Learn(now)
	if left {
		c.logs.Moved()
	}
	c.schedules.Observe(now, s)
	c.sessions.Names.Learn(now, s)
	c.tenants.Learn(s)
	if bad := c.queues.load(s); bad != nil {
		c.round.Check(bad)
		return false
	}
	return true
}

// newView is the view of a node that has heard of nothing yet.
func newView(cfg *Config) *view.View { return view.New(cfg.Self, cfg.Cluster.Partitions) }

// heard takes over who is in reach.
func (c *Core) heard(members []register.Member) {
	for _, m := range c.view.Hear(members) {
		c.repairs.Returned(m)
		c.dispatch.Returned(c.round.Now)
	}
	c.repairs.Room(c.round.Now)
	c.routes.Hear()
}

// openVnodes reads what the store has of each partition.
func openVnodes(c *Core, view store.Reader, now clock.Time) error {
	all := make([]*vnode.Vnode, c.cfg.Cluster.Partitions)
	for p := range c.cfg.Cluster.Partitions {
		open := vnode.Open
		if vnode.Dropping(view, ring.Partition(p)) {
			open = func(p ring.Partition, cfg vnode.Config, view store.Reader, now clock.Time) (*vnode.Vnode, error) {
				return vnode.Blank(p, cfg, view, now)
			}
			c.transfer.Recover(ring.Partition(p))
		}
		v, err := open(ring.Partition(p), c.vcfg, view, now)
		if err != nil {
			return fmt.Errorf("core: partition %d: %w", p, err)
		}
		if partitions.Idle(v, view) && !c.view.Dropping[ring.Partition(p)] {
			continue // it is opened when it is used, or is to be kept here
		}
		all[p] = v
		v.Queues(func(name string, _ *vnode.Counts) { c.queues.use(name, now) })
		v.Held(func(task id.ID, r *claim.Record) {
			key := message.AskKey{Session: r.Session, Request: r.Request}
			c.dispatch.Index.Recover(message.GrantRef{Partition: ring.Partition(p), Task: task, Token: r.Token, Ask: key})
		})
	}
	seen := c.vcfg
	seen.Tree = false // it stands for all that are not open: its tree would be one of another partition
	blank, err := vnode.Blank(0, seen, view, now)
	c.vnodes = partitions.New(all, blank, func(p ring.Partition) *vnode.Vnode { // there was nothing of it when the node began, or since it was deleted
		cfg := c.vcfg
		cfg.Tree = cfg.Tree || !c.view.Alone || c.view.Company() // from the first fact on
		v, err := partitions.Open(p, cfg, c.round.Tx, c.round.Now)
		if !c.round.Check(err) {
			v = blank // the node stops
		}
		return v
	})
	return err
}

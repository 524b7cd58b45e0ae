package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// leading is what this node does when it comes to lead a partition, or does so no more.
type leading struct{ *Core }

// openAcceptors reads what this node has promised.
func openAcceptors(c *Core, view store.View) (err error) {
	c.acceptors, err = leadership.OpenAcceptors(&leadership.Env{Policy: c.cfg.Policy.Leadership, Self: c.cfg.Self, Rand: c.cfg.Rand, View: c.view, Round: c.round, Others: leading{c}, Register: leading{c}}, c.cfg.Cluster.Partitions, view)
	return err
}

// Won has what waits on this node's leading of a partition looked at.
func (c leading) Won(now clock.Time, v *vnode.Vnode, succeeds bool) {
	p := v.Partition
	c.dependency.Won(now, p)
	v.Announce()
	c.dispatch.Won(now, p)
	if succeeds { // what the one before has brought to a majority may not have come here
		c.repairs.Demand(now, p)
	}
}

// Lost gives up what waits for a majority of a partition.
func (c leading) Lost(p ring.Partition) {
	c.replication.Confirms.Look = true
	c.leases.Stop(p)
}

// Compare begins a comparison.
func (c leading) Compare(now clock.Time, k message.Pair) { c.repairs.Copy(now, k) }

// Forget has a partition deleted.
func (c leading) Forget(p ring.Partition) { c.transfer.Forget(p) }

// Members is what placement knows of the members.
func (c leading) Members() *placement.View { return c.transfer.Driver.View() }

// Change asks the register for changes.
func (c leading) Change(changes []register.Change) { c.ask(changes) }

// Commit does so once all is on disk that was written up to now.
func (c leading) Commit(changes []register.Change, then func(clock.Time, register.Result)) {
	c.asked.tag++
	c.asked.pending[c.asked.tag] = registerRequest{then: then}
	c.round.Ready.Commit = append(c.round.Ready.Commit, register.Request{Tag: c.asked.tag, Changes: changes})
}

// Read asks the register for its state.
func (c leading) Read(then func(clock.Time, register.Result)) {
	c.send(registerRequest{then: then}, register.Request{})
}

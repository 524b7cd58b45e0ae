package core

import (
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// vnode is the partition of a task.
func (c *Core) vnode(task id.ID) *vnode.Vnode {
	return c.vnodes.Use(ring.Of(task, len(c.view.Cells)))
}

// lastAsked is the tag of the last request to the register. The next one leaves one out.
func lastAsked(c *Core) uint64 { return c.register.Number() - 1 }

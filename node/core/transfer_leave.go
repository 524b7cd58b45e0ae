package core

import "github.com/norn-dev/norn/register"

// retire asks for this node's own removal as soon as it leaves and has nothing
// left to hand over, so that nobody waits for the driver, who cannot know that.
// A request that gets lost is the driver's after all.
func (m *transfer) retire() {
	if len(m.incoming)+len(m.outgoing)+len(m.c.view.Dropping) > 0 || m.retired == m.c.view.State.Revision {
		return
	}
	if change, ok := m.driver.View().Leave(m.c.cfg.Self); ok {
		m.retired = m.c.view.State.Revision
		m.c.send(registerRequest{}, register.Request{Nodes: []register.NodeChange{change}})
	}
}

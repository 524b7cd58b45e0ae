package transfer

import "github.com/norn-dev/norn/register"

// retire asks for this node's own removal as soon as it leaves and has nothing
// left to hand over, so that nobody waits for the driver, who cannot know that.
// A request that gets lost is the driver's after all.
func (m *Machine) retire() {
	if len(m.Incoming)+len(m.Outgoing)+len(m.View.Dropping) > 0 || m.retired == m.View.State.Revision {
		return
	}
	if change, ok := m.Driver.View().Leave(m.Self); ok {
		m.retired = m.View.State.Revision
		m.Node.ChangeRegister(register.Request{Nodes: []register.NodeChange{change}})
	}
}

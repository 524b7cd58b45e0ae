package node

import (
	"fmt"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/register/raftnode"
)

// force makes this node the only member of the register, if the operator says
// so in a way that cannot be said by mistake or twice (design 7.1).
func (n *Node) force() error {
	want := n.cfg.ForceNewRegister
	if want == "" {
		return nil
	}
	if n.dir.joins() {
		return noRegister(n.cfg)
	}
	state, err := group.Export(n.dir.register)
	if err != nil {
		return fmt.Errorf("force-new-register: %w", err)
	}
	name := func(generation uint64) string { return fmt.Sprintf("%s:%d", n.cluster.ID, generation) }
	switch want {
	case name(state.Generation):
		n.log.Warn("register.forced", "generation", state.Generation, "meaning", "this generation has begun already; take force-new-register out of the configuration")
		return nil
	case name(state.Generation + 1):
	default:
		return fmt.Errorf("%w: force-new-register: %q is not the generation to begin; stop all other nodes, and if their register is lost for good say %s", ErrDirectory, want, name(state.Generation+1))
	}
	if err := raftnode.Force(n.dir.register, n.record()); err != nil {
		return fmt.Errorf("force-new-register: %w", err)
	}
	n.log.Warn("register.forced", "generation", state.Generation+1, "nodes", len(state.Nodes), "meaning", "this node is the only member now; the others count as removed")
	return nil
}

// noRegister refuses to force a register where there is none.
func noRegister(cfg *config.Config) error {
	return fmt.Errorf("%w: force-new-register: %s has no register; start it where one is", ErrDirectory, cfg.Data)
}

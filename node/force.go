package node

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/core/standing"
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
	words, knows := strings.CutSuffix(want, behind)
	generation, err := strconv.ParseUint(strings.TrimPrefix(words, n.cluster.ID.String()+":"), 10, 64)
	switch {
	case err == nil && generation <= state.Generation && words == name(generation):
		n.log.Warn("register.forced", "generation", state.Generation, "meaning", "this generation has begun already; take force-new-register out of the configuration")
		return nil
	case words != name(state.Generation+1):
		return fmt.Errorf("%w: force-new-register: %q is not the generation to begin; stop all other nodes, and if their register is lost for good say %s", ErrDirectory, want, name(state.Generation+1))
	}
	if err := mayLead(n, knows, name(state.Generation+1)+behind); err != nil {
		return err
	}
	if err := raftnode.Force(n.dir.register, n.record()); err != nil {
		return fmt.Errorf("force-new-register: %w", err)
	}
	n.log.Warn("register.forced", "generation", state.Generation+1, "nodes", len(state.Nodes), "meaning", "this node is the only member now; the others count as removed")
	return nil
}

// behind is what an operator adds who knows that the disk of the node has lost something, as
// those of all others have.
const behind = ":forgotten"

// mayLead refuses to begin a register anew on a disk that has lost what it had acknowledged:
// such a node neither votes nor leads, and another one may have lost nothing. Where all have,
// one of them has to do.
func mayLead(n *Node, knows bool, words string) error {
	by, lost, err := standing.ReadForgotten(n.dir.facts, n.self, n.dir.super.last.Mark, n.dir.setBack)
	switch {
	case err != nil:
		return fmt.Errorf("force-new-register: %w", err)
	case !lost:
		return nil
	case knows:
		n.log.Warn("register.forced_behind", "meaning", "this disk has lost what it had acknowledged: it hands nothing out until `norn cluster recover --accept-loss` gives up what the others had; then it starts again by itself as another incarnation")
		return nil
	}
	right := "a node whose norn_forgot is 0"
	if by != "" {
		right += " (" + by + " knows more than this one)"
	}
	return fmt.Errorf("%w: force-new-register: the disk of node %s has lost what it had acknowledged (norn_forgot is 1): force %s; if the disks of all nodes have lost something, take the one with the latest copy and say %s there",
		ErrDirectory, n.self.Node, right, words)
}

// noRegister refuses to force a register where there is none.
func noRegister(cfg *config.Config) error {
	return fmt.Errorf("%w: force-new-register: %s has no register; start it where one is", ErrDirectory, cfg.Data)
}

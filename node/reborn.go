package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/sysclock"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/raftnode"
	"github.com/norn-dev/norn/register/snapshots"
)

// beginAgain ends this incarnation, whose disk has lost what it had acknowledged and which is
// all that is left by the word of an operator: at its next start the directory is another one,
// with the facts it has, of a register that goes on from this one's.
func (n oldLife) beginAgain() error {
	state := n.members.group.Load().State()
	file, err := n.keepRegister(&state)
	if err != nil {
		return fmt.Errorf("begin again: the register: %w", err)
	}
	path := func(name string) string { return filepath.Join(n.cfg.Data, name) }
	b, err := os.ReadFile(path(identityFile))
	if err != nil {
		return fmt.Errorf("begin again: %w", err)
	}
	var old identity
	if err := json.Unmarshal(b, &old); err != nil {
		return fmt.Errorf("begin again: %w", err)
	}
	old.Register = filepath.Base(file)
	if b, err = json.MarshalIndent(old, "", "  "); err != nil {
		return fmt.Errorf("begin again: %w", err)
	}
	if err := writeFile(path(oldLifeFile), append(b, '\n')); err != nil { // from here on it counts
		return err
	}
	if err := errors.Join(os.Remove(path(identityFile)), syncDir(n.cfg.Data)); err != nil {
		return fmt.Errorf("begin again: %w", err)
	}
	n.log.Warn("node.begins_again", "incarnation", n.self.Incarnation.String(), "generation", state.Generation+1, "register", file,
		"meaning", "this disk has lost what it had acknowledged, and what all others had is given up: the node goes on as another incarnation, with what it has")
	return nil
}

// outlived tells whether a node is of before this one was forced to begin the register anew, in
// which it is alone.
func (m *membership) outlived(who register.Member) bool {
	g := m.group.Load()
	if g == nil {
		return false
	}
	state := g.State()
	have, known := state.Find(who)
	return state.Generation > 0 && aloneIn(&state) && known && have.Status == register.Removed
}

// openBegunAgain makes a directory that was told to begin again the whole of its cluster,
// with the facts it has. A crash in the middle of it is followed by another try.
func openBegunAgain(ctx context.Context, cfg *config.Config, old *identity, open openStore) (*directory, error) {
	if old.Node != cfg.Name {
		return nil, fmt.Errorf("%w: %s belongs to node %q, not %q; start with --name %s or with another --data", ErrDirectory, cfg.Data, old.Node, cfg.Name, old.Node)
	}
	in, err := objects.Open(filepath.Join(cfg.Data, beforeDir))
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	defer func() { _ = in.Close() }() // what was read counts
	s, _, err := snapshots.Latest(ctx, in, old.Register)
	if err != nil {
		return nil, fmt.Errorf("%w: the register that %s goes on from, %s: %w", ErrDirectory, cfg.Data, filepath.Join(beforeDir, old.Register), err)
	}
	d := &directory{self: register.Member{Node: cfg.Name}, cluster: s.State.Cluster, old: old}
	_, _ = rand.Read(d.self.Incarnation[:])
	err = d.format(cfg, open, func() error {
		return raftnode.Restore(d.register, s.State, s.State.Generation+1, sysclock.New(cfg).Wall().UnixNano(), record(cfg, d.self, cfg.PeerListen))
	})
	if err == nil {
		err = endOldLife(cfg.Data)
	}
	d.old = nil
	return d, err
}

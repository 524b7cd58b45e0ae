package node

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/register/snapshots"
)

const (
	// oldLifeFile is the identity of a directory whose cluster has begun anew from
	// a backup without it, or that has lost what it had acknowledged. It waits to be let in with its facts, under a new
	// incarnation: what it has of the register, and what it promised, counts no more.
	oldLifeFile = "OLDLIFE"
	// beforeDir is where the register of such a directory is kept, as a snapshot: it
	// may be newer than the one that the cluster began from.
	beforeDir = "before"
	// keepBefore is how many: each is of another restore.
	keepBefore = 16
)

// readOldLife reads the identity of a directory that waits to be let in again;
// nil: it is none.
func readOldLife(path func(string) string) (*identity, error) {
	b, err := os.ReadFile(path(oldLifeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var old identity
	if err == nil {
		err = json.Unmarshal(b, &old)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDirectory, path(oldLifeFile), err)
	}
	return &old, old.readable(filepath.Dir(path(oldLifeFile)))
}

// entered tells whether a directory that waited to be let in again has been, under
// another incarnation: files that were deleted may be there again after a power failure.
// To format it anew would take the register away from a member.
func entered(path func(string) string, old *identity) bool {
	var have identity
	b, err := os.ReadFile(path(identityFile))
	return err == nil && json.Unmarshal(b, &have) == nil && have.Incarnation != old.Incarnation && !exists(path(formattingFile))
}

// endOldLife deletes what says that a directory waits to be let in.
func endOldLife(data string) error {
	for _, name := range []string{oldLifeFile, joiningFile} {
		if err := os.Remove(filepath.Join(data, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	if err := syncDir(data); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// openOldLife opens a directory that waits to be let in again.
func openOldLife(cfg *config.Config, old *identity, path func(string) string) (*directory, error) {
	for _, at := range old.Join {
		if !slices.Contains(cfg.Join, at) {
			cfg.Join = append(slices.Clip(cfg.Join), at)
		}
	}
	if len(cfg.Join) == 0 {
		return nil, fmt.Errorf("%w: %s waits to be let into cluster %s again, which has begun anew from a backup, with the tasks it has; start it with --join", ErrDirectory, cfg.Data, old.ClusterID)
	}
	d, err := openJoining(cfg, path)
	if err != nil {
		return nil, err
	}
	d.old = old
	return d, nil
}

// mayEnter refuses a cluster that is not the one a directory has tasks of.
func (d *directory) mayEnter(c *register.Cluster) error {
	if d.old != nil && (d.old.ClusterID != c.ID.String() || d.old.Partitions != c.Partitions) {
		return fmt.Errorf("%w: it has tasks of cluster %s (%d partitions), and this is cluster %s (%d partitions)", ErrDirectory, d.old.ClusterID, d.old.Partitions, c.ID, c.Partitions)
	}
	return nil
}

// ErrStartAgain is the failure of a node that has to be started again, and then
// goes on by itself.
var ErrStartAgain = errors.New("the node has to be started again")

// oldLife is a node whose cluster has begun anew without it.
type oldLife struct{ *Node }

// renounce ends this node's life in a cluster that has begun anew without it, as at
// says: at its next start the directory takes a new incarnation, and joins with
// the facts it has, because they may be the only copies. Each address to join says so,
// and the others may have spared this node at that moment: a life ends once.
func (n oldLife) renounce(at *peer.Identity) error {
	n.members.forgetting.Lock()
	defer n.members.forgetting.Unlock()
	if n.members.forgotten {
		return nil
	}
	view := n.dir.register.Snapshot()
	state, err := group.Export(view) // with the end of its log, which it alone cannot commit
	view.Close()
	var file string
	if err == nil {
		file, err = n.keepRegister(&state)
	}
	if err != nil {
		return fmt.Errorf("the register of the life before: %w", err)
	}
	path := func(name string) string { return filepath.Join(n.cfg.Data, name) }
	var fresh register.Incarnation
	_, _ = rand.Read(fresh[:])
	if err := writeFile(path(joiningFile), []byte(fresh.String())); err != nil {
		return err
	}
	if err := os.Rename(path(identityFile), path(oldLifeFile)); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := syncDir(n.cfg.Data); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	n.members.forgotten = true
	n.log.Warn("restore.old_life", "generation", state.Generation, "cluster_generation", at.Generation, "by", at.Member.Node, "register", file,
		"meaning", "the cluster has begun anew from a backup without this node: started again it joins under a new incarnation and hands over the tasks it has; settings that were made after that backup are in the snapshot of its register")
	return nil
}

// keepRegister writes the register of the directory where people can look into it.
func (n oldLife) keepRegister(s *register.State) (file string, err error) {
	dir := filepath.Join(n.cfg.Data, beforeDir)
	to, err := objects.Open(dir)
	if err != nil {
		return "", err
	}
	h, b, err := snapshots.Encode(s, n.clock.Wall(), n.self.Node)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, h.Name()), snapshots.Save(n.ctx, to, h, b, keepBefore)
}

// lastRebuilt is the generation that last began from a backup, as far as is known
// here.
func (m *membership) lastRebuilt() uint64 {
	g := m.group.Load()
	if g == nil {
		return 0
	}
	state := g.State()
	generation, _ := state.LastRebuilt()
	return generation
}

// oldCluster is the cluster that a directory has tasks of.
func (d *directory) oldCluster() (u register.UUID) {
	b, err := hex.DecodeString(strings.ReplaceAll(d.old.ClusterID, "-", ""))
	if err == nil {
		copy(u[:], b)
	}
	return u // what it is not is refused by mayEnter
}

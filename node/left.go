package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/norn-dev/norn/node/config"
)

const (
	// leftFile says that the node of a directory is no member any more and has handed over
	// everything: what is in the directory is of no use to anybody.
	leftFile = "LEFT"
	// leftDir is where such a directory's files are kept when it joins anew, until the next time.
	leftDir = "left"
)

// noteLeft writes that a node has left and that nothing in its directory is needed any more.
func (d *directory) noteLeft(data string) error {
	return writeFile(filepath.Join(data, leftFile), []byte(d.self.Incarnation.String()+"\n"))
}

// setLeftAside moves away what a node has left behind that was a member, so that it can join as a
// new one; without anywhere to join it refuses. A crash in the middle is followed by another try.
func setLeftAside(cfg *config.Config) error {
	path := func(name string) string { return filepath.Join(cfg.Data, name) }
	if !exists(path(leftFile)) {
		return nil
	}
	if len(cfg.Join) == 0 {
		return fmt.Errorf("%w: the node of %s has left its cluster and handed over everything: start it with --join to have it join anew, or move the directory away", ErrDirectory, cfg.Data)
	}
	to := path(leftDir)
	if exists(path(identityFile)) { // it comes last: what was set aside before is of an earlier time
		if err := os.RemoveAll(to); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	if err := os.MkdirAll(to, 0o770); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	for _, name := range []string{identityFile, superblockFiles[0], superblockFiles[1], registerDir, factsDir, joiningFile, oldLifeFile} {
		if err := os.Rename(path(name), filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	if err := errors.Join(syncDir(to), syncDir(cfg.Data), os.Remove(path(leftFile)), syncDir(cfg.Data)); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// rejoins tells whether a node that is no member any more, and has handed over everything, is
// to join anew by itself: its process began as no member, on the volume of a node that had
// left or was removed. One that is removed while it runs stays out until it is started again.
func rejoins(n *Node) bool {
	return len(n.cfg.Join) > 0 && n.members.empty.Load() && !Filled(n)
}

// rejoin has the node start again, with its directory set aside.
func rejoin(n *Node) {
	if err := n.dir.noteLeft(n.cfg.Data); err != nil {
		n.fatal(err)
		return
	}
	n.log.Info("node.joins_anew", "incarnation", n.self.Incarnation.String(), "data", filepath.Join(n.cfg.Data, leftDir),
		"meaning", "this node was no member any more when it was started, and has handed over everything: what it had is set aside, and it joins as a new one")
	n.giveWay()
}

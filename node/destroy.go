package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/norn-dev/norn/node/core/operator"
)

// Destroyed tells whether an operator has ended the cluster, as far as this node
// has heard. Whoever runs the node is then to stop it, once the others have had
// time to hear of it too, and to [Erase] its directory.
func (n *Node) Destroyed() bool {
	g := n.members.group.Load()
	if g == nil {
		return false
	}
	s := g.State()
	return operator.Destroyed(&s)
}

// Erase deletes what a node keeps in its data directory, and nothing else that
// may be there. The node must have stopped. A crash on the way leaves a
// directory that counts as never formatted.
func Erase(data string) error {
	path := func(name string) string { return filepath.Join(data, name) }
	if err := writeFile(path(formattingFile), nil); err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	var err error
	for _, name := range []string{identityFile, joiningFile, registerDir, factsDir, snapshotsDir, oldLifeFile, beforeDir, superblockFiles[0], superblockFiles[1], lockFile} {
		err = errors.Join(err, os.RemoveAll(path(name)))
	}
	err = errors.Join(err, syncDir(data))
	if err == nil { // last, for without it half of a directory is damage, also after a power failure
		err = os.Remove(path(formattingFile))
	}
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	return nil
}

package node

import (
	"errors"
	"fmt"

	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// ErrDamaged is returned when something on the disk is not what was written there.
var ErrDamaged = errors.New("what this node has on its disk is damaged")

// errDamage is damage of the files beside the stores.
var errDamage = fmt.Errorf("%w: it is damaged", ErrDirectory)

// remedy is what to do about damage, wherever it shows.
const remedy = "look after this disk, delete no single files; while other nodes live, move the data directory away, keep it, and start this node empty with --join: " +
	"the others give it what they have (docs/how-to/nodes.md, Nodes that are lost); never bring back an older copy of it beside them. A node that is alone goes on from a copy of this very directory, " +
	"or begins anew from a snapshot of the register (docs/how-to/backup.md)"

// judged gives an error that is about damage the one text for that.
func judged(err error) error {
	for _, kind := range []error{store.ErrDamaged, vnode.ErrDamaged, wire.ErrDamaged, errDamage} {
		if errors.Is(err, kind) && !errors.Is(err, ErrDamaged) {
			return fmt.Errorf("%w: %w; %s", ErrDamaged, err, remedy)
		}
	}
	return err
}

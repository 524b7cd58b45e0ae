package message

import (
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// Cells says which cells of the register the sender knows, or asks for later ones
// than these. A node that was removed hears nothing of the register any more, and
// its partitions may have moved since.
type Cells struct {
	Ask   bool
	Cells []KnownCell
}

// KnownCell is the cell of a partition; where it is asked for, its epoch alone.
type KnownCell struct {
	Partition ring.Partition
	Cell      register.Cell
}

func (*Cells) peerMessage() {}

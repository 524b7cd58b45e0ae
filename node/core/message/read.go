package message

import (
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/register"
)

// Fetch asks a replica for all facts of a task.
type Fetch struct {
	Number uint64 // the asker's
	Epoch  uint64 // of the cell whose cohort is asked
	Task   id.ID
}

// Fetched is what the replica has, but for old updates, completions and failures where there
// are very many: those are left to repair, because no reader is shown so much of them.
type Fetched struct {
	Number  uint64
	Facts   []crdt.Fact
	Cohorts [][]register.Member // who else is to be asked, as in a [Fence]
}

func (*Fetch) peerMessage()   {}
func (*Fetched) peerMessage() {}

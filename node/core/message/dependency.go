package message

import (
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// Watch asks a replica how tasks have ended, or will. That one has failed only its leader
// says ([core.doubts]).
type Watch struct {
	Number uint64 // the asker's, which goes up
	Tasks  []id.ID
	Keep   []id.ID // unfinished tasks depend on them: they are not to be collected
}

// Outcomes says how tasks have ended: a completion is final, so any replica that
// knows of it is proof (design 8). A failure may have been undone by a retry since it
// was said, so that it says nothing to who has asked again since.
type Outcomes struct {
	Number   uint64 // of the oldest question to which something failed is the answer
	Outcomes []Outcome
}

// Outcome is the end of one task.
type Outcome struct {
	Task  id.ID
	State crdt.State // completed, dead or cancelled
}

func (*Watch) peerMessage()    {}
func (*Outcomes) peerMessage() {}

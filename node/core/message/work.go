package message

import (
	"time"

	"github.com/norn-dev/norn/id"
)

// Work is news of the claims of workers, between leaders and dispatchers. All of it
// is a hint that makes something happen sooner; leases do without.
type Work struct{ Items []WorkItem }

// WorkKind is what is said of the claims of a worker.
type WorkKind uint8

// Kinds of news.
const (
	WorkDoubt WorkKind = iota + 1 // the worker may hold them: its dispatcher is to ask it
	WorkStop                      // they are to stop: its dispatcher is to tell it
	WorkAsk                       // which ones has it? A leader answers with doubts
)

// WorkItem is news of one worker.
type WorkItem struct {
	Kind     WorkKind
	Instance [16]byte
	Claims   []WorkClaim
	// Association, with a question: what was granted in it is left out.
	Association uint64
}

// WorkClaim is a claim of a worker.
type WorkClaim struct {
	Task  id.ID
	Token uint64
	Lease time.Duration
	Cause uint8 // of a stop: a session.Cause
}

func (*Work) peerMessage() {}

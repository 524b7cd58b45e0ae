package cluster

import (
	"context"
	"errors"
)

// ErrEnded is returned when somebody has ended a run before it was done. What a cluster
// does not get done then is no fault of it.
var ErrEnded = errors.New("the run was ended by somebody")

// Caller is who has begun a run, and may end it: by a signal, or because the test that it
// is part of is over. That a run takes longer than it may by itself is another thing.
type Caller struct {
	Ctx context.Context // nil: nobody can end it
}

// GoesOn is over when somebody ends the run, and not before: other than that of a storm.
func (c Caller) GoesOn() context.Context {
	if c.Ctx == nil {
		return context.Background()
	}
	return c.Ctx
}

// Ended tells whether somebody has ended the run.
func (c Caller) Ended() bool { return c.GoesOn().Err() != nil }

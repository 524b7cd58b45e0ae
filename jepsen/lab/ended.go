package lab

import (
	"context"
	"errors"
)

// errEnded is returned when somebody has ended a run before it was done. What a cluster
// does not get done then is no fault of it.
var errEnded = errors.New("the run was ended by somebody")

// caller is who has begun a run, and may end it: by a signal, or because the test that it
// is part of is over. That a run takes longer than it may by itself is another thing.
type caller struct {
	ctx context.Context // nil: nobody can end it
}

// goesOn is over when somebody ends the run, and not before: other than that of a storm.
func (c caller) goesOn() context.Context {
	if c.ctx == nil {
		return context.Background()
	}
	return c.ctx
}

// ended tells whether somebody has ended the run.
func (c caller) ended() bool { return c.goesOn().Err() != nil }

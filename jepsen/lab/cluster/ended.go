package cluster

import (
	"context"
	"errors"
)

// ErrEnded is returned when somebody has ended a run before it was done. What a cluster
// does not get done then is no fault of it.
var ErrEnded = errors.New("the run was ended by somebody")

// ErrTaken is returned when somebody else has a port that a node was to have. With other
// ports the run may be done.
var ErrTaken = errors.New("a port that was drawn is taken")

// Caller is who has begun a run, and may end it: by a signal, or because the test that it
// is part of is over. That a run takes longer than it may by itself is another thing.
type Caller struct {
	Ctx context.Context         // nil: nobody can end it
	End context.CancelCauseFunc // of Ctx, for what leaves the run without a verdict; nil: nothing does
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

// Why is [ErrTaken] when the run has ended for that, else [ErrEnded].
func (c Caller) Why() error {
	if why := context.Cause(c.GoesOn()); errors.Is(why, ErrTaken) {
		return why
	}
	return ErrEnded
}

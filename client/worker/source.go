package worker

import (
	"context"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// source hands tasks to the worker and keeps their claims: [pushed] by a session
// with one node, [pull] by asking any node, again and again. What runs the tasks
// knows nothing of how they came.
//
// take and close are called by one goroutine, the others by any.
type source interface {
	// take waits for tasks, until there are some, d.wait is over, or ctx ends. It
	// gives no more than there is room for. Tasks that may have been granted when
	// it fails are its own affair: it hands them over the next time, or gives them
	// back in close.
	take(ctx context.Context, d demand) ([]granted, error)
	// report says what came of a task, and repeats that until it is acknowledged,
	// refused, or ctx ends.
	report(ctx context.Context, claim client.Ref, o outcome) (nornv1.State, error)
	// release gives claims back that nothing came of, as report does.
	release(ctx context.Context, claims ...client.Ref) error
	// close ends the taking: nothing is taken any more.
	close(ctx context.Context)
	// over hears that nothing will be reported of a claim any more.
	over(claim client.Ref)
	// end ends the source, once all jobs have.
	end(ctx context.Context)
}

// renewer is a source whose claims are renewed by whoever took them.
type renewer interface {
	// renew renews claims, all in one message, and has a result for each, in their
	// order. before is the time at which the message was made, or earlier. The
	// error means that nothing is known of any of them.
	renew(ctx context.Context, claims []client.Ref) (results []client.RenewResult, before stamp, err error)
}

// breaking is a source that knows when it gives nothing any more.
type breaking interface {
	// broken is closed when take gives nothing any more but an error.
	broken() <-chan struct{}
}

// stopping is a source that says by itself when tasks are to stop.
type stopping interface {
	// stopMissed hears that what take has given has begun: a stop in between found
	// nobody to tell.
	stopMissed(claim client.Ref)
}

// counting is a source that counts slots by itself.
type counting interface {
	// stuck hears that the handler of a claim does not return though its context has
	// ended, and with false that it has after all.
	stuck(claim client.Ref, stuck bool)
}

// remembering is a source that keeps lines of output for whoever asks.
type remembering interface {
	remember(claim client.Ref, line string)
}

// demand is the room there is for tasks: the credit a worker gives.
type demand struct {
	queues []appetite // at least one, in the order of the configuration
	room   int        // for all of them together, at least 1
	wait   time.Duration
}

// appetite is the room for the tasks of one queue.
type appetite = session.Appetite

// granted is a claim that was handed out, and the time before it was asked for.
type granted struct {
	*client.Claim
	before stamp
}

// outcome is what came of a task: it is completed, or failed.
type outcome struct {
	done   client.CompleteOptions
	failed *client.FailOptions // nil: completed
}

// stamp is a moment on the clocks of this process.
type stamp struct {
	at   time.Time     // monotonic
	wall time.Time     // what people set
	boot time.Duration // goes on while the machine is suspended
}

func readClocks() stamp {
	now := time.Now()
	return stamp{at: now, wall: now.Round(0), boot: bootTime()}
}

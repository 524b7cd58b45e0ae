// Package worker runs tasks: it claims them, calls handlers, renews the claims
// and reports what came of it.
//
// Contract.
//
//   - A handler's context ends before its claim does, by timers of this process
//     that no hanging network can hold up. Its cause ([context.Cause]) is
//     [ErrClaimLost], [ErrCancelled], [ErrTimeout] or [ErrShutdown]. Time is the
//     earliest of the monotonic, boot and wall clocks, so that a suspended machine
//     wakes up to lost claims; a process that was frozen asks them before each
//     update.
//   - All claims are renewed together, by one message every third of a lease.
//   - A handler that returns nil completes its task, even late: work that was done
//     is not done again if that can be helped. An error fails it, a panic too,
//     with its stack. [RetryAfter], [Discard] and [Snooze] steer what happens then.
//   - A handler that ignores the end of its context is told of ([Stuck]) and keeps
//     its slot until it returns; nobody can end it. While all slots are taken so the
//     worker takes nothing, and what waits for a slot is given back.
//   - No task is begun whose lease has too little left.
//   - Reports are repeated until they are acknowledged, for up to a quarter of an
//     hour, or until a stop runs out of patience.
//   - Updates of a task are numbered 0, 1, 2, … under its claim and sent in order.
//   - Stopping does not cost an attempt: what has not finished is released.
//
// Handlers may run more than once for a task: when a worker dies, or its report is
// lost for good. Make them idempotent, or hand [Task.Token] to what they write to.
//
// docs/how-to/workers.md has the tables: what errors and causes mean, which metrics there
// are.
package worker

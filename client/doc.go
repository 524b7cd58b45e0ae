// Package client is how a Go program talks to Norn: enqueue, read, claim, finish,
// cancel and retry tasks, and change queues.
//
// Contract.
//
//   - [Dial] does not touch the network. The first call connects: addresses are
//     tried side by side, 300 ms apart, and the first that says hello wins; what
//     worked last comes first. Every call fails over to another one when a
//     connection is lost, a node does not answer pings and nothing moves, or it
//     says that it is unavailable. Between rounds over the addresses it backs off.
//   - Every call may be repeated without a second effect, and is: task IDs are
//     made before the first send, claims carry (session, request number), writes
//     under a claim carry its token. Repeating ends with the context, or after the
//     client's timeout (30 s, plus any wait the call asks for) when the context
//     has no deadline.
//   - When that happens and a request may have arrived, the error is
//     [ErrUnknown]: it may have happened. It is never called failed. Repeat the
//     call with the same ID or token to find out.
//   - A unique key ([Task.Key]) becomes an ID before the first send too: see
//     [Client.LookupKey]. Retry is the exception: a task that has died again when
//     a lost answer is asked for once more is retried again.
//   - Errors of servers are matched with [errors.Is] and the Err… values of this
//     package; [errors.As] gives the [*proto.Error], or the [*Error] with the
//     operation and the number of attempts.
//   - [Claim.Deadline] and [RenewResult.Deadline] are what a worker may believe
//     (design 7.3): past them another worker may have the task.
//
// A Client is for the whole program; its methods may be called from any
// goroutine. Calls with a context that cannot end, or that has a deadline of
// its own, cost no timer.
package client

// Package session is the worker protocol: what a worker and the node that
// hands it tasks, its dispatcher, say to each other, as two pure machines that
// share one health function (design 9; Bistro's worker protocol).
//
// A [Worker] lives in the worker's process, a [Dispatcher] in a node, with a
// session for each worker that has turned to it. Messages come in by Step,
// things that happened by other methods, and what is to be done leaves in a
// Ready. Messages may be lost, doubled, delayed and reordered at will: whatever
// carries them (the worker's one stream) need not repeat anything.
//
// What the machines promise, as long as the clocks of both run at rates that
// differ by less than a thousandth:
//
//  1. A claim (task, token) is pushed to one instance, in one association, in
//     one [RunTask], and started at most once.
//  2. A worker that has said that it was not running a claim never starts it,
//     nor any older claim of the same task.
//  3. A dispatcher calls a claim free ([Settle]) only when its worker surely does
//     not run it and never will.
//  4. A worker reaches must_die, and its handlers have had their time to stop,
//     before its dispatcher believes it lost.
//  5. A worker stops a task before its claim lapses (design 7.3).
//
// What the machines do not know, they ask for: the name of a worker is a lease
// that the CP path grants ([NameRequest], with [Cell] as its rule), claims are
// granted ([Want]), renewed ([Renew]) and ended ([Settle]) by partition leaders.
// What a worker runs is known by its claims, which are on a majority; so a
// session needs no disk, and nothing waits when a dispatcher dies.
//
// The contract of each loop: call Step (or another method), then take Ready and
// carry all of it out, then come again at WakeAt at the latest. Ready may be
// taken after several steps. The time given must never go back on the
// monotonic side; on a worker it must run while the machine is suspended.
package session

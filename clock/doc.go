// Package clock is time as a value, and the only lease arithmetic of Norn.
//
// Nothing here reads a clock: whoever runs a machine reads both clocks once and
// hands the pair in as a [Time]. Monotonic time is compared inside one process
// only; wall time is what crosses processes. Every sum saturates, so that no
// value a peer may send turns a lease that lasts for ever into one that is over.
//
// Contract, with eta the bound on clock difference plus delay (design 7.3, K6;
// protocol (d)): while buffer ≥ eta, and the worker stops at [WorkerDeadline],
// a lease is never [Lease.Lapsed] on the acceptors before its worker has
// stopped. The worker counts from the moment it sent its request, the acceptor
// from the later moment at which it learned of the grant, so that message
// delay drops out; the margin covers drift and the time a handler needs. A
// simulation in the tests shows what each part of the rule is for.
//
// A lease that was learned by restart, vote or push ends early by wall time, which other
// nodes confirm. Where all wall clocks are set ahead alike, they confirm each other. So
// what was left of it when it was learned has to pass on the monotonic clock as well
// ([Lease.EndAt]), and whoever tells others of it says when it ends by the clocks as they
// are then ([Lease.EndBy]).
//
// Limit: a process that restarts has no monotonic time from before. Where all wall clocks
// are set ahead by more than the buffer, and all who tell the next leader of a lease
// restart between that and its end, it may end while its worker still believes in it.
// Tokens fence that.
package clock

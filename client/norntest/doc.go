// Package norntest is a Norn server in the process of a test: for tests of
// programs that use Norn.
//
// Contract.
//
//   - It is the machine that a real node runs (package node/core), over a store in
//     memory and connections in memory: queues, priorities, retries, leases,
//     dependencies, schedules and all errors are those of a cluster of one node.
//   - There is no network, no file and no port; it starts in milliseconds and
//     works inside testing/synctest, where waiting takes no time.
//   - Its clock is that of the process, and [Server.Advance] puts it ahead: tasks
//     become due, leases lapse, retention ends. What clients say about times is
//     understood by its clock. Timers of clients and workers do not move, so a
//     worker whose lease lapsed that way hears of it at its next renewal, as if
//     its own clock were slow. Inside a bubble of testing/synctest time.Sleep
//     moves the clocks of everybody, and Advance is not needed. A bubble begins in
//     the year 2000, in which no IDs of tasks can be made: the server goes to 2026
//     first, so start it before anything that has timers.
//   - [Server.Down] and [Server.Up] are an outage: what was acknowledged stays.
//
// What it does not have: other nodes, disks, archives of finished tasks.
package norntest

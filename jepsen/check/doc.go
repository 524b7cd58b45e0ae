// Package check holds a history to what Norn promises. It sees what clients
// see and nothing else, so the same checker judges the simulator and real
// processes.
//
// Contract:
//
//  1. [Checker.Event] takes the events of a history in order and gives the
//     first broken promise, at the event that shows it.
//  2. It reports only what is wrong for sure. What has an unknown outcome may
//     have happened, and may still happen at any later time.
//  3. After the note [Settled] there are no more faults: whatever can finish
//     must be finished in the last reading of each task, and lists and counts
//     must agree with it. [Checker.Finish] checks that.
//
// A [Ledger] judges a whole history at its end: leases, tokens and fenced locks,
// renewals, finished tasks, dependencies, the order bound, the register's cells
// and what new leaders know. It says nothing of readings, finds all that is
// wrong and not the first, and shares nothing with the Checker but the
// history, so each is a test of the other. Its explanations name every claim
// with all its times on the driver's one clock.
//
// The invariants are those of the fault matrix of the design (I1 to I17), as
// far as clients can see them; the constants say which.
package check

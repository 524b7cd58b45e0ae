// Package bench is the load generator behind `norn bench`: scenarios that
// measure a running cluster over the wire, with as many producers and workers
// as asked for in one process, and the machine's own limits beside them.
//
// Contract.
//
//   - Every run checks what it measures. A task carries its number: one that is
//     acknowledged and never claimed, claimed twice, or not the run's own, and any
//     error, makes the run invalid. The first error ends it.
//   - A rate counts from the first request to the last acknowledgement. Warm-up
//     and filling are not in it.
//   - Latencies come from HdrHistograms. Where the load is open (the latency
//     scenario) the schedule is fixed ahead and a latency counts from the planned
//     time, so that a stall is seen by every task it holds up; nothing is
//     corrected afterwards because nothing is omitted. Where it is closed
//     (everything else), latencies are those of the calls that were made.
//   - Fairness is told where tasks are claimed in their order: how many better tasks
//     a grant passed over (claim), and for how long a task still waited once one
//     that was enqueued a second or more later had been granted (claim, cycle).
package bench

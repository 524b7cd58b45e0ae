// Package bench is the load generator behind `norn bench`: scenarios that
// measure a running cluster over the wire, with as many producers and workers
// as asked for in one process.
//
// Every run checks what it measures: a task that is claimed twice, lost, or an
// error that should not be, makes the run invalid. Latencies come from
// HdrHistograms; where a send schedule is fixed ahead (the latency scenario)
// they count from the planned time, so that a stall is seen by every task that
// it holds up.
package bench

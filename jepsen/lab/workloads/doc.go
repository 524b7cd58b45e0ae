// Package workloads is what clients of a laboratory do while faults come and go: the
// list is [Workloads], one file each (claims in workers.go, schedules in crons.go and
// overlaps.go).
//
//   - Clients are a [Crew] of [Hand]s: each does one thing after the other and writes
//     down what it asked and heard. None judges.
//   - A workload says what must have happened for a run to prove anything.
//   - [Servers] have each node show that it serves: it enqueues, claims and completes a
//     task through that node alone.
package workloads

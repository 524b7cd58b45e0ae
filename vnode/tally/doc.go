// Package tally counts tasks by state.
//
// Contract. A [Tally] has the counters of the queues of all vnodes whose names begin alike. Whoever
// has a queue joins it, counts each change of it, and parts from it: the sum is right at any time.
package tally

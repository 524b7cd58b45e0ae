// Package checks is how a run of a simulated cluster ends, and what it is held to then.
//
//   - settle: the cluster comes to rest: full cohorts, equal replicas, nobody else with data, and
//     every acknowledged task on all replicas of its cohort; then everything is read back.
//   - drowsy: no task stays ready while somewhere a request waits that would take it (lost
//     wake-ups).
//   - validity: whether enough has happened for the run to count, and the judgement of its whole
//     history (check.Ledger).
//   - details: what each node has of a task, for whoever reads of a violation.
//
// What clients see is held to the promises by package jepsen/check, what nodes say and store by
// package witness.
package checks

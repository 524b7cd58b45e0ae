// Package history is what a test of Norn leaves behind: every request of every
// client with what came of it, in the order of true time, and notes of what
// the test did to the nodes meanwhile.
//
// Contract:
//
//  1. A request is two events with one operation number: its [Invoke], and
//     later [OK] (it happened), [Fail] (it surely did not and will not) or
//     [Info] (nobody knows: it may still happen, at any time). A request
//     without a second event is as if it had ended with Info after the last
//     event. Each attempt of a repeated request is an operation of its own.
//  2. Times are true time in ns since the start of the run: that of the
//     simulator, or of the one process that drives the laboratory's clients.
//  3. The form in files is JSON, one event per line. [Sum] digests a history;
//     two runs of one seed have the same sum.
package history

// Package follow has the requests that wait for new lines in the log of a task.
//
// Guarantees:
//
//  1. No wake-up is lost: a fact that comes in while a log is being read has it read again
//     ([Machine.Wake], [Machine.ReadDone]).
//  2. A request that waits is answered at its end at the latest, with an empty page if need be,
//     and at once when its task is kept by others from now on ([Machine.Moved]).
//  3. A page is read from the disk, after the sync of the round: nothing is told that a power
//     failure could undo.
//
// In: requests ([Machine.Follow]), facts ([Machine.Wake]), ends of reads ([Machine.ReadDone]),
// withdrawals ([Machine.Cancel], [Machine.Closed], [Machine.Drain]), time ([Machine.Timeouts],
// [Machine.Due]). Out: reads and answers in [round.Writer].
//
// How many may wait is said by package dispatch, which has the room for all that wait.
package follow

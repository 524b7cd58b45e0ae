// Package policy decides what a schedule launches now, what it skips and why,
// and when to look again (design 10; G4, G5, G6, G13; 172 to 176).
//
// A [Definition] is what the user wants, a [State] what is committed about the
// schedule. [Decide] is a function of both and the wall clock. A cron master
// calls it when a schedule wakes, and does what it says in this order:
//
//  1. begin: commit Decision.After in place of the state it was made from,
//     together with the launch's ID and the skips. A commit that finds another
//     state, version or master changes nothing: decide again.
//  2. enqueue by launch ID; first cancel the task before when it says Replace.
//  3. end: commit [State.Conclude] with what became of it, and decide again.
//
// A state with an open launch gives no other until that is concluded. A master
// that takes over enqueues it again under the same ID, which is nothing when it
// was there, and concludes it. Of a paused
// schedule, and after [Definition.Until], none is made: it concludes what is there.
//
// Contract.
//
//   - An instant is launched at most once, whatever clocks, edits, masters and
//     tz databases do. The watermark is the instant up to which all is decided;
//     it goes back only over what no launch was made of.
//   - Each instant after the creation is launched, waiting, or in a Skip.
//   - An instant is launched late by no more than the window, nor than the
//     deadline. Up to Grace it is on time; beyond it is missed, and the catch-up
//     policy says what of it is launched.
//   - A decision costs a few searches, whatever time has passed: skips are
//     ranges, and a decision has at most one launch.
//   - An edit takes effect after the moment it is made: it neither launches an
//     instant before nor one that was decided.
//
// Every wait is for wall time, which steps: a master sleeps for a second at
// most and then reads the clock again.
package policy

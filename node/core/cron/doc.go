// Package cron is the cron master of a node as a pure machine (design 10;
// G2 to G20). The register keeps schedules, what was decided of them and who is
// master; [Machine] follows it on every node, so that each has the sorted list
// ready (G32), and acts on the one that leads the register's group.
//
// Of each launch, in this order:
//
//  1. begin is committed: what [policy.Decide] says, in place of the very record
//     it was made from, and only while the mastership is ours.
//  2. The task is enqueued under its launch ID, after the task before was
//     cancelled where the policy is to replace it. Twice is once.
//  3. end is committed with what came of it.
//
// Contract.
//
//   - Whoever leads the group takes the mastership before it does anything: a
//     commit with a nonce of its own. Whatever was asked for under another nonce
//     changes nothing from then on. So nothing here depends on clocks or on how
//     fast a deposed master learns of it.
//   - A record that says begun and not ended is finished before anything else of
//     that schedule, and such records are first in the list: the successor
//     enqueues under the same ID.
//   - A schedule has at most one change or launch under way. Changes are
//     committed, and tasks enqueued, in batches: as many as have come due while
//     those before were under way.
//   - Nothing is looked at because time passes but what is first in the list, and
//     each second a bounded number of running tasks, in turn.
//   - An edit is a compare-and-set of the same record, from any node; whoever
//     comes second decides again.
//
// A launch ends as not enqueued when its queue refuses it, or when nobody could
// be reached for [patience] (G20): there is no endless retry.
//
// What each step may assume after a crash, or under another master:
//
//	committed as      task            who goes on
//	not begun         is not there    Decide, from the watermark
//	begun (Open)      may be there    the same launch ID is enqueued again: twice is once
//	enqueued          was there       its end is asked for until it is known
//	ended             may be gone     nobody; the history shows it
//
// Invariant: no task is enqueued whose launch is not committed as begun. Else a master that is
// deposed between both would launch an instant that its successor, by the same record, launches
// or skips anew (the tests' world refuses such a request).
package cron

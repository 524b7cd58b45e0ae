// Package schedules connects who decides about schedules on a node (package cron) with the register,
// which keeps what is decided, and with the tasks that are launched; and it answers who asks about
// schedules or changes them, on any node.
//
// Guarantees:
//
//  1. The register decides: each change is worked out from what it says now, and is written if
//     nobody was faster; else it is worked out anew, so often that an edit ends ([MaxTries]).
//  2. A task of a launch is enqueued under the launch's ID by who keeps its partition. Where the
//     disk of this node is nearly full another node of the cohort enqueues it.
//  3. Package cron hears how its tasks end, those that others keep included ([Machine.Ended],
//     [Machine.Heard]).
//  4. Where a client brings the IDs of what it triggers by hand a repeated request enqueues nothing
//     twice.
//  5. An answer fits a frame, and so does a commit to the register.
//
// In: requests ([Machine.List], [Machine.Change]), the register's states ([Machine.Observe],
// [Machine.Lead]), ends of tasks, time ([Machine.Work], [Machine.Due]). Out: requests by package
// router, answers in [round.Writer], changes that [Node] asks the register for.
//
// The time is that of the members, not of this node's clock ([standing.Clocks.Agreed]).
package schedules

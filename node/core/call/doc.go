// Package call has what requests share that wait for other nodes: whether a write, a read or a
// proposal has reached its cohort, and other cohorts, and until when the rest is waited for.
//
// Guarantees:
//
//  1. A [Quorum] is reached once so many of a partition's cohort have answered and, where
//     their answers name other cohorts, a majority of each of those too: what it stands for
//     outlives an election that its sender did not know of (design 5).
//  2. [ByTime] gives those that wait in the order of their deadlines, of one instant the
//     first that came, so that every replica of a run gives the same order.
package call

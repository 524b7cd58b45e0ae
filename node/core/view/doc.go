// Package view is what a node knows of its cluster: the cell of each partition, the
// members, who is in reach, who votes in the register's group, which partitions are being
// deleted here. Machines read it; the composition alone changes it, before any machine
// takes its step.
//
// Guarantees:
//
//  1. A cell never goes back to an earlier epoch, and [View.State] never to an earlier
//     revision of the same generation.
//  2. Who is in reach is a hint: nothing but waiting and choosing depends on [View.Up].
//  3. [View.Changes] is another number whenever cells or hints may have changed.
//
// In: the register's states and hints of the edge. Out: nothing. A picture of its own for
// each state would cost a copy of all cells with each election, so there is one that
// changes between steps.
package view

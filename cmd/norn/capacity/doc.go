// Package capacity reckons what a cluster for so many tasks needs: nodes, partitions, processors,
// memory, disks and packets. Each coefficient was measured, and says where.
//
// Guarantees:
//
//  1. [Reckon] is a function of what it is given: it asks nobody and reads no clock.
//  2. More tasks never need less of anything.
package capacity

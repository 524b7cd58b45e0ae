// Package sharedconfig compares what is to be configured alike on all nodes with what the node
// that leads the register goes by.
//
// What it guarantees:
//
//  1. Who leads the register writes there what it goes by, once per version.
//  2. A node that is configured otherwise says so ([Machine.Diff]).
//  3. Of two retentions a node collects by the longer one: it collects nothing early that
//     another node would keep.
//
// Events in: [Machine.Compare] with each state of the register. Events out: a change of the
// register's value.
package sharedconfig

// Package audit recomputes what a vnode stores beside its facts, and compares: indexes, counters,
// claims, the tree, and the edges between tasks. Nothing that a server does depends on it; tests and
// the simulator run it after what they do to a store.
//
// Contract. It reads the whole of a partition through a view, in memory that grows with its tasks,
// and gives the first difference, as an error that wraps [vnode.ErrDamaged]. What it finds is a bug:
// an index is a function of the facts (design I8).
package audit

// Package index has the keys of the indexes by which a vnode finds tasks by their state, and finds tasks by them.
//
// Contract. A task whose enqueue is known is in one index, that of its state, in every view of a store; but of waiting
// tasks there is none. What is claimed is found by its claims that have not ended. A change of a key is one of the
// data directory's format.
package index

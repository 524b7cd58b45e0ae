// Package explain says why a task does not run: what it waits for, what comes first, who could take
// it.
//
// Guarantees:
//
//  1. Each reason names what somebody can do about it, as a command where there is one.
//  2. An explanation looks at a bounded number of tasks, dependencies and workers, and says so
//     where there are more.
//  3. What keeps workers from a task is told of all nodes ([Explained]), of a node that does not
//     answer nothing.
//
// In: what only the machine knows, taken along when the request comes ([Explainer]), and a view of
// the store. Out: an answer. Nothing here writes.
package explain

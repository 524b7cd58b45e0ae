// Package scope holds requests to what their senders may see and do, where the queue of a task
// is read.
//
// Contract. What somebody may not see is, for them, not there: [Judge] refuses it with the very
// error that a task gets that nobody knows, and says so only where a majority could have known
// the task.
// Invariant: of a request with a scope nothing is carried out for a task whose queue was not
// read.
package scope

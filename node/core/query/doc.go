// Package query has the reads of clients that run beside the machine, on a snapshot of the store,
// and what makes one page of those of several nodes.
//
// Guarantees:
//
//  1. A page is in order and has no gap: where a part of it ends before others, so does the
//     page ([Lists], [Queues]).
//  2. A cursor is one that a node has given for such a list, or it is refused ([Cursor]).
//  3. A page is bounded in items, in bytes and in what is looked at for it, whatever the filter.
//  4. A task that a scope does not show is not there ([guard.Scope]).
//
// In: requests and a view of the store. Out: [message.Read], and joiners of answers. Nothing here
// writes.
package query

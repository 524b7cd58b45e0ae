// Package router sends requests where they can be answered, and waits for the answers: any node
// takes any request (design 7.3), facts are written by members of their cohort, and what only a
// leader decides is decided by it.
//
// Guarantees:
//
//  1. A request that is scattered is answered once, at its deadline at the latest ([Scatter]): a
//     part that nobody has answered by then fails ([Machine.Work]), and so does one whose node is
//     out of reach ([Machine.Hear]).
//  2. An answer to the process before this one, or to a part that was given up, matches nothing.
//     What such an answer grants is dropped by whoever has granted it, if it is sure that no
//     client has heard of it ([Machine.Undelivered]).
//  3. The parts of this node are requests like those of any client, and their answers wait for the
//     same disk: a whole leaves no earlier than the last round in which this node wrote for it.
//  4. One connection has no more than its portion of the [MaxWaiting] requests that may wait for
//     other nodes ([Machine.Crowds]).
//  5. A request that its client cancels, or whose connection is gone, is withdrawn from all nodes
//     that were asked.
//
// In: requests ([Machine.Pass], [Machine.Split], [Machine.ScatterAll], [Machine.Gather] with
// [Machine.Forward]), parts of other nodes ([Machine.Asked]), answers ([Machine.Answered],
// [Machine.Deliver]), who is in reach ([Machine.Hear]), withdrawals
// ([waiting.Table]), time ([Machine.Work], [Machine.Due]). Out: messages and answers in
// [round.Writer], and what [Node] is to handle here.
//
// It knows neither tasks nor claims: what a request is about its caller says by a [List].
//
// How it works. A request with items of several partitions is taken apart: one leg per node,
// with a number of its own; a [Joiner] puts the answers together in the order of the items. The
// leg of this node is handled like a request of a client and its answer comes back through
// [Machine.Deliver]. So there is one way to answer, and what waits for a disk waits in one
// place.
package router

// Package inbox is where events wait for the loop of a node, and where requests are weighed before
// they are decoded.
//
// Contract.
//
//   - What frees or keeps work (renewals, completions, failures, releases) goes before what adds
//     work, so that load from producers cannot cost workers their claims: the loop takes from both
//     lines in turns ([Inbox.Take]), and never so much that one of them waits for long.
//   - Of one line nothing overtakes anything: a cancel comes behind the request that it is about,
//     and the end of a connection behind all of its requests ([Inbox.Gone]).
//   - Requests are bounded in bytes, as they weigh in memory ([Scale]), and nobody has more than
//     its portion of them ([Inbox.Admit]). Messages of other nodes have room of their own.
//   - A flood leaves no memory behind.
//
// Invariant: the bytes that are admitted are those of what is in the lines, and of what its
// sender is about to put there.
package inbox

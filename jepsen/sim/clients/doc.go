// Package clients are the programs that use simulated nodes: producers enqueue, workers claim and
// complete, workers with a session (hand) are handed tasks, readers read, admins cancel, retry
// and change queues, and meddlers try what they have no right to.
//
//   - caller is the connection side of all of them: a request is sent, given up after a while, and
//     what came of it goes into the history.
//   - A worker believes in a claim up to the deadline that the rules of package client give it.
//   - people begins all of them, and quiets them when the storm is over. pages reads lists page
//     by page, in pages of many sizes.
package clients

// Package top shows what goes on in a cluster, on a terminal: norn top, and lists that are
// shown again and again.
//
// Contract.
//
//   - A screen is made of one look at the cluster and of the one before it: rates are what
//     changed between the two, over the time between them. What a retention deletes meanwhile
//     is missing in them.
//   - A look costs three requests (queues, workers, status), whatever the backlog. While one
//     takes long, or fails, the screen before stays, and says so.
//   - A frame is one write of at most the size of the terminal, so that it is usable over a slow
//     line. The terminal is left as it was found.
//   - Names and notes of users stay text: no control character of theirs reaches the terminal.
package top

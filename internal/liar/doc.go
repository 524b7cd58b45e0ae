// Package liar is a server of the wire protocol that lies as its rules say: it stands before
// a real server, passes frames on, and loses answers, sends them late, twice, with wrong
// lengths, wrong methods or garbage. Tests of clients in all languages use it.
//
// Contract.
//
//   - What has no rule goes through unchanged, so that what a client does despite of the lies
//     can be seen in the real server.
//   - It counts the requests that come, by method, also those that it does not pass on.
//   - It holds no more than a frame for each direction of a connection.
package liar

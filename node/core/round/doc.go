// Package round has what the machines of a node write in one round of its loop: keys and
// values, messages, answers, reads, requests to the register.
//
// Guarantees:
//
//  1. What is in one round leaves together, in the order that package core promises: what
//     [Writer.Tx] has is durable before anything in [message.Ready.Send] or
//     [message.Ready.Replies] leaves.
//  2. Rounds are numbered from 1 and never skipped. An answer that depends on an earlier
//     round says so by [Writer.After], and may leave as soon as that one is durable.
//  3. The first error that must stop the node stays ([Writer.Fatal]): nothing leaves after it.
//
// In: the calls of machines, in the order in which the composition runs them. Out: one
// [message.Ready] by [Writer.Take].
package round

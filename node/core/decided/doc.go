// Package decided has what is told of decisions about tasks: that a task was taken in, granted,
// ended, and how long it had to wait for that.
//
// Guarantees:
//
//  1. What is told leaves with the round in which it was decided ([message.Ready.Decided]), and is
//     told by the node that decides, once.
//  2. A time that is not known is said to be so ([Unknown]), and never guessed.
//
// In: facts and claims. Out: [message.Decided] in the round.
package decided

// Package refusal has the errors that a client hears, each in one place: what was not
// done, why, whether it may have been done all the same, and when to try again.
//
// Guarantees:
//
//  1. An error says which promise it keeps by refusing ([proto.Error].Guarantee), where
//     it is one.
//  2. Its effect is unknown only where something may have been done: a client that
//     hears of no effect may ask again at once.
//  3. Its text names what a person can do about it.
package refusal

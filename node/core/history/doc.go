// Package history joins what several nodes remember of their decisions.
//
// Guarantees:
//
//  1. [Check] makes a request whole: all nodes answer for the same steps, the number of which
//     is bounded by [MaxSteps].
//  2. [Join] is a sum, so the order of the answers does not matter. One for other steps, as
//     of a node that was asked something else, is left out.
package history

// Package portion says how much of a number that all share one of them may have.
//
// What is free decides: nobody may have more than a third of what is left then, so that one
// who is alone has a quarter at most, many have less each, and something is always left for
// who comes next (dynamic thresholds, as in switches with a shared memory). While nobody else
// asks, one may have three quarters.
package portion

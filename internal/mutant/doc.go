// Package mutant names the mistakes that the tests must be able to find: 24
// rules of the protocol, each with a switch that leaves it out. A program built
// with the tag "mutants" makes one of them, the one that it was told to make; in
// every other build [ID.On] is false and costs nothing, because the compiler
// drops what stands behind it.
//
// Package jepsen/hunt makes each of them and says which checker finds it.
package mutant

// Package mutant names the mistakes that the tests must be able to find:
// rules of the protocol, each with a switch that leaves it out. A program built
// with the tag "mutants" makes one of them, the one that it was told to make; in
// every other build [ID.On] is false and costs nothing, because the compiler
// drops what stands behind it. Rules of machines of a node are fields of their policies
// (package node/core/policy), which package jepsen/hunt/policies makes of [Chosen].
//
// Package jepsen/hunt makes each of them and says which checker finds it.
package mutant

// Package hunt makes the mistakes of package internal/mutant, one after the
// other, and looks for each of them with the tests that there are: the simulator
// of one node and of clusters, with the checkers of package check and a witness
// of the protocol's invariants, and short scripts where the simulator has no disk
// or no clock for it. A mistake that nothing finds is a hole in the tests, and so is
// one that is only found by checkers that are there for something else.
//
// Every ground is also walked without a mistake: there nothing may be found.
package hunt

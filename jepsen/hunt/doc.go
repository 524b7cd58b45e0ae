// Package hunt makes the mistakes of package internal/mutant, one after the
// other, and looks for each of them where it must show: on a ground of the simulator,
// with the checkers of package check and a witness of the protocol's invariants; with
// the real store on a disk that fails; or with the tests of a package that are there for
// the very rule. A mistake that nothing finds is a hole in the tests, and so is
// one that is only found by checkers that are there for something else.
//
// Every ground is also walked without a mistake, and every such test run: there
// nothing may be found.
package hunt

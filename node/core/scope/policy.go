package scope

// Policy says which rules of this package are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// or a simulation finds it.
type Policy struct {
	ScopeText bool // who may not see a task is told that it is there
}

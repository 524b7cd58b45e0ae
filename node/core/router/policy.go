package router

// Policy says which rules of this machine are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// or a simulation finds it.
type Policy struct {
	ScopeLost bool // the scope of a request does not go along to other nodes
}

package access

// Policy says which rules of a desk are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// finds it.
type Policy struct {
	ExpiryReversed bool // a token lets in once it has expired
}

package query

// Policy says which rules of this package are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// or a simulation finds it.
type Policy struct {
	PageEnd      bool // the last task of a page is left out where a node has more
	PageToLast   bool // a page of tasks goes to the end of the part that has shown most
	QueuePageEnd bool // the last queue of a page is left out where a node has more
	LargePage    bool // a page that is full by its bytes is taken for the last one
}

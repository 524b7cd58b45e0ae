package workers

// Policy says which rules of this machine are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// or a simulation finds it.
type Policy struct {
	WorkerPageEnd bool // a page of workers goes beyond what a node has shown
}

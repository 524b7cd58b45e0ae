package dependency

// Policy says which rules of this machine are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// or a simulation finds it.
type Policy struct {
	HastyFailure bool // a failure that may have been retried is acted on
	FirstLook    bool // a new leader looks through the first 100 waiting tasks
	AbsentIsDone bool // a dependency that is not known counts as completed
	LateOutcome  bool // a failure from before a retry counts for a task that came after it
}

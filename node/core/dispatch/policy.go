package dispatch

// Policy says which rules of this machine are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// or a simulation finds it.
type Policy struct {
	PausedGranted  bool // a paused queue hands out tasks
	RepeatOfBefore bool // the same request again gets the claims of a leader before this one
	GrantedAgain   bool // the same request again gets other tasks beside those that it has
}

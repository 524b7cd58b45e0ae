package uniquekeys

// Policy says which rules of this machine are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// notices.
type Policy struct {
	KeyUnheard    bool // a new leader gives a key away before it has heard who has it
	KeyGivenTwice bool // a key that was given back to an older task goes to one that comes late
	WindowByStart bool // a key is refused gc-grace after its window began, not ended
}

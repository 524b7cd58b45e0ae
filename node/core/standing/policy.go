package standing

// Policy says which rules of this machine are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// or a simulation finds it.
type Policy struct {
	StepUnseen      bool // a leader renews by a clock that was set a moment ago
	MarksUnsaved    bool // what was seen of other disks is not written
	TrustsAlways    bool // a node votes before others have said that its disk is whole
	CountsForgotten bool // the copy of a disk that has forgotten something counts
	OneWord         bool // one member ends an incarnation
}

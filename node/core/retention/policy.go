package retention

// Policy says which rules of this machine are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// or a simulation finds it.
type Policy struct {
	ArchivedAll     bool // all that was to be archived collected when a part of it is
	JumpCollects    bool // tasks are collected by a clock that has just jumped
	FirstDues       bool // collection looks at the first 64 finished tasks
	RetentionStale  bool // tasks go by the retention of when their archive began
	WindowForgotten bool // a key is free when its task is forgotten, though its window is not over
	KeyForgotten    bool // a key that is old is forgotten while its task is known
	FirstKeys       bool // unique keys beyond the first 64 are never forgotten
	SkippedAgreed   bool // a comparison that has left something out counts
	ComparedLate    bool // a comparison counts from when the other side hears of it
	MarkOfBefore    bool // what a member was compared with counts after it has left and come back
	PurgeByTime     bool // what is collected goes when its time is over, whoever has not heard of it
	GraveEarly      bool // tombstones go before the last clock says that they may
	OldTaken        bool // a node that is no member brings back what was collected and forgotten
}

package run

import "time"

// Times of all runs.
const (
	MaxBackoff = 4 * time.Second
	WatchFor   = 3 * time.Second // in which a new leader collects nothing that others may need: no run has a minute for that
	// DrowsyFor is for how long a task may be ready while a request that would take it
	// waits: the polls of the workers are longer.
	DrowsyFor = 3 * time.Second
	HeldFor   = 3 * WatchFor // for as long something stays that others have needed
)

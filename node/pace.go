package node

import "time"

// pacing decides when the loop gathers: lets others run before it cuts a round, so that the
// round carries more. One sync, one message to each follower and one wake-up of each waiting
// goroutine are paid for each round, whatever it carries, and under load they are most of
// what a task costs. A node with little to do never gathers: it would add to the latency of
// what it has, and there is nobody to wait for.
//
// It is a pure function of what the last rounds were like.
type pacing struct {
	idle, span float64 // ns of the last rounds in which the loop waited for events, and of all
	events     float64 // of one of them
	bytes      float64 // that came in, of all
}

const (
	// paceMemory is of how many rounds the figures are about.
	paceMemory = 32
	// gatherBusy is the share of the time above which a loop gathers. Waiting for the disk
	// counts as busy, so that the share alone does not say that there is load.
	gatherBusy = 0.5
	// gatherFrom is how many events a round has at least where others run at the same time.
	// A round of a node that handles 500 tasks a second has two, and its latency is not to rise.
	gatherFrom = 3
	// gatherBelow is how many events a round has where gathering has no point: what is paid
	// for each round is little by then.
	gatherBelow = 64
	// yieldsLeast is how often the loop yields before it cuts a round, and yieldsMost how often
	// at most, for as long as each time brings events.
	yieldsLeast = 3
	yieldsMost  = 12
	// loadBytes is how much comes in a second where there is load, however few events it is, as it
	// weighs in memory. All of it may lie in one node's partitions while there is no load: at most
	// 90 GB of payloads a day.
	loadBytes = 1 << 20
	// gatherMost is how long it waits for the disk at most.
	gatherMost = 5 * time.Millisecond
)

// took notes a round: for how long the loop waited for its first event, how long it was from
// the end of the round before to its own, and with how many events and bytes.
func (p *pacing) took(idle, span time.Duration, events, bytes int) {
	const keep = 1 - 1.0/paceMemory
	p.idle = p.idle*keep + float64(max(0, min(idle, span)))
	p.span = p.span*keep + float64(max(1, span))
	p.events = p.events*keep + float64(events)*(1-keep)
	p.bytes = p.bytes*keep + float64(bytes)
}

// gathers tells whether the loop lets others run before it cuts the next round.
func (p *pacing) gathers() bool { return p.busy() && p.events < gatherBelow }

// busy tells whether there is more to do than one thing after the other.
func (p *pacing) busy() bool {
	return p.span > 0 && p.idle < p.span*(1-gatherBusy) && p.events >= gatherFrom
}

// loaded tells whether the work should be shared by all nodes.
func (p *pacing) loaded() bool { return p.busy() || p.bytes/loadBytes > p.span/float64(time.Second) }

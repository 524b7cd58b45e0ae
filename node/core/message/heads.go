package message

import "github.com/norn-dev/norn/claim"

// QueueHeads tells another node that has asked for some queues their best ready task over
// the partitions led here: after each request of its own, when a queue that had nothing for it
// has something, and for a while every few milliseconds while that changes.
type QueueHeads struct{ Heads []QueueHead }

// QueueHead is the best ready task of one queue. Ready false: there is none.
type QueueHead struct {
	Queue string
	Ready bool
	Rank  claim.Rank
	Full  bool // Marks tell of all there is
	Asks  bool // nothing is said: the sender wants to be told what is here, if nothing, too
	Marks RankSample
	Few   int // ready tasks, up to maxFew; 0: more, or it is not said
}

// RankPlaces are those of which [RankSample] tell.
var RankPlaces = [...]int{4, 16, 64, MostRanks}

// MostRanks is how many tasks a leader tells of.
const MostRanks = 256

// RankSample are the ranks of the 4th, 16th, 64th and 256th best ready task, as far as
// there are so many. Where not all of them are in memory, the last ones are those
// of the Seen-th instead: no such task is before it.
type RankSample struct {
	N     int
	Seen  int // 0: at least the last of the places
	Ranks [len(RankPlaces)]claim.Rank
}

// Count is how many tasks are told of.
func (m *RankSample) Count() int {
	switch {
	case m.N == 0:
		return 0
	case m.Seen > 0:
		return m.Seen
	}
	return RankPlaces[m.N-1]
}

func (*QueueHeads) peerMessage() {}

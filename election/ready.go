package election

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/ring"
)

// Asking is a ballot for one member.
type Asking[M comparable] struct {
	To     M
	Ballot Ballot[M]
}

// HandOver asks for the facts of the voters to be brought to a majority of the
// new cohort, by comparing trees; [Elections.HandedOver] tells of the end.
type HandOver[M comparable] struct {
	Partition  ring.Partition
	Epoch      uint64
	Voters, To []M
}

// Push asks for this node's claims of a partition, after those of the voters
// were joined, to be sent to the members of the new cohort. The answer is a
// [Vote] for [Elections.Pushed].
type Push[M comparable] struct {
	Partition    ring.Partition
	Epoch, Nonce uint64
	To           []M
}

// Write asks for a compare-and-set of a partition's cell from exactly Old.
type Write[M comparable] struct {
	Partition ring.Partition
	Old, New  Cell[M]
}

// Victory says that this node leads a partition from now on.
type Victory[M comparable] struct {
	Partition ring.Partition
	Cell      Cell[M]
}

// Defeat says that a candidacy is over.
type Defeat struct {
	Partition ring.Partition
	Epoch     uint64
	// Voted says that votes were asked for: who gave one waits for this epoch. A
	// candidacy that ends with its pre-votes leaves nothing behind.
	Voted bool
	Why   string
}

// Ready is what the candidacies want done, once what this node has promised is
// on disk.
type Ready[M comparable] struct {
	Ask  []Asking[M] // also to this node itself
	Read []ring.Partition
	Hand []HandOver[M]
	Push []Push[M]
	// Write is to be answered by [Elections.Written]. It comes again while its
	// outcome is not known.
	Write []Write[M]
	Won   []Victory[M]
	Lost  []Defeat
	// Wake is when time alone changes something, mono ns.
	Wake int64
}

// Ready gives up what has taken too long and hands out what is to be done.
func (e *Elections[M]) Ready(now clock.Time) Ready[M] {
	var r Ready[M]
	if len(e.running)+len(e.won)+len(e.lost) == 0 {
		r.Wake = clock.Never
		return r
	}
	order := e.order()
	for _, p := range order {
		switch c := e.running[p]; {
		case c.due:
		case now.Mono < c.until:
			if c.again <= now.Mono && (c.phase == preparing || c.phase == voting || c.phase == pushing) {
				if c.phase != preparing {
					c.pause *= 2
				}
				c.due, c.again = true, now.Add(c.pause).Mono
			}
		case c.phase == writing:
			// Only the register knows, and the request may be lost: the same again
			// can win only once.
			c.due, c.until = true, now.Add(writeAgain).Mono
		default:
			e.end(p, c, "it took too long")
		}
	}
	r.Wake = clock.Never
	for _, p := range order {
		c := e.running[p]
		if c == nil {
			continue
		}
		r.Wake = min(r.Wake, c.until)
		if c.phase == preparing || c.phase == voting || c.phase == pushing {
			r.Wake = min(r.Wake, c.again)
		}
		if c.due {
			c.due = false
			e.hand(&r, c)
		}
	}
	r.Won, r.Lost = e.won, e.lost
	e.won, e.lost = nil, nil
	return r
}

// hand gives out the messages with which a phase begins.
func (e *Elections[M]) hand(r *Ready[M], c *candidacy[M]) {
	b := &c.ballot
	switch c.phase {
	case preparing, voting:
		for _, m := range union(b.From, b.To) {
			if !slices.Contains(c.heard, m) {
				r.Ask = append(r.Ask, Asking[M]{To: m, Ballot: *b})
			}
		}
		if c.phase == preparing && !c.read {
			r.Read = append(r.Read, b.Partition)
		}
	case handing:
		r.Hand = append(r.Hand, HandOver[M]{Partition: b.Partition, Epoch: b.Epoch, Voters: c.voters, To: b.To})
	case pushing:
		var to []M
		for _, m := range b.To {
			if !slices.Contains(c.heard, m) {
				to = append(to, m)
			}
		}
		r.Push = append(r.Push, Push[M]{Partition: b.Partition, Epoch: b.Epoch, Nonce: b.Nonce, To: to})
	case writing:
		r.Write = append(r.Write, Write[M]{Partition: b.Partition, Old: c.cell, New: Cell[M]{Epoch: b.Epoch, Nonce: b.Nonce, Cohort: b.To}})
	}
}

// union is two cohorts, each member once.
func union[M comparable](a, b []M) []M {
	all := make([]M, 0, len(a)+len(b))
	for _, list := range [][]M{a, b} {
		for _, m := range list {
			seen := false
			for _, o := range all {
				seen = seen || o == m
			}
			if !seen {
				all = append(all, m)
			}
		}
	}
	return all
}

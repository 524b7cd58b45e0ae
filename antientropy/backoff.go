package antientropy

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
)

// suspectAfter is the number of rounds in a row after which a node that differs
// without facts to show for it is reported: races end before that.
const suspectAfter = 3

// maxStrikes bounds the nodes that back off on their own; with more of them it
// is the rounds that back off.
const maxStrikes = 1024

// backoff is the memory of an initiator for what came to nothing.
type backoff struct {
	pauses  clock.Backoff
	rounds  int   // in a row that differed for nothing
	until   int64 // mono ns at which the next round is due
	strikes map[Path]strike
}

type strike struct {
	times   int
	until   int64  // mono ns
	session uint64 // round of the last one
}

func newBackoff(least, most time.Duration) backoff {
	return backoff{pauses: clock.Backoff{First: least, Most: most}, strikes: make(map[Path]strike)}
}

// wait is how long to wait after so many failures in a row.
func (b *backoff) wait(times int) time.Duration {
	return b.pauses.Pause(max(times-1, 0))
}

// round notes how a round has ended.
func (b *backoff) round(now clock.Time, good bool) {
	if b.rounds++; good {
		b.rounds, b.until = 0, now.Mono
		return
	}
	b.until = now.Add(b.wait(b.rounds)).Mono
}

// strike notes that a node differed and nothing came of it. It tells whether
// that makes it suspect; of one round the first counts.
func (b *backoff) strike(now clock.Time, session uint64, p Path) bool {
	s, known := b.strikes[p]
	if known && s.session == session || !known && len(b.strikes) >= maxStrikes {
		return false
	}
	s.times++
	s.session, s.until = session, now.Add(b.wait(s.times)).Mono
	b.strikes[p] = s
	return s.times >= suspectAfter
}

// off tells whether a node is to be left alone.
func (b *backoff) off(now clock.Time, p Path) bool {
	s, ok := b.strikes[p]
	return ok && now.Mono < s.until
}

// well forgets a node's failures.
func (b *backoff) well(p Path) { delete(b.strikes, p) }

// tidy forgets nodes that have not failed for long: they are well, or nobody
// looks at them any more because another one is compared in their place.
func (b *backoff) tidy(now clock.Time) {
	for p, s := range b.strikes {
		if now.SinceMono(s.until) > 2*b.pauses.Most {
			delete(b.strikes, p)
		}
	}
}

// addPath puts a path into a small sorted list.
func addPath(list []Path, p Path) []Path {
	i, found := slices.BinarySearchFunc(list, p, Path.compare)
	if found {
		return list
	}
	return slices.Insert(list, i, p)
}

package repair

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// scrubEvery is the pause between two looks of the scrubber that nobody has set. It reads a fact for
	// each scrubRate of the pause, but no more than scrubStep at once: 10^7 facts in a row, or a million
	// that lie apart, are checked in about three hours.
	scrubEvery, scrubRate, scrubStep = 100 * time.Millisecond, time.Millisecond, 1000
	// maxSuspects bounds the places that wait to be checked because they differ
	// from a peer's without end.
	maxSuspects = 64
)

// scrubs checks the trees against the facts, round and round, and first where a
// comparison has found that something does not add up (design 6).
type scrubs struct {
	env    *Env
	mended uint64 // nodes of trees that were not what the facts say
	at     int64  // mono ns of the next look; Never: there is nobody to compare with
	p      ring.Partition
	scrub  *antientropy.Scrubber // nil: none goes on
	// Invariant: there are at most [maxSuspects], each once (Audit).
	suspects []suspect
}

// suspect is a place in a tree that a comparison could not make equal: most likely the tree
// does not say what the facts say.
type suspect struct {
	partition ring.Partition
	path      antientropy.Path
}

// pause is between two looks.
func (s *scrubs) pause() int64 { return int64(cmp.Or(s.env.Scrub, scrubEvery)) }

// changed begins when there is somebody to compare with.
func (s *scrubs) changed(now clock.Time) {
	if s.at == clock.Never && !s.env.View.Alone {
		s.at = now.Mono + s.pause()
	}
}

// suspect has places checked soon.
func (s *scrubs) suspect(p ring.Partition, paths []antientropy.Path) {
	for _, path := range paths {
		if x := (suspect{p, path}); len(s.suspects) < maxSuspects && !slices.Contains(s.suspects, x) {
			s.suspects = append(s.suspects, x)
		}
	}
}

// forget drops what was going on in a partition.
func (s *scrubs) forget(p ring.Partition) {
	if s.p == p {
		s.scrub = nil
	}
	s.suspects = slices.DeleteFunc(s.suspects, func(x suspect) bool { return x.partition == p })
}

// work checks a bounded number of facts.
func (s *scrubs) work(now clock.Time) {
	if s.at > now.Mono {
		return
	}
	s.at = now.Mono + s.pause()
	if s.env.View.Alone {
		s.at = clock.Never
		return
	}
	for range s.env.View.Cells {
		if s.scrub != nil || s.begin() {
			break
		}
	}
	if s.scrub == nil {
		return
	}
	s.env.Partitions.Use(s.p) // the tree may be mended
	defer s.env.Round.Tx.Together()()
	found, done := s.scrub.Step(s.env.Round.Tx, int(min(s.pause()/int64(scrubRate), scrubStep)))
	s.mended += uint64(len(found))
	if done {
		s.scrub = nil
	}
}

// begin starts with the next place, and tells whether there is a tree.
func (s *scrubs) begin() bool {
	path := antientropy.Path{}
	if len(s.suspects) > 0 {
		s.p, path = s.suspects[0].partition, s.suspects[0].path
		s.suspects = s.suspects[1:]
	} else {
		s.p = (s.p + 1) % ring.Partition(len(s.env.View.Cells))
	}
	tree := vnode.Tree(s.env.Partitions.See(s.p))
	if tree == nil || s.env.View.Deleting(s.p) {
		return false
	}
	s.scrub = antientropy.NewScrubber(tree, &replica{env: s.env, p: s.p})
	s.scrub.Start(path, true)
	return true
}

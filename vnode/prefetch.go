package vnode

import (
	"bytes"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// maxBody is the largest enqueue fact kept in memory with a ready task: with
// the default head size a queue holds at most 16 MiB of them at 64 partitions,
// and 3 MiB with payloads of 100 bytes.
const maxBody = 1 << 10

// prefetch reads the enqueue facts of fresh tasks in one walk per run of equal
// priority: within such a run the ready order is the order of the facts, and a
// walk costs a fraction of as many look-ups. A walk that meets too much else
// (finished tasks in between) ends; what it has not reached is read when it is
// granted.
func prefetch(view store.View, p ring.Partition, entries []claim.Ready) {
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && ordered(&entries[n-1], &entries[n]) {
			n++
		}
		prefetchRun(view, p, entries[:n])
		entries = entries[n:]
	}
}

// ordered tells whether b's facts come after a's.
func ordered(a, b *claim.Ready) bool {
	return a.Rank.Priority() == b.Rank.Priority() && a.Rank.Task().Compare(b.Rank.Task()) < 0
}

func prefetchRun(view store.View, p ring.Partition, run []claim.Ready) {
	enqueued := crdt.Key{Kind: crdt.KindEnqueued}
	want := appendFact(nil, p, run[0].Rank.Task(), enqueued)
	end := appendFact(nil, p, run[len(run)-1].Rank.Task(), enqueued)
	steps := 2*len(run) + 16
	for key, value := range view.Scan(want, append(end, 0)) {
		for c := bytes.Compare(key, want); c >= 0; c = bytes.Compare(key, want) {
			f, err := crdt.Stored(run[0].Rank.Task(), enqueued, value)
			if c == 0 && err == nil && run[0].Fresh && len(f.Body) <= maxBody {
				run[0].Body, run[0].CRC = append([]byte(nil), f.Body...), f.CRC
			}
			if run = run[1:]; len(run) == 0 {
				return
			}
			want = appendFact(want[:0], p, run[0].Rank.Task(), enqueued)
		}
		if steps--; steps == 0 {
			return
		}
	}
}

package core

import (
	"testing"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/ring"
)

// TestAFactOfANewerBuildIsRefusedAlone: of a kind or in a version that is not known here it
// is neither kept nor acknowledged, and what came with it is kept.
func TestAFactOfANewerBuildIsRefusedAlone(t *testing.T) {
	for name, newer := range map[string]func(id.ID) crdt.Fact{
		"kind": func(task id.ID) crdt.Fact { return crdt.Fact{Task: task, Key: crdt.Key{Kind: 77}, Body: []byte{1}} },
		"version": func(task id.ID) crdt.Fact {
			return crdt.Fact{Task: task, Key: crdt.Key{Kind: crdt.KindEnqueued}, Body: []byte{2, 1}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrio(t)
			task := r.ids.Next(r.now.Wall)
			r.enqueue(0, task, nil)
			facts := *r.post[0].message.(*message.Facts)
			part := facts.Parts[0]
			other := r.ids.Next(r.now.Wall)
			for ring.Of(other, testPartitions) != part.Partition {
				other = r.ids.Next(r.now.Wall)
			}
			part.Facts = append([]crdt.Fact{newer(other)}, part.Facts...)
			facts.Parts = []message.PartFacts{part}
			r.post = []letter{{0, 1, &facts}}
			r.deliver(0)
			if answer := r.post[0].message.(*message.FactsTaken); len(answer.Refused) != 1 {
				t.Errorf("acknowledged: %+v", answer)
			}
			if n := r.copies(task); n != 2 {
				t.Errorf("%d copies of the task that came with it, want 2", n)
			}
			if n := r.copies(other); n != 0 {
				t.Errorf("%d copies of what nobody here knows", n)
			}
		})
	}
}

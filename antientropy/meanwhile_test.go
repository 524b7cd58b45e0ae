package antientropy

import (
	"testing"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// TestWhatCameMeanwhileIsTaken: a fact that the peer got from elsewhere, between its answer
// and the push, it has not refused; one that it does not want it has; and where its build
// does not say, all counts that was not new.
func TestWhatCameMeanwhileIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		comes, refuses, old bool
		refused             uint64
	}{
		"new there":          {},
		"came meanwhile":     {comes: true},
		"refused":            {refuses: true, refused: 1},
		"new, old build":     {old: true},
		"meanwhile, old":     {comes: true, old: true, refused: 1},
		"refused by the old": {refuses: true, old: true, refused: 1},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := pair(100, 10)
			f := crdt.Cancelled{At: 1}.Fact(id.ID{1})
			l.a.put(f)
			l.a.commit()
			l.b.refuse = func(crdt.Fact) bool { return c.refuses }
			ready := l.initiator.Start(l.now, 1)
			pushes := 0
			for n := 0; ready.Result == nil; n++ {
				if n > 100 || ready.Send == nil {
					t.Fatalf("no end: %+v", ready)
				}
				if len(ready.Send.Push) > 0 {
					pushes++
					if c.comes {
						l.b.put(f)
						l.b.commit()
					}
				}
				answer := *l.responder.Step(l.now, ready.Send).Send
				if answer.Told != (len(ready.Send.Push) > 0) {
					t.Errorf("told %v of a push of %d", answer.Told, len(ready.Send.Push))
				}
				if c.old {
					answer.Refused, answer.Told = 0, false
				}
				ready = l.initiator.Step(l.now, &answer)
			}
			if r := ready.Result; r.Err != nil || pushes != 1 || r.Refused != c.refused {
				t.Errorf("%d pushes, %+v", pushes, r)
			}
		})
	}
}

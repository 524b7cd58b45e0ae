package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// TestOldTasksComeBackAfterARestore: a cluster that has begun anew from a backup
// takes tasks below the horizon from nodes of before, as long as what it has
// collected itself is surely remembered; of other times it takes none.
func TestOldTasksComeBackAfterARestore(t *testing.T) {
	r := newTrio(t)
	c, grace := r.peers[0].core, int64(7*24*time.Hour)
	task := r.ids.Next(r.now.Wall)
	at, stranger := ring.Of(task, testPartitions), register.Member{Node: "old", Incarnation: register.Incarnation{77}}
	facts := []crdt.Fact{(&crdt.Enqueued{Queue: "q"}).Fact(task)}
	look := func(what string, later int64, want bool) {
		t.Helper()
		now := r.now
		now.Wall += later
		if got := c.retention.Tombstones.BelowHorizon(now, stranger, at, facts); got != want {
			t.Errorf("%s: refused is %v", what, got)
		}
	}
	look("young", grace/2, false)
	look("old", 2*grace, true)
	rebuilt := r.now.Wall + 2*grace
	s := r.state().Rebuilt(register.Node{Member: r.peers[0].self}, 1, rebuilt)
	r.register.Do(register.Request{Values: []register.ValueChange{{Name: register.RebuiltValue, Data: s.Values[register.RebuiltValue].Data}}}, func(register.Result) {})
	r.tell()
	look("old, after a restore", 2*grace+grace/2, false)
	look("old, long after a restore", 3*grace+1, true)
	rebuilt = task.Nanos() - 1
	s = s.Rebuilt(register.Node{Member: r.peers[0].self}, 2, rebuilt)
	r.register.Do(register.Request{Values: []register.ValueChange{{Name: register.RebuiltValue, Old: 1, Data: s.Values[register.RebuiltValue].Data}}}, func(register.Result) {})
	r.tell()
	look("of after the restore", 2*grace, true)
}

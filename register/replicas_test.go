package register

import (
	"testing"

	"github.com/norn-dev/norn/register/wire"
)

// TestOnlyReplicasTakeANewerBuild: a request about anything else is written as builds
// wrote it that did not know that the number of replicas can change, and one about it
// bears a version that they refuse to read: they stop, and do not go on with another
// number than the others have.
func TestOnlyReplicasTakeANewerBuild(t *testing.T) {
	first := func(q Request) byte {
		var w wire.Writer
		AppendRequest(&w, &q)
		return w.B[0]
	}
	const known = requestVersion + requestSchedules + requestNames // the highest that they read
	names := []NameChange{{Name: "w", Data: []byte("x")}}
	for _, q := range []Request{{}, {Names: names}, {Names: names, Schedules: []ScheduleChange{{}}}} {
		if v := first(q); v > known {
			t.Errorf("%+v has version %d", q, v)
		}
		q.Replicas = &ReplicasChange{Old: 3, New: 5}
		if v := first(q); v <= known {
			t.Errorf("%+v has version %d", q, v)
		}
	}
}

// TestAChangeOfReplicasAlone is a change: else nobody would put it to the vote.
func TestAChangeOfReplicasAlone(t *testing.T) {
	q := Request{Replicas: &ReplicasChange{Old: 3, New: 5}}
	if q.Reads() {
		t.Fatal("it counts as a read")
	}
	s := First(Cluster{ID: UUID{1}, Partitions: 2, Replicas: 3}, Node{Member: numbered(0)})
	for range 2 { // the second one comes too late
		next, res, changed := s.Apply(&q)
		if want := s.Cluster.Replicas == 3; res.ReplicasWon != want || changed != want || next.Cluster.Replicas != 5 || next.Cluster.Partitions != 2 {
			t.Fatalf("from %d: won %v, changed %v, %+v", s.Cluster.Replicas, res.ReplicasWon, changed, next.Cluster)
		}
		s = next
	}
	if r := s.Rebuilt(Node{Member: numbered(1)}, 7, 0); r.Cluster != s.Cluster {
		t.Errorf("after a restore: %+v", r.Cluster)
	}
}

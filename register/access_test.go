package register

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/norn-dev/norn/register/wire"
)

// TestRightsAreComparedAndSet: each change by the version that was read; what goes may come
// back, under a version of its own.
func TestRightsAreComparedAndSet(t *testing.T) {
	s := First(Cluster{Partitions: 1}, Node{Member: numbered(1)})
	set := func(old uint64, data string) bool {
		next, res, _ := s.Apply(&Request{Access: []AccessChange{{Key: "token/a", Old: old, Data: []byte(data)}}})
		s = next
		return res.AccessWon[0]
	}
	if !set(0, "x") || set(0, "y") || s.AccessAt != s.Revision {
		t.Fatalf("%+v", s.Access)
	}
	first := s.Access["token/a"].Version
	if !set(first, "y") || set(first, "z") {
		t.Fatalf("%+v", s.Access)
	}
	if !set(s.Access["token/a"].Version, "") || len(s.Access) != 0 || set(1, "") {
		t.Fatalf("%+v", s.Access)
	}
	if !set(0, "again") || s.Access["token/a"].Version <= first {
		t.Errorf("%+v", s.Access)
	}
}

// TestRightsAreWrittenAndRead, and a state without any is that of builds that know none.
func TestRightsAreWrittenAndRead(t *testing.T) {
	s := First(Cluster{Partitions: 1}, Node{Member: numbered(1)})
	var w wire.Writer
	if AppendState(&w, &s); w.B[0] != stateWithoutAccess {
		t.Errorf("a state without rights has version %d", w.B[0])
	}
	q := Request{Access: []AccessChange{{Key: "role/a", Data: []byte("x")}, {Key: "token/b", Old: 0, Data: []byte("y")}}}
	w = wire.Writer{}
	AppendRequest(&w, &q)
	if got := ReadRequest(wire.NewReader(w.B)); !reflect.DeepEqual(got.Access, q.Access) || w.B[0] <= requestVersion+requestSchedules+requestNames+requestReplicas {
		t.Errorf("%+v, version %d", got.Access, w.B[0])
	}
	s, _, _ = s.Apply(&q)
	for _, state := range []State{s, s.Restored(Node{Member: numbered(1)})} {
		w = wire.Writer{}
		AppendState(&w, &state)
		r := wire.NewReader(w.B)
		got := ReadState(r)
		var again wire.Writer
		AppendState(&again, &got)
		if err := r.End(); err != nil || !reflect.DeepEqual(got.Access, state.Access) || got.AccessAt != state.AccessAt || !bytes.Equal(again.B, w.B) {
			t.Errorf("%v: %+v", err, got.Access)
		}
	}
	if _, suspended := s.Restored(Node{Member: numbered(1)}).Access[SuspendedKey]; !suspended {
		t.Error("a restored register lets tokens in")
	}
}

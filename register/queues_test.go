package register

import (
	"fmt"
	"testing"
)

// TestSettingsThatAreTakenBackLeaveTheRegister: each name that had any took one of its places
// for ever.
func TestSettingsThatAreTakenBackLeaveTheRegister(t *testing.T) {
	s := among()
	set := func(name string, old uint64, settings string) (uint64, bool) {
		next, res, changed := s.Apply(&Request{Queues: []QueueChange{{Name: name, Old: old, Settings: []byte(settings)}}})
		if changed != res.QueuesWon[0] || next.Revision != s.Revision+1 && changed {
			t.Fatalf("%s: won %v, changed %v", name, res.QueuesWon[0], changed)
		}
		s = next
		return s.Queues[name].Version, res.QueuesWon[0]
	}
	for n := range 2 * MaxNamed {
		name := fmt.Sprint("q", n)
		version, won := set(name, 0, "x")
		if !won {
			t.Fatalf("name %d is not taken", n)
		}
		if _, won := set(name, version, ""); !won || len(s.Queues) != 0 {
			t.Fatalf("of %s %d entries are left", name, len(s.Queues))
		}
	}
	if _, won := set("q0", 0, ""); won {
		t.Error("what is not there was taken back")
	}
}

// TestNoVersionComesTwice: whoever has read settings that were taken back since changes none
// of those that came after them.
func TestNoVersionComesTwice(t *testing.T) {
	s := among()
	set := func(old uint64, settings string) bool {
		next, res, _ := s.Apply(&Request{Queues: []QueueChange{{Name: "q", Old: old, Settings: []byte(settings)}}})
		s = next
		return res.QueuesWon[0]
	}
	if !set(0, "a") || !set(1, "b") || s.Queues["q"].Version != 2 || !set(2, "") || !set(0, "c") {
		t.Fatalf("%v", s.Queues)
	}
	if v := s.Queues["q"].Version; v != 3 {
		t.Errorf("the version after 2 is %d", v)
	}
	if set(1, "d") || set(2, "d") || !set(3, "d") {
		t.Errorf("a version of before counts: %v", s.Queues)
	}
}

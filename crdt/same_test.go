package crdt

import (
	"slices"
	"testing"

	"github.com/norn-dev/norn/id"
)

func TestSameContent(t *testing.T) {
	type same struct {
		name string
		a, b content
		want bool
	}
	cases := []same{
		{"update at another time", Update{Token: 1, Data: []byte("d"), At: 1}, Update{Token: 1, Data: []byte("d"), At: 2}, true},
		{"update with other data", Update{Token: 1, Data: []byte("d")}, Update{Token: 1, Data: []byte("e")}, false},
		{"update that is output", Update{Token: 1, Output: true}, Update{Token: 1}, false},
		{"completed at another time", Completed{Token: 1, Seq: 2, Result: []byte("r"), At: 1}, Completed{Token: 1, Seq: 2, Result: []byte("r"), At: 2}, true},
		{"completed after another update", Completed{Token: 1, Seq: 2}, Completed{Token: 1, Seq: 3}, false},
		{"completed with another result", Completed{Token: 1, Result: []byte("r")}, Completed{Token: 1}, false},
		{"cancelled at another time", Cancelled{At: 1, Reason: "r"}, Cancelled{At: 2, Reason: "r"}, true},
		{"cancelled for another reason", Cancelled{Reason: "r"}, Cancelled{Reason: "s"}, false},
		{"update with further fields", Update{Token: 1, Further: []byte{0x60, 1}}, Update{Token: 1}, false},
		{"completed with other further fields", Completed{Token: 1, Further: []byte{0x60, 1}}, Completed{Token: 1, Further: []byte{0x60, 2}}, false},
		{"completed at another time, with the same", Completed{Token: 1, At: 1, Further: []byte{0x60, 1}}, Completed{Token: 1, Further: []byte{0x60, 1}}, true},
		{"cancelled with further fields", Cancelled{Further: []byte{0x60, 1}}, Cancelled{}, false},
		{"enqueued at another time", Enqueued{Queue: "q", Admission: 1}, Enqueued{Queue: "q", Admission: 2}, true},
		{"enqueued with another priority", Enqueued{Queue: "q"}, Enqueued{Queue: "q", Priority: 1}, false},
		{"failed by two leaders", Failed{Token: 1, Error: "e", At: 1, RetryAt: 3, Counted: true}, Failed{Token: 1, Error: "e", At: 2, RetryAt: 5, Counted: true}, true},
		{"failed with another error", Failed{Token: 1, Error: "e"}, Failed{Token: 1, Error: "f"}, false},
		{"failed without an attempt", Failed{Token: 1, Counted: true}, Failed{Token: 1}, false},
		{"failed with further fields", Failed{Token: 1, Further: []byte{0x60, 1}}, Failed{Token: 1}, false},
		{"expired by two leaders", Expired{Token: 1, At: 1}, Expired{Token: 1, At: 2}, true},
		{"dead by two leaders", Dead{At: 1, Reason: "r"}, Dead{At: 2, Reason: "r"}, true},
		{"dead for another reason", Dead{At: 1, Reason: "r"}, Dead{At: 1, Reason: "s"}, false},
		{"unblocked by two leaders", Unblocked{At: 1}, Unblocked{At: 2}, true},
		{"cancelled by one dependency", DependencyCancelled{At: 1}, DependencyCancelled{At: 2}, true},
		{"cancelled by two dependencies", DependencyCancelled{Dependency: id.ID{1}}, DependencyCancelled{Dependency: id.ID{2}}, false},
		{"requeued by two leaders", Requeued{Generation: 1, AfterToken: 2, At: 1}, Requeued{Generation: 1, AfterToken: 2, At: 2}, true},
		{"requeued after another claim", Requeued{Generation: 1, AfterToken: 2}, Requeued{Generation: 1, AfterToken: 3}, false},
		{"requeued with further fields", Requeued{Generation: 1, Further: []byte{0x60, 1}}, Requeued{Generation: 1}, false},
		{"collected by two leaders", Tombstone{Outcome: StateDead, At: 1, Collected: 2}, Tombstone{Outcome: StateDead, At: 2, Collected: 3}, true},
		{"collected with another outcome", Tombstone{Outcome: StateDead}, Tombstone{Outcome: StateCompleted}, false},
		{"a fact again", Dead{At: 1}, Dead{At: 1}, true},
	}
	for _, c := range cases {
		if got := SameContent(c.a.key().Kind, c.a.AppendTo(nil), c.b.AppendTo(nil)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for k := KindEnqueued; k <= KindUnblocked; k++ {
		if SameContent(k, nil, nil) {
			t.Errorf("kind %d: two broken bodies say the same", k)
		}
		covered := slices.ContainsFunc(cases, func(c same) bool { return c.a.key().Kind == k && c.want })
		if !covered {
			t.Errorf("kind %d: nobody tells what two nodes may differ in", k)
		}
	}
}

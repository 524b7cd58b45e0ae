package placement

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/register"
)

// TestAJoinerThatDoesNotComeIsGivenUp: a node was let in and is not seen for an
// hour; until then, and when it was seen in between, it is waited for.
func TestAJoinerThatDoesNotComeIsGivenUp(t *testing.T) {
	s := cluster(4, 3, "ab")
	s.Nodes = append(s.Nodes, register.Node{Member: member("c"), Version: 1, Weight: 100, Status: register.Joining, Addresses: []string{"c:1"}})
	d := driver("a")
	status := func() register.NodeStatus {
		n, _ := s.Find(member("c"))
		return n.Status
	}
	s = follow(t, d, at(0), s, "b")
	s = follow(t, d, at(59*time.Minute), s, "bc")
	s = follow(t, d, at(61*time.Minute), s, "b")
	s = follow(t, d, at(120*time.Minute), s, "b")
	if got := status(); got != register.Joining {
		t.Fatalf("after 59 minutes it is %v", got)
	}
	s = follow(t, d, at(122*time.Minute), s, "b")
	if got := status(); got != register.Removed {
		t.Fatalf("after an hour it is %v", got)
	}
}

package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/norn-dev/norn/register"
)

// TestAJoinerThatWasGivenUpAsksAnew: its record was removed before it came; it
// takes another incarnation and is let in.
func TestAJoinerThatWasGivenUpAsksAnew(t *testing.T) {
	t.Parallel() // it waits most of the time
	first := start(t, joinConfig(t, "n1"), Options{})
	defer func() { stop(t, first) }()
	c := joinConfig(t, "n2", first)
	late := register.Member{Node: "n2", Incarnation: register.Incarnation{5, 6, 7}}
	ask := func(old uint64, status register.NodeStatus) {
		done := make(chan register.Result, 1)
		first.register.Do(register.Request{Nodes: []register.NodeChange{{Old: old, New: register.Node{Member: late, Addresses: []string{"127.0.0.1:1"}, Weight: 100, Status: status}}}},
			func(r register.Result) { done <- r })
		if r := <-done; r.Err != nil || !r.NodesWon[0] {
			t.Fatalf("%v: %+v", status, r)
		}
	}
	full(t, first, 1)
	ask(0, register.Joining)
	ask(1, register.Removed)
	if err := os.WriteFile(filepath.Join(c.Data, joiningFile), []byte(late.Incarnation.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	leavesItsLife(t, c)
	second := start(t, c, Options{})
	defer func() { stop(t, second) }()
	full(t, second, 2)
	if second.self.Incarnation == late.Incarnation {
		t.Error("it came under the incarnation that was removed")
	}
}

// TestAJoinerUnderAnotherName: one that was let in and had not come yet was started again
// under another name, or from a copy of its directory. It was never let in, and each time it
// asked, the register was written to without a pause for a minute.
func TestAJoinerUnderAnotherName(t *testing.T) {
	t.Parallel() // it waits most of the time
	first := start(t, joinConfig(t, "n1"), Options{})
	defer func() { stop(t, first) }()
	full(t, first, 1)
	early := register.Member{Node: "n2", Incarnation: register.Incarnation{5, 6, 7}}
	done := make(chan register.Result, 1)
	first.register.Do(register.Request{Nodes: []register.NodeChange{{New: register.Node{Member: early, Addresses: []string{"127.0.0.1:1"}, Weight: 100, Status: register.Joining}}}},
		func(r register.Result) { done <- r })
	if r := <-done; r.Err != nil || !r.NodesWon[0] {
		t.Fatalf("%+v", r)
	}
	c := joinConfig(t, "n3", first)
	if err := os.WriteFile(filepath.Join(c.Data, joiningFile), []byte(early.Incarnation.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	leavesItsLife(t, c)
	third := start(t, c, Options{})
	defer func() { stop(t, third) }()
	full(t, first, 2)
	if third.self.Incarnation == early.Incarnation {
		t.Error("it came in the incarnation that is another's")
	}
}

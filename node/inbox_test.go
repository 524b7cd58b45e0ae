package node

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestAJoinerGathersNothing: a node that waits to be let into a cluster has no loop yet that
// takes what is in its inbox, and may wait for weeks, with clients that try again and again.
func TestAJoinerGathersNothing(t *testing.T) {
	c := testConfig(t)
	c.Join, c.DiskCheckInterval = []string{"127.0.0.1:1"}, time.Millisecond
	var looks atomic.Int64
	n := start(t, c, Options{FreeBytes: func(string) (uint64, error) { looks.Add(1); return math.MaxInt64, nil }})
	for range 5 {
		p, _, err := dial(t, n, &nornv1.Hello{MinVersion: 1, MaxVersion: 1})
		if err == nil {
			t.Fatal("it takes clients")
		}
		if err := p.c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the disk is looked at", func() bool { return looks.Load() > 5 })
	stop(t, n)                                                              // all connections have ended by then
	if first, rest, _ := n.inbox.Take(nil, nil); len(first)+len(rest) > 1 { // that it stops
		t.Errorf("events that nobody takes: %v, %v", first, rest)
	}
}

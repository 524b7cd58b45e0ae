package gossip

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// left gives the stacks of goroutines that are in memberlist or in this
// package, but for tests.
func left() []string {
	b := make([]byte, 1<<20)
	b = b[:runtime.Stack(b, true)]
	var out []string
	for stack := range strings.SplitSeq(string(b), "\n\n") {
		ours := strings.Contains(stack, "norn/node/gossip.(*Gossip)") || strings.Contains(stack, "norn/node/gossip.(*transport)") || strings.Contains(stack, "norn/node/gossip.(*watcher)")
		if strings.Contains(stack, "hashicorp/memberlist") || ours {
			out = append(out, stack)
		}
	}
	return out
}

// TestCloseLeavesProbesOnly closes a member in the middle of a probe of a dead
// one: that probe may run on for its time, and nothing else.
func TestCloseLeavesProbesOnly(t *testing.T) {
	slow := func(c *Config) { c.Interval = 2 * time.Second }
	nodes := cluster(t, 2, slow)
	sees(t, nodes[0], "n2#1")
	sees(t, nodes[1], "n1#1")
	nodes[1].stop()
	eventually(t, "n1 probes n2 in vain", nodes, func() bool { return strings.Contains(nodes[0].log.String(), "Failed UDP ping") })
	nodes[0].stop()
	// What is told to end needs a moment to do so; a probe needs longer.
	limit := time.After(patience)
	for {
		stacks := left()
		if len(stacks) > 0 && strings.Contains(strings.Join(stacks, ""), ").probeNode") {
			only := true
			for _, s := range stacks {
				only = only && strings.Contains(s, ").probe")
			}
			if only {
				return // TestMain sees the end of it
			}
		}
		select {
		case <-time.After(time.Millisecond):
		case <-limit:
			t.Fatalf("left are:\n%s", strings.Join(stacks, "\n\n"))
		}
		if len(stacks) == 0 {
			return // the probe had just ended
		}
	}
}

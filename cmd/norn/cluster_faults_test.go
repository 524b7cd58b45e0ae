package main

import (
	"syscall"
	"testing"
	"time"
)

// TestClusterSurvives enqueues through all of three nodes, while one is killed,
// wiped and joins again under its name, and another does not answer for a while.
// In the end every task is on every node. NORN_TEST_TASKS says how many.
func TestClusterSurvives(t *testing.T) {
	thorough(t)
	tasks := number("NORN_TEST_TASKS", 6000)
	began := time.Now()
	step := func(what string) { t.Logf("%5.1fs %s", time.Since(began).Seconds(), what) }
	c := startCompany(t, 3)
	step("three nodes")
	n2, n3 := c.all[1], c.all[2]
	load := c.produce("q", 20, 10*time.Millisecond)
	load.more(t, tasks/6)
	n2.kill(t)
	step("n2 killed")
	load.more(t, tasks/6)
	n2.wipe(t)
	n2.args = append(n2.args, "--join", n3.peer)
	n2.start(t)
	step("n2 is back, empty")
	load.more(t, tasks/6)
	c.settled(3)
	step("n2 has everything")
	n3.signal(t, syscall.SIGSTOP)
	step("n3 stopped")
	load.more(t, tasks/6)
	<-time.After(8 * time.Second)
	n3.signal(t, syscall.SIGCONT)
	step("n3 goes on")
	load.more(t, max(tasks-load.count(), tasks/6))
	load.end(t)
	step("load ended")
	c.settled(3)
	for _, p := range c.all {
		p.verified(t)
	}
	step("verified")
	for _, p := range c.all {
		p.counted(t, "q", uint64(len(load.acked)))
	}
	c.everywhere(load.acked, load.sent)
	step("read")
}

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/network"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// process is a node of a cluster that a test kills and starts again.
type process struct {
	name, data   string
	listen, peer string
	advertise    string       // where the others reach it; "": at peer
	host         []string     // what a command begins with to run where the node runs
	args         []string     // beside those that every node has
	end          *network.End // of the wires that join it to the others; nil: none
	s            *server      // the latest; nil before
}

// company are the processes of a cluster.
type company struct {
	t    *testing.T
	dir  string
	args []string // of all
	all  []*process
	// wires join the processes, so that one can be cut off; nil: plain loopback.
	wires *network.Wires
}

// thorough leaves a test to `make cluster`: what takes long, together.
func thorough(t *testing.T) {
	t.Helper()
	if !timed() {
		t.Skip("takes long; `make cluster` runs it")
	}
}

// timed tells whether this machine has the time for claims about times: where
// `make cluster` runs, not beside everything that others do.
func timed() bool { return os.Getenv("NORN_TEST_CLUSTER") != "" }

// beside lets a test that mostly waits run beside others that do, but where times
// are judged.
func beside(t *testing.T) {
	if !timed() {
		t.Parallel()
	}
}

// newCompany has no process yet; args are of all.
func newCompany(t *testing.T, args ...string) *company {
	if testing.Short() {
		t.Skip("several processes")
	}
	c := &company{t: t, dir: t.TempDir(), args: append([]string{"--gossip-interval", "200ms", "--repair-interval", "1s", "--partitions", "16", "--memtable-size", "4MiB"}, args...)}
	t.Cleanup(func() {
		for _, p := range c.all {
			p.destroy()
		}
		if c.wires != nil { // after the processes
			if err := c.wires.Close(); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			for _, p := range c.all {
				if p.s != nil {
					t.Logf("the log of %s:\n%s", p.name, endOf(p.s.log.String(), 8000))
				}
			}
		}
	})
	return c
}

// wired has no process yet; those that are added can be cut off from each other:
// by packet filters between network namespaces where this machine allows them,
// else by a proxy on loopback. Clients reach all of them.
func wired(t *testing.T, args ...string) *company {
	t.Helper()
	c := newCompany(t, args...)
	var err error
	c.wires, err = network.NewWires()
	var not *machine.NotRun
	if errors.As(err, &not) {
		t.Skip(not)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the nodes are in %s", c.wires.Kind())
	return c
}

// isolate cuts a process off from all others, both ways.
func (c *company) isolate(p *process) {
	c.t.Helper()
	if err := c.wires.Isolate(slices.Index(c.all, p), len(c.all)); err != nil {
		c.t.Fatal(err)
	}
}

// heal makes all links good.
func (c *company) heal() {
	c.t.Helper()
	if err := c.wires.Heal(); err != nil {
		c.t.Fatal(err)
	}
}

// endOf is the end of a log.
func endOf(s string, n int) string { return s[max(0, len(s)-n):] }

// startCompany starts nodes n1 to n(nodes) and waits until each partition is on
// as many as there can be.
func startCompany(t *testing.T, nodes int, args ...string) *company {
	t.Helper()
	c := newCompany(t, args...)
	for range nodes {
		c.add().start(t)
	}
	c.settled(min(nodes, 3))
	return c
}

// add makes one more process; it joins the first ones.
func (c *company) add() *process {
	p := &process{name: fmt.Sprintf("n%d", len(c.all)+1), listen: freeAddress(c.t), peer: freePeerAddress(c.t)}
	p.data = filepath.Join(c.dir, p.name)
	p.args = slices.Clone(c.args)
	for _, other := range c.all {
		p.args = append(p.args, "--join", other.reached())
	}
	if c.wires != nil {
		var err error
		if p.end, err = c.wires.End(len(c.all)); err != nil {
			c.t.Fatal(err)
		}
		p.host, p.listen, p.peer, p.advertise = p.end.Host, p.end.Listen, p.end.Peer, p.end.Advertise
		p.args = append(p.args, "--peer-advertise", p.advertise)
	}
	c.all = append(c.all, p)
	return p
}

// reached is where the others reach it.
func (p *process) reached() string { return cmp.Or(p.advertise, p.peer) }

// freePeerAddress is one that both TCP and UDP have.
func freePeerAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := freeAddress(t)
		if tryPort("udp", addr) == nil {
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

func (p *process) flags(more ...string) []string {
	return slices.Concat([]string{"--data", p.data, "--name", p.name, "--listen", p.listen, "--peer-listen", p.peer}, p.args, more)
}

// launch starts the process; it does not wait.
func (p *process) launch(t *testing.T, more ...string) {
	t.Helper()
	command := slices.Concat(p.host, []string{the.norn, "server", "--http-listen", "127.0.0.1:0", "--eta", "100ms", "--log-format", "json"}, p.flags(more...))
	var err error
	if p.s, err = launchAs(exec.Command(command[0], command[1:]...)); err != nil {
		t.Fatal(err)
	}
	if p.end != nil {
		p.end.Started(p.s.cmd.Process.Pid)
	}
}

// ends tells the wires that the process is about to end.
func (p *process) ends() {
	if p.end != nil {
		p.end.Ending(p.s.cmd.Process.Pid)
	}
}

// start starts the process and waits until it is ready.
func (p *process) start(t *testing.T, more ...string) {
	t.Helper()
	p.launch(t, more...)
	if err := p.s.wait(); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

// kill kills the process as a power cut would, but for the page cache.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.ends()
	if _, err := p.s.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// stop ends the process in order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.ends()
	if code, err := p.s.end(syscall.SIGTERM); err != nil || code != 0 {
		t.Fatalf("%s ended with %d, %v:\n%s", p.name, code, err, endOf(p.s.log.String(), 4000))
	}
}

// destroy ends whatever is left of it.
func (p *process) destroy() {
	if p.s != nil {
		_ = p.s.cmd.Process.Kill() // it may have ended
		<-p.s.done
	}
}

func (p *process) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := p.s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// wipe removes the data directory.
func (p *process) wipe(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(p.data); err != nil {
		t.Fatal(err)
	}
}

// failed waits until the process ends by itself, and gives its exit code.
func (p *process) failed(t *testing.T) int {
	t.Helper()
	select {
	case <-p.s.done:
		return p.s.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatalf("%s does not end:\n%s", p.name, endOf(p.s.log.String(), 4000))
		return 0
	}
}

// startsAgain waits until a damaged node ends, or says that it has forgotten and
// starts again as another incarnation, and tells whether it does that.
func (p *process) startsAgain(t *testing.T) bool {
	t.Helper()
	again := func() bool { return strings.Contains(p.s.log.String(), "the node starts again as another one") }
	eventually(t, p.name+" ends or starts again", func() bool {
		select {
		case <-p.s.done:
			return true
		default:
			return again()
		}
	})
	return again()
}

// says waits until the log has a text, and that the process still runs.
func (p *process) says(t *testing.T, text string) {
	t.Helper()
	eventually(t, p.name+" says "+text, func() bool { return strings.Contains(p.s.log.String(), text) })
}

// addresses are those of all processes, for clients.
func (c *company) addresses() (all []string) {
	for _, p := range c.all {
		all = append(all, p.listen)
	}
	return all
}

// norn runs a command through one node.
func (p *process) norn(t *testing.T, args ...string) result {
	t.Helper()
	return nornWith(t, "", []string{"NORN_ADDR=" + p.listen}, args...)
}

// status asks a node for its status; nil when it does not answer.
func (p *process) status(t *testing.T) *statusJSON {
	t.Helper()
	r := p.norn(t, "cluster", "status", "-o", "json", "--timeout", "2s")
	var s statusJSON
	if r.code != 0 || json.Unmarshal([]byte(r.out), &s) != nil {
		return nil
	}
	return &s
}

// settled waits until all nodes say that every partition is on so many nodes,
// and served.
func (c *company) settled(replicas int, without ...*process) {
	c.t.Helper()
	for _, p := range c.all {
		if slices.Contains(without, p) {
			continue
		}
		last := ""
		begun := time.Now()
		for tick := time.Tick(100 * time.Millisecond); ; <-tick {
			s := p.status(c.t)
			if last = whole(s, replicas); last == "" {
				break
			}
			if time.Since(begun) > patience {
				c.t.Fatalf("%s says after %v: %s", p.name, patience, last)
			}
		}
	}
}

// whole says what is missing.
func whole(s *statusJSON, replicas int) string {
	if s == nil {
		return "it does not answer"
	}
	copies, vnodes, voters := 0, 0, 0
	for _, p := range s.Partitions {
		copies += len(p.Cohort)
		if len(p.Cohort) != replicas || p.Leader == "" || p.Enqueue == nil || !*p.Enqueue || p.Claim == nil || !*p.Claim {
			b, err := json.Marshal(p)
			return fmt.Sprintf("partition %d of %d: %s, %v", p.ID, len(s.Partitions), b, err)
		}
	}
	for _, n := range s.Nodes { // a dead incarnation may have the name of a living one
		if n.State == "up" {
			vnodes += n.Vnodes
		}
		if n.State == "up" && slices.Contains(s.Voters, n.Name) {
			voters++
		}
	}
	if vnodes != copies || voters != len(s.Voters) || voters < replicas-(replicas+1)%2 { // an odd number of voters
		return fmt.Sprintf("of %d copies %d are on living nodes, of voters %v %d live: %+v", copies, vnodes, s.Voters, voters, s.Nodes)
	}
	return ""
}

// verified runs `norn cluster verify` through a node.
func (p *process) verified(t *testing.T) {
	t.Helper()
	if r := p.norn(t, "cluster", "verify", "--wait", "2m"); r.code != 0 {
		t.Errorf("through %s, verify exits with %d: %s\n%s", p.name, r.code, r.err, r.out)
	}
}

// counted wants a number of tasks in a queue through a node.
func (p *process) counted(t *testing.T, queue string, want uint64) {
	t.Helper()
	r := p.norn(t, "task", "count", "-q", queue, "-o", "json")
	var got struct{ Total json.Number }
	if r.code != 0 || json.Unmarshal([]byte(r.out), &got) != nil || got.Total.String() != fmt.Sprint(want) {
		t.Errorf("through %s, %s has %s tasks, want %d (exit %d, %s)", p.name, queue, got.Total, want, r.code, r.err)
	}
}

// tasks reads the tasks that the store of a stopped node has.
func (p *process) tasks(t *testing.T) map[id.ID]bool {
	t.Helper()
	s, err := store.OpenPebble(store.PebbleOptions{Dir: filepath.Join(p.data, "facts")})
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	tasks := make(map[id.ID]bool)
	for n := range 16 {
		for d, err := range vnode.Walk(s, ring.Partition(n), id.ID{}, func(*crdt.Enqueued) bool { return true }) {
			if err != nil {
				t.Fatalf("%s: partition %d: %v", p.name, n, err)
			}
			if d.Task.Enqueued != nil {
				tasks[d.Task.ID] = true
			}
		}
	}
	return tasks
}

// everywhere stops all nodes and wants the same tasks in each store: those that
// were acknowledged, and none that nobody sent.
func (c *company) everywhere(acked, sent map[id.ID]bool) {
	c.t.Helper()
	for _, p := range c.all {
		p.stop(c.t)
	}
	for _, p := range c.all {
		has := p.tasks(c.t)
		missing, strange := 0, 0
		for task := range acked { // Any order: they are counted.
			if !has[task] {
				missing++
			}
		}
		for task := range has { // Any order: they are counted.
			if !sent[task] {
				strange++
			}
		}
		if missing > 0 || strange > 0 {
			c.t.Errorf("%s lacks %d of %d acknowledged tasks, and has %d that nobody sent", p.name, missing, len(acked), strange)
		}
	}
}

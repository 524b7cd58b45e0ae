package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/network"
	"github.com/norn-dev/norn/jepsen/lab/record"
)

// Config is what [lab.Run] is asked for.
type Config struct {
	Norn     string        // the program under test; required
	Old      string        // an older build, for upgrades; "": none
	Clocks   string        // a build whose clock can be set wrong; "": none
	Nodes    int           // 0: 3
	Fault    string        // of package faults; several with commas between come in turn; "": none
	Workload string        // of package workloads; "": enqueue
	Duration time.Duration // of the storm; 0: 20 s. Starting, healing and reading come on top
	Seed     uint64        // of the choice of faults, their order and length
	Think    time.Duration // of each client between two calls, on average; 0: 120 ms
	Eta      time.Duration // of nodes: how far clocks may differ, and messages be late; 0: 200 ms
	Unfenced bool          // the program is of before there were elections: nothing is said about claims
	Proxy    bool          // nodes on loopback behind a proxy, also where namespaces are allowed
	Dir      string        // for all files; "": a temporary one, removed in the end
	Logs     string        // where the logs of nodes go when a run does not pass; "": nowhere
	Progress io.Writer     `json:"-"` // hears of every step; nil: nobody
}

// Limits of a run.
const (
	Partitions = 16
	Replicas   = 3
	maxNodes   = 60 // those that join and go included
	// Rest is how long a healed cluster may take until it is whole.
	Rest = 2 * time.Minute
	// Most is how long anything may take beyond the storm, and twice as long as that:
	// workers may be slower than clients.
	Most = 8 * time.Minute
)

// Lab is one run.
type Lab struct {
	Cfg    Config
	Dir    string
	Rec    *record.Recorder
	Rnd    *rand.Rand // of the nemesis, one goroutine
	Net    network.Network
	Layers Layers   // between each node and the machine's disk
	Args   []string // more arguments of nodes
	Dress  []func(*Lab, *Process) error
	Token  string // that nodes ask for; "": none
	Pki    *pki   // who shows which certificate; nil: nobody does
	Strain strain
	Gauges gauges
	Nodes  []*Process
	OnDisk []int         // tasks that each node had in the end
	Kept   time.Duration // finished tasks of a workload are kept; 0: for ever
	Caller Caller

	Mu             sync.Mutex // guards what follows
	Clients        []*client.Client
	Findings       []Finding
	Idle           []string // faults that had no effect, or of which nobody can tell
	Links          map[network.Way]network.Link
	Windows        []Window
	Calms          []Window              // times in which nothing was wrong
	Heirs          map[*Process]*Process // who took the place of one that is gone for good
	Wipes          map[int][]int64       // by node, when what it kept was taken away
	Thin           []Thin
	Equals         []int64 // when a look at all replicas began that found them equal
	Probes         map[int]*Probe
	Counts         []string // of tasks, as the program says through each node
	LossesForgiven int
}

// Finding is something wrong that the checker of histories cannot see.
type Finding struct{ Invariant, Text string }

// After somebody has ended the run nothing is: whoever waits for something then waits in
// vain.
func (l *Lab) Found(invariant, format string, args ...any) {
	if l.Caller.Ended() {
		l.Say("%v, this does not count: %s: %s", l.Caller.Why(), invariant, fmt.Sprintf(format, args...))
		return
	}
	l.Mu.Lock()
	l.Findings = append(l.Findings, Finding{invariant, fmt.Sprintf(format, args...)})
	l.Mu.Unlock()
	l.Say("FOUND %s: %s", invariant, fmt.Sprintf(format, args...))
}

// Say tells of a step.
func (l *Lab) Say(format string, args ...any) {
	if l.Cfg.Progress != nil {
		_, _ = fmt.Fprintf(l.Cfg.Progress, "%7.1fs %s\n", time.Since(l.Rec.Began).Seconds(), fmt.Sprintf(format, args...))
	}
}

// Note says it and writes it down.
func (l *Lab) Note(format string, args ...any) {
	l.Rec.Note(fmt.Sprintf(format, args...))
	l.Say(format, args...)
}

// Open makes the directory and the network of a run.
func Open(cfg Config, shaped bool) (*Lab, error) {
	l := &Lab{
		Cfg: cfg, Rec: record.NewRecorder(), Rnd: rand.New(rand.NewPCG(cfg.Seed, 0)),
		Links: map[network.Way]network.Link{}, Heirs: map[*Process]*Process{}, Wipes: map[int][]int64{}, Probes: map[int]*Probe{},
	}
	if _, err := os.Stat(cfg.Norn); err != nil {
		return nil, fmt.Errorf("the program under test: %w", err)
	}
	var err error
	if l.Dir, err = machine.MakeDir(cfg.Dir); err != nil {
		return nil, err
	}
	why := machine.Namespaces()
	if why == nil && !cfg.Proxy && !shaped {
		l.Net, err = network.NewNetns()
	} else {
		l.Net, err = network.NewProxied()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(l.Dir))
	}
	return l, nil
}

// Close ends all processes of the run and removes what it has made.
func (l *Lab) Close() error {
	var all []error
	for _, c := range l.Clients {
		all = append(all, c.Close())
	}
	for _, p := range l.Nodes {
		all = append(all, p.Kill())
	}
	all = append(all, l.Net.Close(), l.unmount())
	return errors.Join(append(all, os.RemoveAll(l.Dir))...)
}

// Dial makes a client of some nodes that lives as long as the run.
func (l *Lab) Dial(timeout time.Duration, nodes ...*Process) (*client.Client, error) {
	var addresses []string
	for _, p := range nodes {
		addresses = append(addresses, p.Dial)
	}
	c, err := client.Dial(context.Background(), addresses, l.Options(client.WithTimeout(timeout), client.WithAgent("norn-lab"))...)
	if err == nil {
		l.Mu.Lock()
		defer l.Mu.Unlock()
		l.Clients = append(l.Clients, c)
	}
	return c, err
}

// Add makes room for one more node.
func (l *Lab) Add() (*Process, error) {
	n := len(l.Nodes)
	if n >= maxNodes {
		return nil, fmt.Errorf("%d nodes are the most", maxNodes)
	}
	at, err := l.Net.Place(n)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("n%d", n+1)
	p := &Process{
		Place: at, Name: name, N: n, Norn: l.Cfg.Norn, Data: filepath.Join(l.Dir, name), Log: filepath.Join(l.Dir, name+".log"),
		Args: []string{
			// On a machine so busy that messages take longer, probes do too.
			"--gossip-interval", l.Cfg.Eta.String(), "--repair-interval", "1s", "--partitions", fmt.Sprint(Partitions), "--replicas", fmt.Sprint(Replicas),
			"--memtable-size", "4MiB", "--eta", l.Cfg.Eta.String(), "--disk-reserve", "64MiB", "--disk-stop", "16MiB", "--disk-check-interval", "500ms",
		},
	}
	p.Args = append(p.Args, l.Args...)
	p.ended = func(status int) {
		if words := p.LastWords(); l.Caller.End != nil && strings.Contains(words, portTaken) {
			l.Caller.End(fmt.Errorf("%w: %s: %s", ErrTaken, p.Name, words))
			return
		}
		l.Found("internal", "%s ended by itself with status %d: %v", p.Name, status, l.logOf(p))
	}
	for _, dress := range l.Dress {
		if err := dress(l, p); err != nil {
			return nil, err
		}
	}
	p.Own = p.Norn // after the dressing: some faults need a build of their own
	l.Mu.Lock()
	l.Nodes = append(l.Nodes, p) // by the nemesis, and by nobody else
	l.Mu.Unlock()
	if err := os.Mkdir(p.Data, 0o700); err != nil {
		return p, err
	}
	return p, l.Layers.lay(p)
}

// Begin starts a node that joins the others; it does not wait. That the program
// ends before it is told to is a finding.
func (l *Lab) Begin(p *Process) error {
	p.May(false)
	return l.Attempt(p)
}

// Attempt starts a node that may end by itself, with an error.
func (l *Lab) Attempt(p *Process) error {
	var more []string
	for _, other := range l.Nodes {
		if other != p && !other.Gone && other.Cmd != nil {
			more = append(more, "--join", other.Advertise)
		}
	}
	return p.start(more...)
}

// Members are the nodes that are to run.
func (l *Lab) Members() (all []*Process) {
	for _, p := range l.Nodes {
		if !p.Gone {
			all = append(all, p)
		}
	}
	return all
}

// Relink makes the links what they are now to be.
func (l *Lab) Relink(change func(map[network.Way]network.Link)) error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	change(l.Links)
	return l.Net.Set(l.Links)
}

// Linked gives the links between a node and this process.
func (l *Lab) Linked(p *Process) (there, back network.Link) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.Links[network.Way{From: network.Driver, To: p.N}], l.Links[network.Way{From: p.N, To: network.Driver}]
}

// Wiped writes down that a node has lost what it kept.
func (l *Lab) Wiped(p *Process) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Wipes[p.N] = append(l.Wipes[p.N], int64(time.Since(l.Rec.Began)))
}

// Window is when a fault was there.
type Window struct {
	Fault    string
	What     string
	From, To time.Duration // since the start of the run
	Whole    time.Duration // when the cluster was whole again; 0: it was not waited for
}

// ErrStuck is returned when a cluster does not recover: there is a finding.
var ErrStuck = errors.New("the cluster does not recover")

// Names gives the names of nodes, sorted, for messages.
func Names(all []*Process) string {
	var s []string
	for _, p := range all {
		s = append(s, p.Name)
	}
	slices.Sort(s)
	return strings.Join(s, " ")
}

// Proven says that a fault did what it is for, or else notes what cannot be told: then
// the run proves nothing.
func Proven(l *Lab, is bool, format string, args ...any) {
	if is {
		return
	}
	l.Mu.Lock()
	l.Idle = append(l.Idle, fmt.Sprintf(format, args...))
	l.Mu.Unlock()
	l.Say("NO EFFECT: %s", fmt.Sprintf(format, args...))
}

// Options are those of every client that may do something.
func (l *Lab) Options(more ...client.Option) []client.Option {
	if l.Token != "" {
		more = append(more, client.WithAuthToken(l.Token))
	}
	return l.Pki.Secure(more...)
}

// HeirsOf gives the nodes that are in the positions of some, where one of them was
// replaced; else nil. Their clients would talk to nobody for the rest of the run.
func (l *Lab) HeirsOf(some []*Process) (now []*Process) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for i, p := range some {
		for heir := l.Heirs[p]; heir != nil; heir = l.Heirs[p] {
			p = heir
		}
		if p != some[i] && now == nil {
			now = slices.Clone(some)
		}
		if now != nil {
			now[i] = p
		}
	}
	return now
}

// Name is that of the files of a run, without directory and ending.
func (c *Config) Name() string {
	fault := c.Fault
	if fault == "" {
		fault = "none"
	}
	return fmt.Sprintf("%s-%s-%d", fault, c.Workload, c.Seed)
}

// History is what is judged and kept.
func (l *Lab) History() []*history.Event {
	l.Rec.Mu.Lock()
	defer l.Rec.Mu.Unlock()
	return record.Repeated(l.Rec.Events)
}

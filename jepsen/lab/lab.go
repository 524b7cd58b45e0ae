package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
)

// Config is what [Run] is asked for.
type Config struct {
	Norn     string        // the program under test; required
	Old      string        // an older build, for upgrades; "": none
	Clocks   string        // a build whose clock can be set wrong; "": none
	Nodes    int           // 0: 3
	Fault    string        // of [Faults]; several with commas between come in turn; "": none
	Workload string        // of [Workloads]; "": enqueue
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
	partitions = 16
	replicas   = 3
	maxNodes   = 60 // those that join and go included
	// rest is how long a healed cluster may take until it is whole.
	rest = 2 * time.Minute
	// most is how long anything may take beyond the storm, and twice as long as that:
	// workers may be slower than clients.
	most = 8 * time.Minute
)

// lab is one run.
type lab struct {
	cfg    Config
	dir    string
	rec    *recorder
	rnd    *rand.Rand // of the nemesis, one goroutine
	net    network
	layers layers   // between each node and the machine's disk
	args   []string // more arguments of nodes
	dress  []func(*lab, *process) error
	token  string // that nodes ask for; "": none
	pki    *pki   // who shows which certificate; nil: nobody does
	strain strain
	gauges gauges
	nodes  []*process
	onDisk []int         // tasks that each node had in the end
	kept   time.Duration // finished tasks of a workload are kept; 0: for ever
	caller caller
	// servers have a node show that it serves, from one goroutine at a time.
	servers map[*process]*hand

	mu             sync.Mutex // guards what follows
	clients        []*client.Client
	findings       []finding
	idle           []string // faults that had no effect, or of which nobody can tell
	links          map[way]link
	windows        []Window
	calms          []Window              // times in which nothing was wrong
	heirs          map[*process]*process // who took the place of one that is gone for good
	wipes          map[int][]int64       // by node, when what it kept was taken away
	thin           []thin
	equals         []int64 // when a look at all replicas began that found them equal
	probes         map[int]*Probe
	counts         []string // of tasks, as the program says through each node
	lossesForgiven int
}

// finding is something wrong that the checker of histories cannot see.
type finding struct{ invariant, text string }

// After somebody has ended the run nothing is: whoever waits for something then waits in
// vain.
func (l *lab) found(invariant, format string, args ...any) {
	if l.caller.ended() {
		l.say("the run was ended by somebody, this does not count: %s: %s", invariant, fmt.Sprintf(format, args...))
		return
	}
	l.mu.Lock()
	l.findings = append(l.findings, finding{invariant, fmt.Sprintf(format, args...)})
	l.mu.Unlock()
	l.say("FOUND %s: %s", invariant, fmt.Sprintf(format, args...))
}

// say tells of a step.
func (l *lab) say(format string, args ...any) {
	if l.cfg.Progress != nil {
		_, _ = fmt.Fprintf(l.cfg.Progress, "%7.1fs %s\n", time.Since(l.rec.began).Seconds(), fmt.Sprintf(format, args...))
	}
}

// note says it and writes it down.
func (l *lab) note(format string, args ...any) {
	l.rec.note(fmt.Sprintf(format, args...))
	l.say(format, args...)
}

// open makes the directory and the network of a run.
func open(cfg Config, shaped bool) (*lab, error) {
	l := &lab{
		cfg: cfg, rec: newRecorder(), rnd: rand.New(rand.NewPCG(cfg.Seed, 0)),
		links: map[way]link{}, heirs: map[*process]*process{}, wipes: map[int][]int64{}, probes: map[int]*Probe{},
	}
	if _, err := os.Stat(cfg.Norn); err != nil {
		return nil, fmt.Errorf("the program under test: %w", err)
	}
	var err error
	if l.dir, err = makeDir(cfg.Dir); err != nil {
		return nil, err
	}
	why := namespaces()
	if why == nil && !cfg.Proxy && !shaped {
		l.net, err = newNetns()
	} else {
		l.net, err = newProxied()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(l.dir))
	}
	return l, nil
}

// close ends all processes of the run and removes what it has made.
func (l *lab) close() error {
	var all []error
	for _, c := range l.clients {
		all = append(all, c.Close())
	}
	for _, p := range l.nodes {
		all = append(all, p.kill())
	}
	all = append(all, l.net.close(), l.unmount())
	return errors.Join(append(all, os.RemoveAll(l.dir))...)
}

// dial makes a client of some nodes that lives as long as the run.
func (l *lab) dial(timeout time.Duration, nodes ...*process) (*client.Client, error) {
	var addresses []string
	for _, p := range nodes {
		addresses = append(addresses, p.dial)
	}
	c, err := client.Dial(context.Background(), addresses, l.options(client.WithTimeout(timeout), client.WithAgent("norn-lab"))...)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.clients = append(l.clients, c)
	}
	return c, err
}

// add makes room for one more node.
func (l *lab) add() (*process, error) {
	n := len(l.nodes)
	if n >= maxNodes {
		return nil, fmt.Errorf("%d nodes are the most", maxNodes)
	}
	at, err := l.net.place(n)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("n%d", n+1)
	p := &process{
		place: at, name: name, n: n, norn: l.cfg.Norn, data: filepath.Join(l.dir, name), log: filepath.Join(l.dir, name+".log"),
		args: []string{
			// On a machine so busy that messages take longer, probes do too.
			"--gossip-interval", l.cfg.Eta.String(), "--repair-interval", "1s", "--partitions", fmt.Sprint(partitions), "--replicas", fmt.Sprint(replicas),
			"--memtable-size", "4MiB", "--eta", l.cfg.Eta.String(), "--disk-reserve", "64MiB", "--disk-stop", "16MiB", "--disk-check-interval", "500ms",
		},
	}
	p.args = append(p.args, l.args...)
	p.ended = func(status int) {
		l.found("internal", "%s ended by itself with status %d: %v", p.name, status, l.logOf(p))
	}
	for _, dress := range l.dress {
		if err := dress(l, p); err != nil {
			return nil, err
		}
	}
	p.own = p.norn // after the dressing: some faults need a build of their own
	l.mu.Lock()
	l.nodes = append(l.nodes, p) // by the nemesis, and by nobody else
	l.mu.Unlock()
	if err := os.Mkdir(p.data, 0o700); err != nil {
		return p, err
	}
	return p, l.layers.lay(p)
}

// begin starts a node that joins the others; it does not wait. That the program
// ends before it is told to is a finding.
func (l *lab) begin(p *process) error {
	p.may(false)
	return l.attempt(p)
}

// attempt starts a node that may end by itself, with an error.
func (l *lab) attempt(p *process) error {
	var more []string
	for _, other := range l.nodes {
		if other != p && !other.gone && other.cmd != nil {
			more = append(more, "--join", other.advertise)
		}
	}
	return p.start(more...)
}

// members are the nodes that are to run.
func (l *lab) members() (all []*process) {
	for _, p := range l.nodes {
		if !p.gone {
			all = append(all, p)
		}
	}
	return all
}

// relink makes the links what they are now to be.
func (l *lab) relink(change func(map[way]link)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l.links)
	return l.net.set(l.links)
}

// linked gives the links between a node and this process.
func (l *lab) linked(p *process) (there, back link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.links[way{driver, p.n}], l.links[way{p.n, driver}]
}

// wiped writes down that a node has lost what it kept.
func (l *lab) wiped(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wipes[p.n] = append(l.wipes[p.n], int64(time.Since(l.rec.began)))
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/internal/memory"
	"github.com/norn-dev/norn/proto/jsonform"
)

// devGrace is for a clean stop, beyond the stop-timeout of the nodes.
const devGrace = 5 * time.Second

// devChild is a node's process.
type devChild struct {
	devNode
	cmd    *exec.Cmd
	log    string // path of its log
	before int64  // size of the log at the start
	err    error  // how it ended
	over   bool
}

// devCluster is all processes.
type devCluster struct {
	app      *app
	exe      string
	verbose  bool
	grace    time.Duration // for a clean stop
	children []*devChild
	ended    chan *devChild // each once
	waiting  sync.WaitGroup
	all      chan struct{} // closed when every process has ended
	share    []string      // of the environment: what a node may have of what all may
}

// run runs a cluster until it is told to stop.
func (a devCommand) run(ctx context.Context, o devOptions, file string, given map[string]string) (err error) {
	a.Daemon(nil)
	temporary := o.data == ""
	if temporary {
		o.data = filepath.Join(os.TempDir(), "norn-dev") // for the plan
	} else if o.data, err = filepath.Abs(o.data); err != nil { // what is printed may be used elsewhere
		return err
	}
	nodes, cfg, err := a.plan(o, file, given)
	if err != nil {
		return err
	}
	if err := checkPorts(nodes); err != nil {
		return err
	}
	d := &devCluster{app: a.app, verbose: o.verbose, grace: cfg.StopTimeout + devGrace, ended: make(chan *devChild, len(nodes)), all: make(chan struct{}), share: memoryShare(a.Environ, memory.Limit(), len(nodes))}
	if d.exe, err = os.Executable(); err != nil {
		return fmt.Errorf("where is this program? %w", err)
	}
	if temporary {
		if o.data, err = os.MkdirTemp("", "norn-dev-"); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				a.Note("data and logs are left in %s", o.data)
				return
			}
			err = os.RemoveAll(o.data)
		}()
		if nodes, cfg, err = a.plan(o, file, given); err != nil {
			return err
		}
		a.Note("everything is in %s and is removed at the end; --data keeps it", o.data)
	}
	if left := leftOut(o.data, o.nodes); len(left) > 0 {
		a.Note("%s has data of %s, too, which will not run; see --nodes", o.data, strings.Join(left, ", "))
	}
	soft, now, done := cli.TwoSignals(ctx)
	defer done()
	if ctx.Err() != nil { // told to stop before this listened
		return nil
	}
	if err := d.start(nodes); err != nil {
		return errors.Join(err, d.stop(now))
	}
	checks, err := newDevChecks(a.app, cfg, nodes)
	if err != nil {
		return errors.Join(err, d.stop(now))
	}
	defer checks.close()
	err = d.run(soft, checks)
	return errors.Join(err, d.stop(now))
}

// memoryShare is what the environment of each of so many nodes has of a limit of all, bytes
// (0: there is none), unless it says of each already what it may have.
func memoryShare(environ []string, limit uint64, nodes int) []string {
	said := slices.ContainsFunc(environ, func(v string) bool {
		value, ok := strings.CutPrefix(v, "GOMEMLIMIT=")
		return ok && value != ""
	})
	if said || limit == 0 {
		return nil
	}
	return []string{fmt.Sprintf("GOMEMLIMIT=%d", memory.Soft(limit/uint64(nodes)))}
}

// start starts all processes.
func (d *devCluster) start(nodes []devNode) error {
	started := make(chan error)
	go func() {
		// The kernel ends the children with the thread that has started them: it
		// is this one's alone, and stays as long as they do.
		runtime.LockOSThread()
		var err error
		for _, n := range nodes {
			if err = d.startNode(n); err != nil {
				err = fmt.Errorf("%s: %w", n.name, err)
				break
			}
		}
		started <- err
		d.waiting.Wait()
		close(d.all)
	}()
	return <-started
}

// startNode starts one process, with its log in its directory.
func (d *devCluster) startNode(n devNode) error {
	if err := os.MkdirAll(n.data, 0o750); err != nil {
		return err
	}
	c := &devChild{devNode: n, log: filepath.Join(n.data, "log")}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	if info, err := log.Stat(); err == nil {
		c.before = info.Size()
	}
	c.cmd = exec.Command(d.exe, n.args...)
	c.cmd.Env = append(slices.Clone(d.app.Environ), d.share...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	attach(c.cmd)
	show := &prefixed{to: d.app.ErrOut, prefix: n.name + " | ", also: log}
	if d.verbose {
		c.cmd.Stdout, c.cmd.Stderr = show, show
	}
	if err := c.cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	d.children = append(d.children, c)
	d.waiting.Go(func() {
		c.err = c.cmd.Wait()
		show.close()
		_ = log.Close() // a child without --verbose has its own
		d.ended <- c
	})
	return nil
}

// run waits until the nodes are ready, says so, and then until the end.
func (d *devCluster) run(soft context.Context, checks *devChecks) error {
	a := d.app
	if a.Format == render.Table {
		d.told(d.table())
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	waiting, cancel := context.WithCancel(soft)
	defer cancel()
	ready := make(chan []string, 1)
	asking.Go(func() { checks.wait(waiting, ready) })
	for {
		select {
		case <-soft.Done():
			checks.clear()
			a.Note("stopping; again to kill")
			return nil
		case notes := <-ready:
			ready = nil
			d.told(d.sayReady(notes))
		case c := <-d.ended:
			c.over = true
			if ready != nil {
				cancel()
				checks.clear()
				return fmt.Errorf("%s before the cluster was ready", d.obituary(c))
			}
			a.Complain(fmt.Sprintf("%s; the others go on. It starts again with: %s", d.obituary(c), shellLine(append([]string{d.exe}, c.args...))))
			if d.alive() == 0 {
				return errors.New("no node is left")
			}
		}
	}
}

// told says that something could not be printed. The nodes go on: whoever reads their
// table may have seen enough of it.
func (d *devCluster) told(err error) {
	if err != nil {
		d.app.Note("standard output: %v", err)
	}
}

// table tells which processes run where.
func (d *devCluster) table() error {
	column := func(head string, cell func(*devChild) string) render.Column[*devChild] {
		return render.Column[*devChild]{Head: head, Cell: cell}
	}
	list := render.NewList(d.app.Writer(), devForm,
		column("node", func(c *devChild) string { return c.name }),
		column("clients", func(c *devChild) string { return c.listen }),
		column("nodes", func(c *devChild) string { return c.peer }),
		column("http", func(c *devChild) string { return c.http }),
		column("pid", func(c *devChild) string { return fmt.Sprint(c.cmd.Process.Pid) }),
		column("log", func(c *devChild) string { return c.log }),
	)
	for _, c := range d.children {
		list.Add(c)
	}
	return list.Close()
}

func devForm(c *devChild) jsonform.Value {
	str := jsonform.String
	return jsonform.Object().With("name", str(c.name)).With("pid", jsonform.Uint64(uint64(c.cmd.Process.Pid))).
		With("address", str(c.listen)).With("peer_address", str(c.peer)).With("http_address", str(c.http)).
		With("data", str(c.data)).With("log", str(c.log))
}

// sayReady tells scripts and people.
func (d *devCluster) sayReady(notes []string) error {
	a := d.app
	for _, n := range notes {
		a.Note("%s", n)
	}
	if a.Format != render.Table {
		return d.table()
	}
	if _, err := fmt.Fprintln(a.Out, "ready"); err != nil {
		return err
	}
	var addresses []string
	for _, c := range d.children {
		addresses = append(addresses, c.listen)
	}
	a.Note("for all nodes: export NORN_ADDR=%s", strings.Join(addresses, ","))
	a.Note("to look at them: http://%s/", d.children[0].http) // where there is a certificate it sends on to https
	return nil
}

func (d *devCluster) alive() int {
	n := 0
	for _, c := range d.children {
		if !c.over {
			n++
		}
	}
	return n
}

// obituary says how a node ended, with its last lines.
func (d *devCluster) obituary(c *devChild) string {
	how := "exit status 0"
	if c.err != nil {
		how = c.err.Error()
	}
	text := fmt.Sprintf("%s (pid %d) ended: %s", c.name, c.cmd.Process.Pid, how)
	if last := lastLines(c.log, c.before); !d.verbose && last != "" {
		d.app.Complain("the last lines of " + c.log + ":\n" + cli.Clean(last))
	}
	return text
}

// stop ends what still runs: SIGTERM, and SIGKILL when that takes too long or
// now is closed.
func (d *devCluster) stop(now <-chan struct{}) error {
	var failed []error
	d.signal(syscall.SIGTERM)
	late := time.After(d.grace)
	for d.alive() > 0 {
		select {
		case c := <-d.ended:
			c.over = true
			var exit *exec.ExitError
			if errors.As(c.err, &exit) && exit.Exited() { // not killed by a signal
				failed = append(failed, errors.New(d.obituary(c)))
			}
		case <-late:
			d.app.Note("not stopped after %s; killing", d.grace)
			late = nil
			d.signal(syscall.SIGKILL)
		case <-now:
			now = nil
			d.signal(syscall.SIGKILL)
		}
	}
	<-d.all
	return errors.Join(failed...)
}

func (d *devCluster) signal(sig os.Signal) {
	for _, c := range d.children {
		if !c.over {
			_ = c.cmd.Process.Signal(sig) // it may have ended meanwhile
		}
	}
}

// Bounds of what is shown of a log.
const (
	lastBytes = 4 << 10
	lastCount = 8
)

// lastLines gives the end of a log, of what was written after an offset.
func lastLines(path string, from int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(from, info.Size()-lastBytes), lastBytes))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-lastCount):], "\n")
}

// tryPort opens a port and closes it.
func tryPort(network, address string) error {
	var open io.Closer
	var err error
	if network == "udp" {
		open, err = net.ListenPacket(network, address)
	} else {
		open, err = net.Listen(network, address)
	}
	if err != nil {
		return err
	}
	return open.Close()
}

// prefixed writes lines with something before each, and all of it to a file.
type prefixed struct {
	to     io.Writer
	prefix string
	also   *os.File
	part   []byte // of a line
}

// longestLine is cut in two.
const longestLine = 64 << 10

// Write is called by one goroutine at a time.
func (p *prefixed) Write(b []byte) (int, error) {
	_, _ = p.also.Write(b) // the terminal has it too
	p.part = append(p.part, b...)
	for {
		at := bytes.IndexByte(p.part, '\n') + 1
		if at == 0 && len(p.part) > longestLine {
			at = len(p.part)
		}
		if at == 0 {
			return len(b), nil
		}
		p.line(p.part[:at])
		p.part = p.part[at:]
	}
}

func (p *prefixed) line(b []byte) {
	fmt.Fprintf(p.to, "%s%s\n", p.prefix, cli.Clean(strings.TrimRight(string(b), "\r\n")))
}

// close writes the last line if it has no end.
func (p *prefixed) close() {
	if len(p.part) > 0 {
		p.line(p.part)
	}
}

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
)

// Eta is the bound on clock differences and delays that nodes are given unless the
// run says otherwise. A node that cannot show, in round trips of less than half of
// it, that its clock is good leads nothing: a busy machine needs more.
const Eta = 200 * time.Millisecond

// clocks are the faults of clocks (F5), of a build whose clock can be set wrong.
func clocks() []Fault {
	fault := func(name, about string, run func(hands) error) Fault {
		return Fault{Name: name, About: about, Needs: settable, Dress: clockFile, Group: "clocks", run: func(n *nemesis) error { return run(hands{n}) }}
	}
	return []Fault{
		fault("clock", "all clocks step to and fro, no two further apart than eta allows (F5)", hands.within),
		fault("clock-rate", "one node's clocks run up to 2 % fast or slow (F5)", hands.drift),
		fault("clock-jump", "one node's wall clock jumps by seconds to days, ahead or back, and is set right again (F5)", hands.jump),
		fault("clock-strobe", "one node's wall clock jumps to and fro, several times a second (F5)", hands.strobe),
		fault("clock-together", "all clocks are set ahead alike by up to a minute, and right again (F5)", hands.together),
		fault("suspend", "one machine, most or all of them are suspended: their monotonic clocks stand still and their wall clocks do not (F5)", hands.suspended),
		fault("leap-second", "all clocks come to be a second ahead; then they repeat one, or lose it slowly, or one does otherwise than the others (F5)", hands.leaps),
		fault("clock-restart", "a node is killed and starts again with a clock that is an hour back, and is set right (F5)", hands.back),
	}
}

func settable(c *cluster.Config) error {
	if c.Clocks == "" {
		return machine.Unable("no program whose clock can be set was given (make build-test, -clocks bin/norn-test)")
	}
	_, err := os.Stat(c.Clocks)
	return err
}

// turns tells whether one of the faults named sets clocks.
func turns(names string) bool {
	faults, err := Find(names)
	return err == nil && slices.ContainsFunc(faults, func(f Fault) bool { return f.Group == "clocks" })
}

// settableIn tells whether the clock of a build can be set. It is asked to serve
// from a directory that cannot be: any build ends at once, and says why.
func settableIn(program string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	nowhere := filepath.Join(os.DevNull, "data")
	out, err := exec.CommandContext(ctx, program, "server", "--test-clock-file", nowhere, "--data", nowhere).CombinedOutput()
	return err != nil && len(out) > 0 && !bytes.Contains(out, []byte("it was not built for tests"))
}

// clockFile has a node run the program whose clock can be set, by a file.
func clockFile(l *cluster.Lab, p *cluster.Process) error {
	p.Norn = l.Cfg.Clocks
	p.Clock = p.Data + ".clock"
	p.Args = append(p.Args, "--test-clock-file", p.Clock)
	return nil
}

// hands turns the hands of clocks.
type hands struct{ *nemesis }

// turn sets how wrong a node's clock is.
func (n hands) turn(p *cluster.Process, off time.Duration, ppm int) error {
	return n.write(p, fmt.Sprintf("%v %d", off, ppm))
}

// write replaces the file that says how wrong a node's clock is.
func (n hands) write(p *cluster.Process, text string) error {
	next := p.Clock + ".next"
	return errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, p.Clock))
}

// right sets clocks right. What is said about times in a history does not hold
// from the first wrong one on.
func (n hands) right(all ...*cluster.Process) error {
	var failed []error
	for _, p := range all {
		failed = append(failed, n.turn(p, 0, 0))
	}
	n.does("set right")
	return errors.Join(failed...)
}

// wrong notes that times say nothing from now on.
func (n hands) wrong() { n.Rec.Note(check.ClockStepped) }

func (n hands) within() error {
	n.wrong()
	for range 3 + n.Rnd.IntN(6) {
		for _, p := range n.Members() {
			off := time.Duration(n.Rnd.Int64N(int64(n.Cfg.Eta))) - n.Cfg.Eta/2
			if off = off * 4 / 5; n.Rnd.IntN(2) == 0 { // the rest is for delays
				n.does("%s by %v", p.Name, off.Round(time.Millisecond))
				if err := n.turn(p, off, 0); err != nil {
					return err
				}
			}
		}
		n.wait(200*time.Millisecond, 1500*time.Millisecond)
	}
	return n.right(n.Members()...)
}

// together: nobody can notice, as all confirm each other. A lease ends when its time has
// passed all the same.
func (n hands) together() error {
	n.wrong()
	all := n.Members()
	for range 1 + n.Rnd.IntN(3) {
		off := 2*n.Cfg.Eta + time.Duration(n.Rnd.Int64N(int64([]time.Duration{workloads.ShortLease, time.Minute}[n.Rnd.IntN(2)])))
		n.does("all are set ahead by %v", off.Round(time.Millisecond))
		if err := n.step(off, all...); err != nil {
			return err
		}
		n.wait(time.Second, workloads.ShortLease)
		if err := n.agree("all clocks are ahead alike"); err != nil {
			return err
		}
		if err := n.right(all...); err != nil {
			return err
		}
		if err := n.agree("all clocks are right again"); err != nil {
			return err
		}
	}
	return nil
}

func (n hands) drift() error {
	n.wrong()
	p, ppm := n.one(), n.Rnd.IntN(40_000)-20_000
	n.does("%s by %d ppm", p.Name, ppm)
	n.Hurt(p, true) // in the end it is further off than eta
	defer n.Hurt(p, false)
	if err := n.turn(p, 0, ppm); err != nil {
		return err
	}
	n.wait(4*time.Second, 12*time.Second)
	return n.right(p)
}

func (n hands) jump() error {
	n.wrong()
	p := n.one()
	far := []time.Duration{time.Second, 5 * time.Second, time.Minute, time.Hour, 24 * time.Hour}
	off := far[n.Rnd.IntN(len(far))]
	if n.Rnd.IntN(2) == 0 {
		off = -off
	}
	n.Hurt(p, true) // it may take itself out of service
	defer n.Hurt(p, false)
	n.does("%s by %v", p.Name, off)
	if err := n.turn(p, off, 0); err != nil {
		return err
	}
	n.wait(3*time.Second, 10*time.Second)
	return n.right(p)
}

func (n hands) strobe() error {
	n.wrong()
	p, far := n.one(), n.upTo(20*time.Second)
	n.Hurt(p, true)
	defer n.Hurt(p, false)
	n.does("%s by up to %v, to and fro", p.Name, far.Round(time.Millisecond))
	for end := time.Now().Add(n.upTo(8 * time.Second)); time.Now().Before(end); {
		off := time.Duration(n.Rnd.Int64N(2*int64(far))) - far
		if err := n.turn(p, off, 0); err != nil {
			return err
		}
		n.wait(50*time.Millisecond, 400*time.Millisecond)
	}
	return n.right(p)
}

func (n hands) back() error {
	n.wrong()
	p := n.one()
	n.Hurt(p, true)
	defer n.Hurt(p, false)
	n.does("kill -9 %s, set it back by an hour, start it", p.Name)
	if err := p.Kill(); err != nil {
		return err
	}
	if err := n.turn(p, -time.Hour, 0); err != nil {
		return err
	}
	if err := n.Begin(p); err != nil {
		return err
	}
	n.wait(3*time.Second, 8*time.Second)
	return n.right(p)
}

package faults

import (
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/machine"
)

// rotten are the faults of a disk that a program writes to, by a file system
// between it and the disk (F7, F10).
func rotten() []Fault {
	fault := func(name, about string, run func(rot) error) Fault {
		return Fault{Name: name, About: about, Layers: cluster.Moody, run: func(n *nemesis) error { return run(rot{n}) }}
	}
	return []Fault{
		fault("fsync-error", "fsync of one node fails; it must end and not try again (F7)", func(r rot) error { return r.fails("fsync", true) }),
		fault("write-error", "writes of one node fail (F7)", func(r rot) error { return r.fails("write", true) }),
		fault("read-error", "some reads of one node fail while it starts and runs (F7)", rot.unreadable),
		fault("slow-disk", "fsync of one node takes up to two seconds (F10)", rot.slow),
	}
}

// rot is the nemesis of disks in use.
type rot struct{ *nemesis }

// fails: calls of one kind fail for a while. The node must end where it cannot
// know any more what is on its disk.
func (n rot) fails(call string, mustEnd bool) error {
	p := n.one()
	n.Hurt(p, true)
	defer n.Hurt(p, false)
	p.May(true)
	before := p.Mood.Failed.Load()
	n.does("every %s of %s fails", call, p.Name)
	p.Mood.Set(call, 1, 0)
	ended := p.Ends(time.Duration(5+n.Rnd.IntN(6)) * time.Second)
	if mustEnd && !ended {
		ended = p.Ends(machine.Patience)
	}
	p.Mood.Set("", 1, 0)
	failed := p.Mood.Failed.Load() - before
	n.does("%d have failed", failed)
	cluster.Proven(n.Lab, !mustEnd || failed > 0, "%s of %s fails: it made none", call, p.Name) // who never syncs does not see that it fails
	if mustEnd && failed > 0 && !ended {
		n.Found("persistence", "%s goes on after %d failed calls of %s", p.Name, failed, call) // I17
	}
	if !ended {
		p.May(false)
		return nil
	}
	n.does("%s had ended with status %d (%s); start it", p.Name, p.Cmd.ProcessState.ExitCode(), p.LastWords())
	return n.Begin(p)
}

// unreadable: a node starts, and some of what it reads cannot be read. It may
// end, saying so; it may not take what it cannot read for absent.
func (n rot) unreadable() error {
	p, every := n.one(), 2+n.Rnd.IntN(30)
	n.Hurt(p, true)
	defer n.Hurt(p, false)
	n.does("kill -9 %s, start it; one of %d reads fails", p.Name, every)
	if err := p.Kill(); err != nil {
		return err
	}
	before := p.Mood.Failed.Load()
	p.Mood.Set("read", every, 0)
	p.May(true)
	if err := n.Attempt(p); err != nil {
		return err
	}
	ended := p.Ends(time.Duration(3+n.Rnd.IntN(6)) * time.Second)
	p.Mood.Set("", 1, 0)
	n.does("%d have failed", p.Mood.Failed.Load()-before)
	if !ended {
		p.May(false)
		return nil
	}
	n.does("%s had ended with status %d (%s); start it", p.Name, p.Cmd.ProcessState.ExitCode(), p.LastWords())
	return n.Begin(p)
}

func (n rot) slow() error {
	p, late := n.one(), n.upTo(2*time.Second)
	n.Hurt(p, true)
	defer n.Hurt(p, false)
	n.does("every fsync of %s takes %v", p.Name, late.Round(time.Millisecond))
	before := p.Mood.Tardy.Load()
	p.Mood.Set("", 1, late)
	n.wait(3*time.Second, 10*time.Second)
	p.Mood.Set("", 1, 0)
	cluster.Proven(n.Lab, p.Mood.Tardy.Load() > before, "a slow disk: %s has made no fsync", p.Name)
	return nil
}

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/machine"
)

// damages are the faults of what a node keeps, while it does not run (F8, F14,
// F15).
func damages() []Fault {
	return []Fault{
		{Name: "wipe", About: "kill one node, empty its directory, let it join under its name (F14)", run: func(n *nemesis) error { return disk{n}.emptied(n.one()) }},
		{Name: "restore", About: "a node comes back with a directory of some seconds ago (F15)", run: func(n *nemesis) error { return disk{n}.restored() }},
		{Name: "clone", About: "a copy of a node's directory is started beside the original (F15)", run: func(n *nemesis) error { return disk{n}.cloned() }},
		{Name: "truncate", About: "kill one node, cut the end off one of its files (F8)", run: func(n *nemesis) error { return disk{n}.damaged("cut off", truncate) }},
		{Name: "zeros", About: "kill one node, overwrite a part of one of its files with zeros (F8)", run: func(n *nemesis) error { return disk{n}.damaged("zeroed a part", zero) }},
		{Name: "decay", About: "each node in turn is killed, and bits in one of its files flipped; it is whole again before the next (F8)", run: func(n *nemesis) error { return disk{n}.decayed() }},
		{Name: "flip-running", About: "bits in a file of one node are flipped while it runs; seconds later it is killed and started (F8)", run: func(n *nemesis) error { return disk{n}.flippedAlive() }},
		{Name: "bit-flip", About: "kill one node, flip bits in one of its files (F8)", run: func(n *nemesis) error { return disk{n}.damaged("flipped bits", flip) }},
	}
}

// disk is the nemesis of what nodes keep.
type disk struct{ *nemesis }

// emptied: a node loses its disk and comes back under its name.
func (n disk) emptied(p *cluster.Process) error {
	if n.Rnd.IntN(2) == 0 {
		n.converge(p)
	}
	n.does("kill -9 and wipe %s", p.Name)
	if err := p.Kill(); err != nil {
		return err
	}
	n.Wiped(p)
	if err := p.Wipe(); err != nil {
		return err
	}
	n.wait(0, 4*time.Second)
	n.does("start %s empty", p.Name)
	return n.Begin(p)
}

// restored: what a node has written for some seconds is gone.
func (n disk) restored() error {
	p := n.one()
	backup := p.Data + ".backup"
	n.does("stop %s, back it up, start it", p.Name)
	if err := p.Stop(); err != nil {
		n.Found("internal", "SIGTERM: %v", err)
	}
	if err := copyDir(p.Data, backup); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(backup) }() // goes with the run at the latest
	if err := n.Begin(p); err != nil {
		return err
	}
	n.wait(2*time.Second, 6*time.Second)
	n.does("kill -9 %s, restore it", p.Name)
	if err := p.Kill(); err != nil {
		return err
	}
	n.Wiped(p)
	if err := p.Wipe(); err != nil {
		return err
	}
	if err := copyDir(backup, p.Data); err != nil {
		return err
	}
	return n.reopened(p)
}

// cloned: two programs run on one directory's content. The copy must give up, and
// do no harm.
func (n disk) cloned() error {
	p := n.one()
	n.does("kill -9 %s, copy its directory, start both", p.Name)
	if err := p.Kill(); err != nil {
		return err
	}
	twin := &cluster.Process{Name: p.Name, N: p.N, Norn: p.Norn, Args: p.Args, Data: p.Data + ".copy", Log: p.Log + ".copy"}
	if err := copyDir(p.Data, twin.Data); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(twin.Data) }() // goes with the run at the latest
	if err := n.Begin(p); err != nil {
		return err
	}
	n.wait(2*time.Second, 4*time.Second)
	at := *p.Place // where the original runs, at other ports
	twin.Place = &at
	at.Started, at.Ending = nil, nil
	at.Listen, at.Peer, at.Http = shifted(p.Listen), shifted(p.Peer), shifted(p.Http)
	at.Advertise = at.Peer
	twin.May(true)
	if err := n.Attempt(twin); err != nil {
		return err
	}
	defer func() { _ = twin.Kill() }()
	if gaveUp := twin.Ends(machine.Patience); !gaveUp {
		n.Found("clone", "a copy of the directory of %s runs beside it after %v", p.Name, machine.Patience)
	} else if status := twin.Cmd.ProcessState.ExitCode(); status == 0 {
		n.Found("clone", "a copy of the directory of %s ended with status 0", p.Name)
	}
	if !p.Running(0) {
		n.Found("clone", "%s ended when a copy of its directory was started", p.Name)
		return n.Begin(p)
	}
	return nil
}

// shifted is an address with another port.
func shifted(address string) string {
	i := strings.LastIndexByte(address, ':')
	return address[:i] + ":0"
}

// damaged: a file of a node is not what it was.
func (n disk) damaged(how string, do func(n disk, file string) error) error {
	p := n.one()
	if err := n.damagedThis(p, how, do); err != nil {
		return err
	}
	return n.rebuilt(p)
}

// decayed: no file of any node can be trusted for ever, but not all at once.
func (n disk) decayed() error {
	for _, p := range n.some(len(n.Members())) {
		n.converge(p)
		if err := n.damagedThis(p, "flipped bits", flip); err != nil {
			return err
		}
		if err := n.standsUp(p); err != nil {
			return err
		}
		if err := n.rebuilt(p); err != nil {
			return err
		}
		if err := n.Whole(n.Caller.GoesOn(), cluster.Rest); err != nil {
			n.Found("stuck", "%s was rebuilt: %v", p.Name, err)
			return cluster.ErrStuck
		}
	}
	return nil
}

// standsUp waits until all replicas are equal beside a node that runs with what may be
// damaged, or until that finds the damage, which may be where it reads last, and ends.
func (n disk) standsUp(p *cluster.Process) error {
	ctx, cancel := context.WithCancel(n.Caller.GoesOn())
	defer cancel()
	p.Mu.Lock()
	done := p.Done
	p.Mu.Unlock()
	go func() {
		defer cancel()
		select {
		case <-done:
		case <-ctx.Done():
		}
	}()
	kind, err := "stuck", n.Whole(ctx, cluster.Rest)
	if err == nil {
		kind, err = "convergence", n.Equal(ctx, p, cluster.Rest)
	}
	if err == nil {
		return nil
	}
	if p.Doubted && cluster.Ended(done) {
		n.does("%s ends later, with status %d (%s)", p.Name, p.Cmd.ProcessState.ExitCode(), p.LastWords())
		return nil
	}
	n.Found(kind, "bits of %s were flipped: %v", p.Name, err)
	return cluster.ErrStuck
}

func (n disk) damagedThis(p *cluster.Process, how string, do func(n disk, file string) error) error {
	n.does("kill -9 %s", p.Name)
	if err := p.Kill(); err != nil {
		return err
	}
	n.Wiped(p)
	file, err := n.file(p.Data)
	if err != nil {
		return err
	}
	short, _ := filepath.Rel(p.Data, file)
	n.does("%s: %s", how, short)
	if err := do(n, file); err != nil {
		return err
	}
	p.Doubted = true
	return n.reopened(p)
}

// flippedAlive: a node uses a file in which bits were flipped. It may notice at
// once, when it is started again, or never, because the file is replaced; it may not
// take what it cannot read for absent.
func (n disk) flippedAlive() error {
	p := n.one()
	n.Hurt(p, true)
	defer n.Hurt(p, false)
	n.converge(p)
	file, err := n.file(p.Data)
	if err != nil {
		return err
	}
	short, _ := filepath.Rel(p.Data, file)
	n.does("flipped bits of %s, which runs: %s", p.Name, short)
	p.May(true)
	n.Wiped(p)
	if err := n.flipInPlace(file); err != nil && !os.IsNotExist(err) { // the program may have deleted it meanwhile
		return err
	}
	if p.Ends(time.Duration(3+n.Rnd.IntN(6)) * time.Second) {
		n.does("%s had ended with status %d (%s)", p.Name, p.Cmd.ProcessState.ExitCode(), p.LastWords())
	}
	n.does("kill -9 %s", p.Name)
	if err := p.Kill(); err != nil {
		return err
	}
	n.Wiped(p) // what it has taken alone since may stand behind the damage
	p.Doubted = true
	if err := n.reopened(p); err != nil {
		return err
	}
	return n.rebuilt(p)
}

// flipInPlace flips bits of a file that somebody may have open: nothing else of it
// changes.
func (n disk) flipInPlace(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	i, err := f.Stat()
	for range 1 + n.Rnd.IntN(8) {
		if err != nil || i.Size() == 0 {
			break
		}
		at, b := n.Rnd.Int64N(i.Size()), make([]byte, 1)
		if _, err = f.ReadAt(b, at); err == nil {
			b[0] ^= 1 << n.Rnd.IntN(8)
			_, err = f.WriteAt(b, at)
		}
	}
	return errors.Join(err, f.Close())
}

// reopened starts a node whose directory may be of no use. Where it says so and
// ends, an operator would wipe it: so does the run.
func (n disk) reopened(p *cluster.Process) error {
	p.May(true)
	if err := n.Attempt(p); err != nil {
		return err
	}
	if !n.givesUp(p) {
		p.May(p.Doubted)
		n.does("%s runs with it", p.Name)
		return nil
	}
	n.does("%s ended with status %d (%s) and is wiped", p.Name, p.Cmd.ProcessState.ExitCode(), p.LastWords())
	n.Wiped(p) // with what it has taken since it was started
	p.Doubted = false
	if err := p.Wipe(); err != nil {
		return err
	}
	return n.Begin(p)
}

// rebuilt ends the doubt about a node that runs with what may be damaged: nobody has
// read all of it. It could find that out, and end, at any time later, when its copy may
// be the one that another fault leaves.
func (n disk) rebuilt(p *cluster.Process) error {
	if !p.Doubted {
		return nil
	}
	p.Doubted = false
	n.wait(0, 4*time.Second)
	n.does("%s is rebuilt", p.Name)
	if err := p.Kill(); err != nil {
		return err
	}
	n.Wiped(p)
	if err := p.Wipe(); err != nil {
		return err
	}
	return n.Begin(p)
}

// givesUp waits until a node either ends or is a good member. Others may have to
// refuse it for some time before it gives up.
func (n disk) givesUp(p *cluster.Process) bool {
	for range int(machine.Patience / time.Second) {
		if p.Ends(time.Second) {
			return true
		}
		if s, err := n.Status(context.Background(), p); err == nil && cluster.Lacks(s, len(n.Members())) == "" {
			return false
		}
	}
	return false
}

// file draws one that is not empty.
func (n disk) file(dir string) (string, error) {
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if i, err := d.Info(); err == nil && i.Mode().IsRegular() && i.Size() > 0 {
			all = append(all, path)
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no files", dir)
	}
	if err != nil {
		return "", err
	}
	return all[n.Rnd.IntN(len(all))], nil
}

// truncate cuts some of the end off.
func truncate(n disk, file string) error {
	i, err := os.Stat(file)
	if err != nil {
		return err
	}
	return os.Truncate(file, n.Rnd.Int64N(i.Size()))
}

// zero overwrites up to 4 KiB with zeros, where there is something else: files end with
// zeros that are to be written still.
func zero(n disk, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	written := len(bytes.TrimRight(b, "\x00"))
	if written == 0 {
		return flip(n, file)
	}
	at := n.Rnd.IntN(written)
	for b[at] == 0 {
		at++
	}
	clear(b[at:min(len(b), at+4096)])
	return os.WriteFile(file, b, 0o600)
}

// flip flips a bit in some places.
func flip(n disk, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for range 1 + n.Rnd.IntN(8) {
		b[n.Rnd.IntN(len(b))] ^= 1 << n.Rnd.IntN(8)
	}
	return os.WriteFile(file, b, 0o600)
}

// copyDir copies a directory; what is at the destination stays.
func copyDir(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(at, 0o700)
		}
		if !d.Type().IsRegular() {
			return nil // a socket is the program's, not data
		}
		b, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(at, b, 0o600))
	})
}

// converge waits until all replicas are equal, or not too long: what was
// acknowledged before it began is then on all of them.
func (n *nemesis) converge(through *cluster.Process) {
	begun := int64(time.Since(n.Rec.Began))
	if err := n.Equal(n.Caller.GoesOn(), through, 10*time.Second); err != nil {
		n.Say("not equal under load: %v", err)
		return
	}
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.Equals = append(n.Equals, begun)
	n.Say("all replicas are equal")
}

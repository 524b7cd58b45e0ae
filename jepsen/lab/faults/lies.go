package faults

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/storage"
)

// lying are the faults of a disk that says it has done what it has not (F9).
//
// From when it begins to lie it says of every sync that it is done. Then the power
// fails, and what the disk had really kept comes to light: nothing, some files and
// not others, or the first part of what was added to each. A disk that leads writes
// astray puts one of them a page further than it was told to.
//
// A liar gives no sign, so the node goes on acknowledging, and one copy of what it
// has acknowledged is gone: that of others must be enough. Only one node is lied to
// at a time.
func lying() []Fault {
	fault := func(name, about string, run func(rot) error) Fault {
		return Fault{Name: name, About: about, Layers: cluster.Moody, run: func(n *nemesis) error { return run(rot{n}) }}
	}
	return []Fault{
		fault("lying-disk", "the disk of one node says that it has synced and has not, until the power fails: nothing, some files, or parts of them are there (F9)", rot.lied),
		fault("astray", "the disk of one node puts a write elsewhere than it was told to, and the node is killed later (F9)", rot.astray),
	}
}

// Times of a disk that lies. What a node has written in the last second or two
// may be unknown to others, so that nobody could tell it that it has lost that
// (design K4): more than this is lost, or nothing.
const (
	leastLie = 5 * time.Second
	mostLie  = 10 * time.Second
)

// lied: what the disk of a node had kept when it began to lie is all there is, or
// some of what came after it.
func (n rot) lied() error {
	p := n.one()
	honest := p.Kept + ".honest"
	if err := n.photograph(p, honest); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(honest) }() // goes with the run at the latest
	n.does("the disk of %s lies", p.Name)
	p.Mood.Lies.Store(true)
	n.wait(leastLie, mostLie)
	n.does("the power of %s fails", p.Name)
	if err := p.Kill(); err != nil {
		return err
	}
	n.Wiped(p)
	p.Mood.Lies.Store(false)
	if p.Mood.Lied.Swap(0) == 0 {
		n.Found("internal", "%s has synced nothing in %v", p.Name, leastLie)
	}
	if err := storage.Unmount(p.Data); err != nil {
		return err
	}
	what, keep := n.outcome()
	if err := forget(p.Kept, honest, keep); err != nil {
		return err
	}
	n.does("%s", what)
	if err := storage.MountRot(p.Kept, p.Data, p.Mood); err != nil {
		return err
	}
	p.Doubted = true
	if err := disk(n).reopened(p); err != nil {
		return err
	}
	return disk(n).rebuilt(p)
}

// photograph copies what a node keeps while it stands still.
func (n rot) photograph(p *cluster.Process, to string) error {
	if err := p.Pause(true); err != nil {
		return err
	}
	return errors.Join(copyDir(p.Kept, to), p.Pause(false))
}

// outcome draws what a liar has kept of each file that has changed.
func (n rot) outcome() (what string, keep func(was, is []byte) []byte) {
	switch n.Rnd.IntN(3) {
	case 0:
		return "nothing was kept", func(was, _ []byte) []byte { return was }
	case 1:
		return "some files were kept and some not", func(was, is []byte) []byte {
			if n.Rnd.IntN(2) == 0 {
				return was
			}
			return is
		}
	}
	return "the first part was kept of what was added to each file", func(was, is []byte) []byte {
		if was == nil || len(is) <= len(was) {
			return was
		}
		return is[:len(was)+n.Rnd.IntN((len(is)-len(was))/2+1)]
	}
}

// forget makes a directory what a liar has kept: keep is asked about each file
// that is not as it was, with nil for one that was, or is, not there.
func forget(dir, honest string, keep func(was, is []byte) []byte) error {
	was, err := contents(honest)
	if err != nil {
		return err
	}
	is, err := contents(dir)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for name := range was {
		names[name] = true
	}
	for name := range is {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, now := was[name], is[name]
		if bytes.Equal(old, now) && (old == nil) == (now == nil) {
			continue
		}
		at := filepath.Join(dir, name)
		kept := keep(old, now)
		if kept == nil {
			if err := os.RemoveAll(at); err != nil {
				return err
			}
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, kept, 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// contents reads the regular files of a directory.
func contents(dir string) (map[string][]byte, error) {
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if b == nil {
			b = []byte{}
		}
		all[rel] = b
		return err
	})
	return all, err
}

// astray: one write of a node lands a page further than it was meant to. The node
// may see it at once, or when it is started again, or never, because the place was
// written anew; it may not take what is missing there for absent.
func (n rot) astray() error {
	p := n.one()
	n.Hurt(p, true)
	defer n.Hurt(p, false)
	p.May(true)
	after := 1 + n.Rnd.Int64N(50)
	n.does("the %d. write of %s goes astray", after, p.Name)
	p.Mood.Astray.Store(after)
	n.wait(leastLie, mostLie)
	if p.Mood.Astray.Swap(0) > 0 {
		n.does("it has not written as often")
	}
	n.does("kill -9 %s", p.Name)
	if err := p.Kill(); err != nil {
		return err
	}
	n.Wiped(p)
	p.Doubted = true
	if err := disk(n).reopened(p); err != nil {
		return err
	}
	return disk(n).rebuilt(p)
}

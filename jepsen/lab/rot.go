package lab

import (
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// rotten are the faults of a disk that a program writes to, by a file system
// between it and the disk (F7, F10).
func rotten() []Fault {
	fault := func(name, about string, run func(rot) error) Fault {
		return Fault{Name: name, About: about, layers: moody, run: func(n *nemesis) error { return run(rot{n}) }}
	}
	return []Fault{
		fault("fsync-error", "fsync of one node fails; it must end and not try again (F7)", func(r rot) error { return r.fails("fsync", true) }),
		fault("write-error", "writes of one node fail (F7)", func(r rot) error { return r.fails("write", true) }),
		fault("read-error", "some reads of one node fail while it starts and runs (F7)", rot.unreadable),
		fault("slow-disk", "fsync of one node takes up to two seconds (F10)", rot.slow),
	}
}

// mood is what a disk does to those who use it. The zero mood is a good one.
type mood struct {
	failed atomic.Int64 // calls that were failed
	lies   atomic.Bool  // every sync is said to be done, and is not
	lied   atomic.Int64 // syncs that were not done
	tardy  atomic.Int64 // syncs that were late
	astray atomic.Int64 // after so many writes one goes elsewhere; 0: none

	mu    sync.Mutex // guards what follows
	fails string     // fsync, write or read
	every int        // how many calls there are to one that fails
	calls int
	late  time.Duration
	dir   string // whose files are late; "": all
}

// set changes it: one of so many calls of a kind fails, fsync is late.
func (m *mood) set(fails string, every int, late time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails, m.every, m.late, m.dir = fails, every, late, ""
}

// slow makes fsync of the files in one directory late; 0: in none.
func (m *mood) slow(dir string, late time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late, m.dir = late, dir
}

// of is what becomes of a call for a file in some directory.
func (m *mood) of(call, dir string) syscall.Errno {
	m.mu.Lock()
	fails, late := m.fails == call, m.late
	if m.dir != "" && m.dir != dir {
		late = 0
	}
	if fails {
		m.calls++
		fails = m.calls%m.every == 0
	}
	m.mu.Unlock()
	if fails {
		m.failed.Add(1)
		return syscall.EIO
	}
	if late > 0 && call == "fsync" {
		m.tardy.Add(1)
		<-time.After(late)
	}
	return 0
}

// top is the first directory of a path.
func top(path string) string {
	first, _, _ := strings.Cut(path, "/")
	return first
}

// lie tells whether a sync is only said to be done.
func (m *mood) lie() bool {
	if !m.lies.Load() {
		return false
	}
	m.lied.Add(1)
	return true
}

// page is by how much a write goes astray.
const page = 4096

// shift is by how much the next write goes astray.
func (m *mood) shift() int64 {
	if m.astray.Load() > 0 && m.astray.Add(-1) == 0 {
		return page
	}
	return 0
}

// rot is the nemesis of disks in use.
type rot struct{ *nemesis }

// fails: calls of one kind fail for a while. The node must end where it cannot
// know any more what is on its disk.
func (n rot) fails(call string, mustEnd bool) error {
	p := n.one()
	n.hurt(p, true)
	defer n.hurt(p, false)
	p.may(true)
	before := p.mood.failed.Load()
	n.does("every %s of %s fails", call, p.name)
	p.mood.set(call, 1, 0)
	ended := p.ends(time.Duration(5+n.rnd.IntN(6)) * time.Second)
	if mustEnd && !ended {
		ended = p.ends(patience)
	}
	p.mood.set("", 1, 0)
	failed := p.mood.failed.Load() - before
	n.does("%d have failed", failed)
	proven(n.lab, !mustEnd || failed > 0, "%s of %s fails: it made none", call, p.name) // who never syncs does not see that it fails
	if mustEnd && failed > 0 && !ended {
		n.found("persistence", "%s goes on after %d failed calls of %s", p.name, failed, call) // I17
	}
	if !ended {
		p.may(false)
		return nil
	}
	n.does("%s had ended with status %d (%s); start it", p.name, p.cmd.ProcessState.ExitCode(), p.lastWords())
	return n.begin(p)
}

// unreadable: a node starts, and some of what it reads cannot be read. It may
// end, saying so; it may not take what it cannot read for absent.
func (n rot) unreadable() error {
	p, every := n.one(), 2+n.rnd.IntN(30)
	n.hurt(p, true)
	defer n.hurt(p, false)
	n.does("kill -9 %s, start it; one of %d reads fails", p.name, every)
	if err := p.kill(); err != nil {
		return err
	}
	before := p.mood.failed.Load()
	p.mood.set("read", every, 0)
	p.may(true)
	if err := n.attempt(p); err != nil {
		return err
	}
	ended := p.ends(time.Duration(3+n.rnd.IntN(6)) * time.Second)
	p.mood.set("", 1, 0)
	n.does("%d have failed", p.mood.failed.Load()-before)
	if !ended {
		p.may(false)
		return nil
	}
	n.does("%s had ended with status %d (%s); start it", p.name, p.cmd.ProcessState.ExitCode(), p.lastWords())
	return n.begin(p)
}

func (n rot) slow() error {
	p, late := n.one(), n.upTo(2*time.Second)
	n.hurt(p, true)
	defer n.hurt(p, false)
	n.does("every fsync of %s takes %v", p.name, late.Round(time.Millisecond))
	before := p.mood.tardy.Load()
	p.mood.set("", 1, late)
	n.wait(3*time.Second, 10*time.Second)
	p.mood.set("", 1, 0)
	proven(n.lab, p.mood.tardy.Load() > before, "a slow disk: %s has made no fsync", p.name)
	return nil
}

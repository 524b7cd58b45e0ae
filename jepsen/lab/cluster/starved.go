package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A machine that has no time for a node makes it late, and so does a disk that
// others keep busy: that says nothing about the node. What a node must do in a time
// is held against it only when it had the machine for that time. (What it must not
// do at all is held against it however busy the machine is.)

// Waited is for how long the threads of a process have waited for a processor
// since they began, all together; false where the system does not tell.
func Waited(pid int) (sum time.Duration, ok bool) {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "schedstat"))
	if err != nil {
		return 0, false
	}
	for _, file := range threads {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		if f := strings.Fields(string(b)); len(f) == 3 { // on a processor, waiting for one (ns), time slices
			ns, err := strconv.ParseInt(f[1], 10, 64)
			sum, ok = sum+time.Duration(ns), ok || err == nil
		}
	}
	return sum, ok
}

// strain is what the machine under a run is asked for beside it.
type strain struct {
	mu             sync.Mutex // guards what follows
	Still, Syncing time.Time  // when its disk had stood still last; since when that is asked for a block
}

// Patient is what a client and its node had waited for the machine when a call
// began.
type Patient struct {
	At     time.Time
	pid    int
	node   time.Duration
	Driver time.Duration
}

// Patient begins to look at how busy the machine is for a node; nil: for the driver
// alone.
func (*strain) Patient(p *Process) Patient {
	b := Patient{At: time.Now(), pid: p.pid()}
	b.node, _ = Waited(b.pid)
	b.Driver, _ = Waited(os.Getpid())
	return b
}

// Starved tells whether the machine had no time for a node, or for who asked it,
// in half of the time since then, or whether its disk stood still.
func (s *strain) Starved(p *Process, b Patient) bool {
	if p.pid() != b.pid {
		return false
	}
	took := time.Since(b.At)
	for pid, before := range map[int]time.Duration{b.pid: b.node, os.Getpid(): b.Driver} { // Any order: one is enough.
		if now, ok := Waited(pid); ok && now-before >= took/2 {
			return true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Still.After(b.At) || !s.Syncing.IsZero() && time.Since(s.Syncing) >= slowSync
}

// pid is that of the program that runs, or ran last.
func (p *Process) pid() int {
	if p == nil {
		return 0
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.Cmd == nil || p.Cmd.Process == nil {
		return 0 // which no process has
	}
	return p.Cmd.Process.Pid
}

// slowSync is how long the machine's own disk may take for one block before it is
// said to stand still: a third of the time that clients give a write.
const slowSync = time.Second

// WatchDisk looks at the disk that is under all nodes, which no fault of a run
// touches, until the run is over.
func (s *strain) WatchDisk(ctx context.Context, dir string) error {
	f, err := os.Create(filepath.Join(dir, "canary"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it goes with the run
	block := make([]byte, 4096)
	for tick := time.Tick(250 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		s.mu.Lock()
		s.Syncing = time.Now()
		s.mu.Unlock()
		_, err := f.WriteAt(block, 0)
		err = errors.Join(err, f.Sync())
		s.mu.Lock()
		if time.Since(s.Syncing) >= slowSync {
			s.Still = time.Now()
		}
		s.Syncing = time.Time{}
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

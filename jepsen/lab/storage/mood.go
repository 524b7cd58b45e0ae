package storage

import (
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Mood is what a disk does to those who use it. The zero mood is a good one.
type Mood struct {
	Failed atomic.Int64 // calls that were failed
	Lies   atomic.Bool  // every sync is said to be done, and is not
	Lied   atomic.Int64 // syncs that were not done
	Tardy  atomic.Int64 // syncs that were late
	Astray atomic.Int64 // after so many writes one goes elsewhere; 0: none

	mu    sync.Mutex // guards what follows
	fails string     // fsync, write or read
	every int        // how many calls there are to one that fails
	calls int
	late  time.Duration
	dir   string // whose files are late; "": all
}

// Set changes it: one of so many calls of a kind fails, fsync is late.
func (m *Mood) Set(fails string, every int, late time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails, m.every, m.late, m.dir = fails, every, late, ""
}

// Slow makes fsync of the files in one directory late; 0: in none.
func (m *Mood) Slow(dir string, late time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late, m.dir = late, dir
}

// of is what becomes of a call for a file in some directory.
func (m *Mood) of(call, dir string) syscall.Errno {
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
		m.Failed.Add(1)
		return syscall.EIO
	}
	if late > 0 && call == "fsync" {
		m.Tardy.Add(1)
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
func (m *Mood) lie() bool {
	if !m.Lies.Load() {
		return false
	}
	m.Lied.Add(1)
	return true
}

// page is by how much a write goes astray.
const page = 4096

// shift is by how much the next write goes astray.
func (m *Mood) shift() int64 {
	if m.Astray.Load() > 0 && m.Astray.Add(-1) == 0 {
		return page
	}
	return 0
}

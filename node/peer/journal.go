package peer

import (
	"sync"
	"time"
)

const (
	// journalAgain is after which time a line may come again.
	journalAgain = 10 * time.Minute
	// maxJournal bounds what is remembered; past it everything is forgotten, so
	// that at most lines are repeated.
	maxJournal = 1024
)

// journal sees to it that a state is logged when it changes and not with every
// attempt. The zero journal is ready.
type journal struct {
	mu    sync.Mutex // guards lines
	lines map[string]line
}

type line struct {
	text string
	at   time.Time
}

// changed says whether the line under key should be logged: it says something
// else than before, or long ago.
func (j *journal) changed(key, text string) bool {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if old, ok := j.lines[key]; ok && old.text == text && now.Sub(old.at) < journalAgain {
		return false
	}
	if j.lines == nil || len(j.lines) >= maxJournal {
		j.lines = make(map[string]line)
	}
	j.lines[key] = line{text, now}
	return true
}

// once is changed for lines that are their own key.
func (j *journal) once(key string) bool { return j.changed(key, "") }

// forget makes the next line under key a change.
func (j *journal) forget(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.lines, key)
}

package seldom

import (
	"sync"
	"time"
)

// every is between two lines, unless a [Line] says otherwise.
const every = time.Second

// Line is one event of a log. The zero Line is ready.
type Line struct {
	// Every is between two lines; 0: a second. It must not change after the first Say.
	Every time.Duration

	mu      sync.Mutex // guards what follows
	next    time.Time  // when another one may be said
	pending func(times int)
	times   int // that pending stands for
	timer   *time.Timer
}

// Say has a line written by say, now or when its time has come. times is how many calls the
// line stands for, this one included. What say uses must not change. It does not block, but
// for the writing.
func (l *Line) Say(say func(times int)) {
	l.mu.Lock()
	now := time.Now()
	if wait := l.next.Sub(now); wait > 0 || l.timer != nil {
		l.pending = say
		l.times++
		if l.timer == nil {
			l.timer = time.AfterFunc(wait, l.flush)
		}
		l.mu.Unlock()
		return
	}
	l.next = now.Add(l.pause())
	l.mu.Unlock()
	say(1)
}

func (l *Line) pause() time.Duration {
	if l.Every > 0 {
		return l.Every
	}
	return every
}

// flush says what waits.
func (l *Line) flush() {
	l.mu.Lock()
	say, times := l.pending, l.times
	l.pending, l.times, l.timer = nil, 0, nil
	if say != nil {
		l.next = time.Now().Add(l.pause())
	}
	l.mu.Unlock()
	if say != nil {
		say(times)
	}
}

// Close says what waits, now.
func (l *Line) Close() {
	l.mu.Lock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.flush()
}

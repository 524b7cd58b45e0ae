package worker

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// firstRest is how long a worker takes nothing once it could not begin a task; with
	// each further time in a row it is twice as long, up to maxRest.
	firstRest = time.Second
	maxRest   = 30 * time.Second
	// troubleTold is between two lines of the log that tell of trouble which comes and goes.
	troubleTold = time.Minute
	// maxTrouble is how much of the reason others are told, in bytes.
	maxTrouble = 300
)

// ErrUnable is returned by Run when the worker could not begin a single task for as long
// as Config.GiveUp says: see [Unable].
var ErrUnable = errors.New("worker: it cannot begin any task")

// unable is the error of a task that was not begun.
type unable struct{ err error }

func (u *unable) Error() string { return u.err.Error() }
func (u *unable) Unwrap() error { return u.err }

// Unable makes an error that gives the task back without using an attempt: it was not
// begun, for a reason that lies with this worker and not with the task, as no room for
// temporary files or a program that is not there. The worker then takes nothing for a
// second, for twice as long each further time, and for half a minute at most; meanwhile
// others may have the task. `norn worker list` shows the reason until a task has begun.
func Unable(err error) error { return &unable{cmp.Or(err, ErrUnable)} }

// Begun says that the work of the task has begun: this worker can begin tasks. Only
// handlers that may return [Unable], and take long, need to say so; the end of a handler
// says it too.
func (t *Task) Begun() {
	if t.began != nil {
		t.began()
	}
}

// trouble is why a worker cannot begin tasks.
type trouble struct {
	mu     sync.Mutex // guards the fields below
	able   bool       // a task was begun some time
	times  int        // in a row that none could be begun
	why    string
	until  time.Time   // it rests; zero: it does not
	told   time.Time   // that it was logged
	timer  *time.Timer // ends the rest; nil: there was none
	giveUp *time.Timer // nil: there was no trouble yet, or it is over
	ended  bool        // Run has returned, or is about to
}

// troubled is a source that tells others why tasks cannot be begun.
type troubled interface {
	// trouble hears why tasks cannot be begun, "" when they can, and whether none is to
	// be taken because of that.
	trouble(why string, resting bool)
}

// isUnable tells whether an error is one of Unable.
func isUnable(err error) bool {
	var u *unable
	return errors.As(err, &u)
}

// rest has the worker take nothing for a while, because a task could not be begun.
func rest(w *Worker, err error) {
	t := &w.trouble
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Before(t.until) || t.ended {
		return // others failed with it, at the same time
	}
	t.times++
	t.why = shortly(err)
	pause := maxRest
	if t.times <= 5 {
		pause = min(firstRest<<(t.times-1), maxRest)
	}
	t.until = now.Add(pause)
	if t.times == 1 && now.Sub(t.told) >= troubleTold {
		t.told = now
		w.cfg.Logger.Warn("tasks cannot be begun here and are given back; trying again, later each time", "reason", err)
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(pause, func() { rested(w) })
	if t.giveUp == nil && !t.able && w.cfg.GiveUp > 0 {
		t.giveUp = time.AfterFunc(w.cfg.GiveUp, func() { surrender(w) })
	}
	saysTrouble(w, true)
}

// shortly is a reason as others are told it: one line, and not all of it.
func shortly(err error) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(err.Error(), "\uFFFD")), " ")
	if len(text) > maxTrouble {
		text = strings.ToValidUTF8(text[:maxTrouble], "") + " …"
	}
	return text
}

// rested ends a rest.
func rested(w *Worker) {
	w.trouble.mu.Lock()
	defer w.trouble.mu.Unlock()
	if now := time.Now(); now.Before(w.trouble.until) || w.trouble.ended {
		return // a later one has begun
	}
	w.trouble.until = time.Time{}
	saysTrouble(w, false)
}

// begun hears that a task has begun: the trouble is over.
func begun(w *Worker) {
	t := &w.trouble
	t.mu.Lock()
	defer t.mu.Unlock()
	t.able = true
	if t.giveUp != nil {
		t.giveUp.Stop()
		t.giveUp = nil
	}
	if t.times == 0 {
		return
	}
	t.times, t.why, t.until = 0, "", time.Time{}
	t.timer.Stop()
	if t.told != (time.Time{}) {
		w.cfg.Logger.Warn("tasks can be begun here again")
	}
	saysTrouble(w, false)
}

// saysTrouble tells the source, and whoever fetches. The lock of the trouble is held.
func saysTrouble(w *Worker, resting bool) {
	w.room.rest(resting, w.trouble.why != "")
	if s, is := w.from().(troubled); is {
		s.trouble(w.trouble.why, resting)
	}
}

// resting tells whether no task is to be begun now.
func resting(w *Worker) bool {
	w.trouble.mu.Lock()
	defer w.trouble.mu.Unlock()
	return time.Now().Before(w.trouble.until)
}

// surrender ends a worker that never could begin a task.
func surrender(w *Worker) {
	w.trouble.mu.Lock()
	able := w.trouble.able || w.trouble.ended
	why := w.trouble.why
	w.trouble.mu.Unlock()
	if able {
		return
	}
	w.mu.Lock()
	w.gaveUp = fmt.Errorf("%w, for %v: %s", ErrUnable, w.cfg.GiveUp, why)
	w.mu.Unlock()
	w.soft()
}

// endTrouble ends its timers.
func endTrouble(w *Worker) {
	t := &w.trouble
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if t.timer != nil {
		t.timer.Stop()
	}
	if t.giveUp != nil {
		t.giveUp.Stop()
	}
}

// errResting is why a task is given back that waited for a slot.
var errResting = fmt.Errorf("%w now", ErrUnable)

package cron

import (
	"time"
	"unique"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/schedule"
	"github.com/norn-dev/norn/schedule/agenda"
	"github.com/norn-dev/norn/schedule/policy"
)

// phase is what is under way of a schedule.
type phase byte

const (
	idle       phase = iota
	committing       // a change waits for its commit
	cancelling       // the task before is being cancelled
	finding          // the task is looked for
	launching        // the task is being enqueued
)

// item is what a machine keeps of a schedule. There are 100,000 of them, and
// nearly all have nothing under way: what only the others need is in busy, and
// what they have in common is there once.
//
// Invariant: an item whose phase is not idle is in exactly one batch or list of that phase, and
// an idle one in none: the answer to the batch is what makes it idle again ([Audit]).
type item struct {
	entry agenda.Entry // with the UUID
	name  string
	rec   *register.Schedule
	// terms are its policies, without UUID, version and timetable.
	terms unique.Handle[policy.Definition]
	table *schedule.Timetable // nil: it cannot be read here, or it is deleted
	busy  *busy               // nil: nothing
	keep  uint16              // entries of the history
	phase phase
	there bool // it is not deleted
	made  bool // by somebody whose rights may end
}

// busy is what is under way of a schedule.
//
// Invariant: tasks are exactly the watched ones of this schedule ([Audit]): one that is
// watched and not listed would be asked about after the schedule is gone.
type busy struct {
	change *register.ScheduleChange // that waits or is under way
	tally  *Stats                   // to be counted when the change is committed
	facts  []fact                   // that are not committed yet
	tasks  []id.ID                  // of this schedule in running
	tries
}

// tries are the attempts to launch one instant.
//
// Invariant: doubt stays set until the launch ends. A refusal is final only without it: the
// task may have been made by an attempt whose answer was lost, and then it runs (the hunt's
// DoubtFinal).
type tries struct {
	instant int64
	since   int64         // mono ns of the first one, 0: none
	pause   time.Duration // before the next one
	freed   bool          // the task that it replaces is cancelled, or cannot be
	ours    int64         // instant that this master has begun: nobody else has tried to launch that
	doubt   bool          // an attempt may have made the task: one without an answer, or of another master
	refused string        // why one was refused for good after such an attempt: the task is to be looked for
}

// Entry is the place in the agenda.
func (it *item) Entry() *agenda.Entry { return &it.entry }

// define takes over a definition. The item is not in the agenda if the UUID is
// another one.
func (it *item) define(def policy.Definition, kept int) {
	it.entry.UUID, it.table, it.keep = def.UUID, def.Table, uint16(kept)
	def.UUID, def.Version, def.Table = [16]byte{}, 0, nil
	it.terms = unique.Make(def)
}

// def is what decides, but for the version, which decides nothing.
func (it *item) def() policy.Definition {
	def := it.terms.Value()
	def.UUID, def.Table = it.entry.UUID, it.table
	return def
}

// doing is what is under way, to be read.
func (it *item) doing() busy {
	if it.busy == nil {
		return busy{}
	}
	return *it.busy
}

// work is what is under way, to be written.
func (it *item) work() *busy {
	if it.busy == nil {
		it.busy = &busy{}
	}
	return it.busy
}

// end notes what became of an open launch, to be committed.
func (it *item) end(f fact) {
	b := it.work()
	b.tries = tries{}
	b.facts = append(b.facts, f)
}

// run takes over which tasks run.
func (it *item) run(tasks []id.ID) {
	if it.busy != nil || len(tasks) > 0 {
		it.work().tasks = tasks
	}
	if b := it.busy; b != nil && b.change == nil && b.tally == nil && len(b.facts)+len(tasks) == 0 && b.tries == (tries{}) {
		it.busy = nil
	}
}

// counted is where a change counts what it does.
func (it *item) counted() *Stats {
	b := it.work()
	if b.tally == nil {
		b.tally = &Stats{}
	}
	return b.tally
}

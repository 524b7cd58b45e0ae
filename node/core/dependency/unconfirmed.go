package dependency

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
)

// Unconfirmed are dependencies that have failed as far as is known here. What has failed may
// have been retried since, by its leader, with a majority that this node is none of: a
// task that came after that must not be cancelled for it, which stays. So the leader is
// asked, each second, until it says the same or the retry is heard of here. Where that
// seems to be this node a majority has to say so first: it may have stood still, and not
// know yet that another one was elected (lease.Machine.Confirm). And a majority has to say what it knows
// of the task: the leader before this one may have retried it with them. A completion is
// final, whoever says it.
type Unconfirmed struct {
	m *Machine
	// Invariant: reads counts the reads under way, at most [maxDoubtReads], so that a leader
	// with many doubts leaves room for the reads of clients (Audit).
	reads int     // of tasks of which a majority is asked what it knows
	later []id.ID // of which it is to be asked when some of those are done

	// All are those, and At when the next round of questions is, mono ns.
	// Invariant: there are at most [MaxWatched]. Past that a failure is acted on as it is known
	// here, which is what a system without this check does always (Audit).
	All map[id.ID]Failure
	At  int64
}

// Failure is since when something is not certain, mono ns.
type Failure struct {
	first, since int64 // of the first and of the newest task, or question, that it is about
	refused      int64 // since when what is said is too old for the newest; 0: it is not
	heard        int64 // when a majority was asked that has said what it knows; 0: none was
	asking       bool  // it is being asked, or is to be
}

// maxDoubtReads bounds those of which a majority is asked at once.
const maxDoubtReads = 256

// doubtFor is for how long at most others that come all the time put off what is known for
// those that came first.
const doubtFor = 5 * time.Second

// Stands tells whether the outcome of a dependency that is kept here may be acted on.
// Past a number of doubts it may: then it is as old as it is.
//
// A completion stands at once. A failure stands when this node leads the dependency, a majority
// has confirmed that since, and a majority has said what it knows of the task since.
func (d *Unconfirmed) Stands(dependency id.ID, outcome crdt.State) bool {
	if outcome == crdt.StateUnknown || outcome == crdt.StateCompleted {
		return true
	}
	o, known := d.All[dependency]
	if !known {
		o.since = max(d.m.Round.Now.Mono, 1)
		o.first = o.since
	}
	if d.sure(dependency, &o, o.since) {
		return true
	}
	if !known {
		if len(d.All) >= MaxWatched {
			return true
		}
		d.All[dependency] = o
		d.askAnew(dependency)
	}
	return false
}

// anew has a doubt be about another task that depends on the same one, or another question:
// whoever was asked before that came may say what was so before it.
func (d *Unconfirmed) anew(dependency id.ID) {
	if o, known := d.All[dependency]; known {
		o.since = max(d.m.Round.Now.Mono, 1)
		d.All[dependency] = o
		d.askAnew(dependency)
	}
}

// askAnew asks for an answer that is newer than the latest task that depends on it.
func (d *Unconfirmed) askAnew(task id.ID) {
	if d.ask(task); !d.leads(task) {
		d.m.Watches.anew(task)
	}
}

// ask has whoever leads a task asked, or those who know whether this node does.
func (d *Unconfirmed) ask(task id.ID) {
	if d.leads(task) {
		d.m.Leases.Confirm(ring.Of(task, len(d.m.View.Cells)))
		d.read(task)
		return
	}
	d.m.Watches.Ask(task)
}

// kept tells whether nobody else keeps a task.
func (d *Unconfirmed) kept(task id.ID) bool {
	return d.m.View.Alone || !d.m.Leases.Shared(ring.Of(task, len(d.m.View.Cells)))
}

// read has a majority say what it knows of a task: it is merged with what is known here.
func (d *Unconfirmed) read(task id.ID) {
	o, known := d.All[task]
	if !known || o.asking || o.heard >= o.since || d.kept(task) {
		return
	}
	o.asking = true
	d.All[task] = o
	d.later = append(d.later, task)
	d.readOn()
}

// readOn begins as many of the reads that are to be as may be at once.
func (d *Unconfirmed) readOn() {
	for len(d.later) > 0 && d.reads < maxDoubtReads && d.m.Reads.Room() {
		task := d.later[0]
		if d.later = d.later[1:]; len(d.later) == 0 {
			d.later = nil
		}
		if _, known := d.All[task]; !known {
			continue
		}
		began := max(d.m.Round.Now.Mono, 1)
		d.reads++
		d.m.Reads.Majority(d.m.Round.Now, task, func(now clock.Time, enough bool) { d.told(now, task, began, enough) })
	}
}

// told hears that enough have answered about a task, or that too few have: then they are
// asked again with the next round.
func (d *Unconfirmed) told(now clock.Time, task id.ID, began int64, enough bool) {
	d.reads--
	if o, known := d.All[task]; known {
		if o.asking = false; enough {
			o.heard = max(o.heard, began)
		}
		d.All[task] = o
		if enough {
			d.look(now, task)
		}
	}
	d.readOn()
}

// leads tells whether nobody knows better how a task ended, unless this node leads it no
// more and has yet to hear of that.
func (d *Unconfirmed) leads(task id.ID) bool {
	return d.m.View.Alone || d.m.vnode(task).Leading() != 0
}

// sure tells whether nobody did at some time, mono ns, or later.
func (d *Unconfirmed) sure(task id.ID, o *Failure, since int64) bool {
	return d.leads(task) && d.m.Leases.ConfirmedSince(ring.Of(task, len(d.m.View.Cells)), since) && (o.heard >= since || d.kept(task))
}

// certain tells whether nobody did since the newest task came, or question, or since the first
// one where others have come for too long.
func (d *Unconfirmed) certain(now clock.Time, task id.ID) bool {
	o := d.All[task]
	switch {
	case d.sure(task, &o, o.since):
		return true
	case !d.sure(task, &o, o.first):
		return false
	case o.refused == 0:
		o.refused = now.Mono
		d.All[task] = o
	}
	return now.Mono-o.refused >= int64(doubtFor)
}

// work asks again, and lets go of what is no doubt any more.
func (d *Unconfirmed) work(now clock.Time) {
	if len(d.All) == 0 || now.Mono < d.At {
		return
	}
	d.At = now.Mono + int64(WatchEvery)
	d.readOn()
	for _, task := range slices.SortedFunc(maps.Keys(d.All), id.ID.Compare) {
		d.look(now, task)
	}
}

// look does so for one of them.
func (d *Unconfirmed) look(now clock.Time, task id.ID) {
	outcome := crdt.StateUnknown
	if d.m.Holds(task) {
		var err error
		if outcome, err = d.m.Outcome(task); !d.m.Round.Check(err) {
			return
		}
	}
	switch {
	case outcome == crdt.StateUnknown || outcome == crdt.StateCompleted:
		delete(d.All, task) // its dependents hear of it as of any other
	case d.certain(now, task):
		delete(d.All, task)
		d.m.Confirmed(task)
		d.m.Watches.tell(task, outcome)
	default:
		d.ask(task)
	}
}

// Due is when work wants to be called, mono ns.
func (d *Unconfirmed) Due() int64 {
	if len(d.All) == 0 {
		return clock.Never
	}
	return d.At
}

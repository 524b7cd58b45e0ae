package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// limited tells whether a task dies by a failure, and not only when a worker
// discards it.
func (t *known) limited() bool { return t.spec.Retry.GetMaxAttempts() == 1 }

// maybeClaimed tells whether somebody may have had a claim on the task.
func (j *judge) maybeClaimed(t *known) bool {
	l := j.lane(t.spec.Queue)
	// A request that its client has given up may wait at the server for a while.
	return len(t.holds) > 0 || len(l.asking) > 0 || l.lost > t.asked || l.lost > 0 && j.clock().Sub(l.lostAt) < 2*time.Second
}

func (j *judge) mayDie(t *known) bool {
	return t.facts[discarding].possible() || t.limited() && (t.facts[failing].possible() || j.maybeClaimed(t))
}

// mayFail tells whether the task may have been dead or cancelled at some time.
func (j *judge) mayFail(t *known, path []*known) bool {
	if t.facts[cancelling].possible() || j.mayDie(t) {
		return true
	}
	if t.spec.OnDependencyFailure != nornv1.DependencyFailure_DEPENDENCY_FAILURE_CANCEL || len(path) > 50 {
		return len(path) > 50
	}
	for _, dependency := range t.spec.Dependencies {
		if d := j.tasks[dependency]; d != nil && j.mayFail(d, append(path, t)) {
			return true
		}
	}
	return false
}

// byDependency is mayFail by a dependency alone.
func (j *judge) byDependency(t *known) bool {
	if t.spec.OnDependencyFailure != nornv1.DependencyFailure_DEPENDENCY_FAILURE_CANCEL {
		return false
	}
	for _, dependency := range t.spec.Dependencies {
		if d := j.tasks[dependency]; d != nil && j.mayFail(d, []*known{t}) {
			return true
		}
	}
	return false
}

// observe judges a state that somebody was told between two moments.
func (j *judge) observe(begun, moment int64, t *known, s nornv1.State) {
	f, l := &t.facts, j.lane(t.spec.Queue)
	done, cancelled := nornv1.State_STATE_COMPLETED, nornv1.State_STATE_CANCELLED
	switch {
	case f[completing].before(begun) && s != done:
		j.complain(t, "its completion was acknowledged and it is %v", s)
	case f[cancelling].before(begun) && s != cancelled && s != done:
		j.complain(t, "its cancellation was acknowledged and it is %v", s)
	case t.surelyDead(l, begun) && s != nornv1.State_STATE_DEAD && s != cancelled && s != done:
		j.complain(t, "it was dead, nobody has retried it, and it is %v", s)
	}
	f[enqueuing].holds(moment)
	switch s {
	case done:
		if !f[completing].possible() {
			j.complain(t, "it is completed, and nobody has done that")
		}
		f[completing].holds(moment)
	case cancelled:
		byDependency := j.byDependency(t)
		if !f[cancelling].possible() && !byDependency {
			j.complain(t, "it is cancelled, and nothing could have done that")
		}
		if !byDependency {
			f[cancelling].holds(moment)
		} else if !f[cancelling].possible() {
			j.count("cancelled by a dependency", 1)
		}
	case nornv1.State_STATE_DEAD:
		if !j.mayDie(t) {
			j.complain(t, "it is dead, and nothing could have done that")
		}
		if t.dead == 0 && t.retrying == 0 && l.retrying == 0 && t.retried < begun && l.retried < begun {
			t.dead = moment
		}
	case nornv1.State_STATE_READY, nornv1.State_STATE_CLAIMED:
		j.released(t, moment, s.String())
	case nornv1.State_STATE_WAITING:
		if len(t.spec.Dependencies) == 0 {
			j.complain(t, "it waits, and has no dependencies")
		}
	}
}

// begins gives the moment at which a read begins.
func (j *judge) begins() int64 {
	moment, end := j.hear()
	defer end()
	return moment
}

// reads hears the state of a task.
func (j *judge) reads(begun int64, task id.ID, s nornv1.State) {
	moment, end := j.hear()
	defer end()
	j.read(begun, moment, task, s)
}

func (j *judge) read(begun, moment int64, task id.ID, s nornv1.State) {
	t := j.tasks[task]
	switch {
	case t != nil:
		j.observe(begun, moment, t, s)
	case task.Kind() == id.KindKey && len(j.wild) > 0:
	default:
		j.complain(nil, "task %s is %v, and nobody has enqueued it", task, s)
	}
}

// listed hears a list of everything, and gives the tasks that are missing in it
// because they were collected.
func (j *judge) listed(begun int64, states map[id.ID]nornv1.State) (collected []id.ID) {
	moment, end := j.hear()
	defer end()
	unfinished := map[string]*known{}
	for task, s := range states {
		j.read(begun, moment, task, s)
		if t := j.tasks[task]; t != nil && t.spec.Key != "" && t.spec.KeyWindow == 0 && !client.Finished(s) {
			k := keyOf(t.spec.Queue, t.spec.Key, 0)
			if o := unfinished[k]; o != nil {
				j.complain(t, "it is not finished, and neither is %s with the same key", o.id)
			}
			unfinished[k] = t
		}
	}
	for _, t := range j.tasks {
		if _, there := states[t.id]; there {
			if t.grave != 0 {
				j.complain(t, "it was collected and is there again")
			}
			continue
		}
		if t.facts[enqueuing].before(begun) && t.grave == 0 {
			j.missing(t)
			collected = append(collected, t.id)
		}
	}
	j.count("full list", 1)
	return collected
}

// missing judges an acknowledged task that a list does not have.
func (j *judge) missing(t *known) {
	l := j.lane(t.spec.Queue)
	finished := time.Time{}
	for _, d := range []deed{completing, cancelling} {
		if f := t.facts[d]; f.possible() && f.asked > 0 && (finished.IsZero() || f.first.Before(finished)) {
			finished = f.first
		}
	}
	if finished.IsZero() && j.byDependency(t) {
		finished = t.facts[enqueuing].first
	}
	switch age := j.clock().Sub(finished); {
	case l.retention == 0, finished.IsZero():
		j.complain(t, "it was acknowledged and is gone")
	case age < l.retention:
		j.complain(t, "it is gone %v after it can have been finished, and is to be kept for %v", age, l.retention)
	}
}

// buried hears what is left of a task that was collected.
func (j *judge) buried(begun int64, task id.ID, s nornv1.State, err error) {
	moment, end := j.hear()
	defer end()
	t := j.tasks[task]
	t.wrote(moment, "collected: %v %v", s, err)
	if err != nil {
		j.complain(t, "it is gone, and no tombstone says so: %v", err)
		return
	}
	if s != nornv1.State_STATE_COMPLETED && s != nornv1.State_STATE_CANCELLED {
		j.complain(t, "it was collected as %v", s)
	}
	j.observe(begun, moment, t, s)
	t.grave = s
	j.count("tombstone read", 1)
	if !j.lane(t.spec.Queue).archive {
		return
	}
	if t.archived&(1<<s) == 0 {
		j.complain(t, "it was collected as %v, and no archive has it so", s)
	}
	j.count("collected and in an archive", 1)
}

// inArchive hears of a task in an archive.
func (j *judge) inArchive(a *nornv1.Task) {
	moment, end := j.hear()
	defer end()
	task, err := id.Parse(a.GetId())
	t := j.tasks[task]
	switch {
	case err != nil || t == nil:
		j.complain(nil, "an archive has %q, which nobody has enqueued (%v)", a.GetId(), err)
		return
	case !j.lane(t.spec.Queue).archive:
		j.complain(t, "it is in an archive, and its queue is not archived")
	case string(a.GetPayload()) != string(t.spec.Payload):
		j.complain(t, "an archive has it with the payload %q", a.GetPayload())
	case !client.Finished(a.GetState()):
		j.complain(t, "an archive has it as %v", a.GetState())
	}
	if t.archived != 0 {
		j.count("archived twice", 1)
	}
	t.archived |= 1 << a.GetState()
	t.wrote(moment, "archived as %v", a.GetState())
	j.count("archive read back", 1)
}

// counted compares the counters of a queue with a list of it. Nothing happened
// in between.
func (j *judge) counted(queue string, n *nornv1.Count, listed map[nornv1.State]uint64) {
	_, end := j.hear()
	defer end()
	total := uint64(0)
	for s, got := range map[nornv1.State]uint64{
		nornv1.State_STATE_WAITING: n.GetWaiting(), nornv1.State_STATE_SCHEDULED: n.GetScheduled(), nornv1.State_STATE_READY: n.GetReady(),
		nornv1.State_STATE_CLAIMED: n.GetClaimed(), nornv1.State_STATE_COMPLETED: n.GetCompleted(), nornv1.State_STATE_DEAD: n.GetDead(),
		nornv1.State_STATE_CANCELLED: n.GetCancelled(),
	} {
		total += got
		if got != listed[s] {
			j.complain(nil, "queue %s: %d tasks are counted as %v, and the list has %d", queue, got, s, listed[s])
		}
	}
	if total != n.GetTotal() {
		j.complain(nil, "queue %s: the total is %d, the states add up to %d", queue, n.GetTotal(), total)
	}
	j.count("count compared with list", 1)
}

// pauses hears that a queue is about to be paused or drained, or neither.
func (j *judge) pauses(queue string, on bool) int64 {
	moment, end := j.hear()
	defer end()
	if l := j.lane(queue); !on {
		l.paused, l.draining = 0, 0
		if n := len(l.pauses); n > 0 && l.pauses[n-1].to.IsZero() {
			l.pauses[n-1].to = j.clock().Round(0)
		}
	}
	return moment
}

// paused hears that it was.
func (j *judge) paused(queue, what string, err error) {
	moment, end := j.hear()
	defer end()
	l := j.lane(queue)
	switch {
	case err != nil:
		return
	case what == "pause":
		l.paused = moment
		if n := len(l.pauses); n == 0 || !l.pauses[n-1].to.IsZero() {
			l.pauses = append(l.pauses, pause{from: j.clock().Round(0)})
		}
	case what == "drain":
		l.draining = moment
	}
	j.count(what+" acknowledged", 1)
}

// cancelsWhere hears that the tasks of one group are about to be cancelled; ""
// are all tasks of a queue in which there are no groups.
func (j *judge) cancelsWhere(queue, group string) int64 {
	moment, end := j.hear()
	defer end()
	for _, t := range j.bunches[bunchOf(queue, group)] {
		t.ask(cancelling, moment, j.clock())
	}
	return moment
}

// cancelledWhere hears what came of it. What was there before and can have been
// in no other state than those is cancelled now.
func (j *judge) cancelledWhere(begun int64, queue, group string, claimedToo bool, b client.Bulk, err error) {
	moment, end := j.hear()
	defer end()
	if err != nil {
		return
	}
	sure, name := 0, bunchOf(queue, group)
	for _, t := range j.bunches[name] {
		if !t.facts[enqueuing].before(begun) || t.facts[completing].possible() || j.mayDie(t) || j.byDependency(t) || !claimedToo && j.maybeClaimed(t) {
			continue
		}
		sure++
		t.facts[cancelling].holds(moment)
		t.wrote(moment, "cancelled with others")
	}
	j.bunches[name] = slices.DeleteFunc(j.bunches[name], func(t *known) bool { return t.facts[cancelling].since > 0 })
	what := map[bool]string{true: "purge", false: "cancel by filter"}[group == ""]
	j.count(what+" acknowledged", 1)
	j.count(what+": tasks", int(b.Done))
	j.count(what+": surely cancelled", sure)
}

// retriesWhere hears that the dead tasks of a queue are about to be retried.
func (j *judge) retriesWhere(queue string) {
	moment, end := j.hear()
	defer end()
	l := j.lane(queue)
	l.retrying++
	l.retried = moment
}

// retriedWhere hears what came of it.
func (j *judge) retriedWhere(queue string, b client.Bulk, err error) {
	moment, end := j.hear()
	defer end()
	if l := j.lane(queue); fortuneOf(err) != mayHappen {
		l.retrying--
		l.retried = moment
	}
	if err == nil {
		j.count("retry by filter: tasks", int(b.Done))
	}
}

// mayWait tells whether a dependency may hold the task back for ever, once all
// that can be done is done.
func (j *judge) mayWait(task id.ID, states map[id.ID]nornv1.State) bool {
	_, end := j.hear()
	defer end()
	t := j.tasks[task]
	if t == nil {
		return false
	}
	for _, dependency := range t.spec.Dependencies {
		s, there := states[dependency]
		d := j.tasks[dependency]
		if d != nil && !there {
			s = d.grave
		}
		switch {
		case d == nil, !there && d.facts[enqueuing].since == 0, s == nornv1.State_STATE_WAITING:
			return true
		case s == nornv1.State_STATE_DEAD || s == nornv1.State_STATE_CANCELLED:
			if t.spec.OnDependencyFailure == nornv1.DependencyFailure_DEPENDENCY_FAILURE_WAIT {
				j.count("waits for ever for a dependency that failed", 1)
				return true
			}
		}
	}
	return false
}

// verdict gives what is wrong so far.
func (j *judge) verdict() error {
	_, end := j.hear()
	defer end()
	if len(j.problems) == 0 {
		return nil
	}
	return fmt.Errorf("%d problems, the first: %s", len(j.problems), j.problems[0])
}

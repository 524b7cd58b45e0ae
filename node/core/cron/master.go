package cron

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/schedule"
	"github.com/norn-dev/norn/schedule/policy"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Work does what is due, and gives what others are to do.
func (m *Machine) Work(now clock.Time) (out Ready) {
	m.refresh(now)
	if !m.leads || m.seen.Len() == 0 {
		return out
	}
	if m.nonce == 0 {
		m.take(now, &out)
		return out
	}
	m.due(now, &out)
	m.flush(now, &out)
	if now.Mono >= m.watch.at {
		out.Seek = append(out.Seek, m.watch.seek(now, m.cfg.Grace)...)
	}
	out.Ask = append(out.Ask, m.watch.ask(now)...)
	return out
}

// take asks for the mastership.
func (m *Machine) take(now clock.Time, out *Ready) {
	if m.taking != 0 || now.Mono < m.takeAt {
		return
	}
	m.tag++
	m.taking = m.tag
	out.Commits = append(out.Commits, Commit{m.tag, register.Request{Master: &register.MasterChange{
		Old: m.master.Nonce, New: register.Mastership{Nonce: m.cfg.Nonce(), Member: m.cfg.Self, Zones: schedule.ZonesVersion},
	}}})
}

// taken hears what came of it.
func (m *Machine) taken(now clock.Time, nonce uint64, r *register.Result) {
	m.taking = 0
	switch {
	case r.Err == nil && m.leads && m.master.Nonce == nonce:
		m.nonce = nonce
		m.stats.Takeovers++
	default: // unclear, or somebody else was first: with what is seen by then
		m.takeAt = now.Mono + int64(askAgain)
	}
}

// room tells whether more may be begun: what has come due waits in the list
// until then, where it costs nothing.
func (m *Machine) room() bool {
	return len(m.commits) < maxCommits && len(m.changes) < maxBatch && len(m.toLaunch)+len(m.launches)*maxBatch < maxLaunches*maxBatch
}

// due decides about the schedules that wake.
func (m *Machine) due(now clock.Time, out *Ready) {
	for m.room() {
		it, at, ok := m.agenda.First()
		if !ok || at > now.Wall {
			return
		}
		m.agenda.Remove(it)
		m.consider(now, it, out)
	}
}

// consider does the next thing about a schedule of which nothing is under way.
func (m *Machine) consider(now clock.Time, it *item, out *Ready) {
	if it.rec == nil || m.nonce == 0 {
		return
	}
	if len(it.rec.Definition) == 0 {
		m.forget(now, it)
		return
	}
	r, err := decode(it.rec.State)
	if err != nil || it.table == nil {
		return // it is shown with its problem
	}
	if it.busy != nil {
		it.busy.tally = nil
	}
	changed, failed := m.learn(now, it, &r)
	if why := barred(m, it); why != "" {
		m.change(now, it, &r, "paused because "+why)
		return
	}
	d := policy.Decision{}
	if failed == 0 && r.policy.Last.Status != policy.Open {
		d = m.decide(now, it, &r)
		if changed = changed || d.Changed || d.Pause; d.Pause {
			failed = r.policy.Last.Instant
		}
	}
	note := ""
	if failed != 0 {
		note = fmt.Sprintf("paused because task %s has failed", id.Launch(m.cfg.Cluster, it.entry.UUID, failed))
	}
	switch {
	case changed:
		m.change(now, it, &r, note)
	case r.policy.Last.Status == policy.Open:
		m.launch(now, it, &r, out)
	default:
		m.agenda.Set(it, max(d.Wake, now.Wall+int64(time.Millisecond)))
	}
}

// learn brings into a record what is known and not committed. failed is the
// instant of a launch before the last one that has failed and pauses the schedule,
// 0 for none: of the last one the policy says so.
func (m *Machine) learn(now clock.Time, it *item, r *record) (changed bool, failed int64) {
	def := it.def()
	if r.generation != m.generation && !m.cfg.Policy.RestoreLaunches {
		after, skips := policy.Restore(&def, r.policy, now.Wall)
		for i := range r.history { // what was open is in doubt
			if e := &r.history[i]; e.status == policy.Open {
				e.status, e.note = policy.NotEnqueued, "in doubt: the register was restored"
			}
		}
		r.policy, r.generation, r.replaced = after, m.generation, 0
		m.skips(it, r, skips)
		changed = true
	}
	if it.busy == nil {
		return changed, 0
	}
	for i := range it.busy.facts {
		f := &it.busy.facts[i]
		if !r.conclude(f) {
			continue
		}
		changed = true
		switch f.status {
		case policy.NotEnqueued:
			it.counted().NotEnqueued++
		case policy.Failed:
			it.counted().Failed++
			if def.PauseOnFailure && !def.Paused && f.task == (id.ID{}) && f.instant != r.policy.Last.Instant {
				failed = f.instant
			}
		}
	}
	it.busy.facts = nil
	return changed, failed
}

func (m *Machine) skips(it *item, r *record, all []policy.Skipped) {
	for _, s := range all {
		r.skip(it.table, s, int(it.keep))
		it.counted().Skipped[s.Reason]++
	}
}

// decide asks the policy, and records what it says.
func (m *Machine) decide(now clock.Time, it *item, r *record) policy.Decision {
	def := it.def()
	d := policy.Decide(&def, r.policy, now.Wall)
	r.policy = d.After
	m.skips(it, r, d.Skips)
	if d.Launch {
		r.begin(d.Instant, now.Wall, d.Late, int(it.keep))
		it.work().tries = tries{ours: d.Instant}
		r.replaced = 0
		if d.Replace {
			r.replaced = d.Replaced
			it.counted().Replaced++
		}
		it.counted().Launched++
		it.counted().LateSeconds += d.Late.Seconds()
	}
	return d
}

// barred says why a schedule that is not paused may not launch any more: who made it has no
// right to its queue. Empty: it may.
func barred(m *Machine, it *item) string {
	if m.cfg.Barred == nil || !it.made || it.def().Paused {
		return ""
	}
	l, err := load(m.Zones(), it.rec.Definition)
	if err != nil {
		return ""
	}
	return m.cfg.Barred(m.access, l.wire.GetMaker(), l.wire.GetSpec().GetTask().GetQueue())
}

// change has a record committed, with a pause where there is a note that says why.
func (m *Machine) change(now clock.Time, it *item, r *record, note string) {
	it.phase = committing
	c := &register.ScheduleChange{Name: it.name, Old: it.rec.Revision}
	if m.seen.Bytes() < m.full {
		c.State = r.encode()
	} else { // what is left is for what cannot be left out
		c.State = r.encodeWithin(len(it.rec.State))
	}
	if it.work().change = c; note != "" {
		c.Definition = m.paused(now, it, note)
	}
	m.changes = append(m.changes, it)
}

// paused is the definition with a pause, and why.
func (m *Machine) paused(now clock.Time, it *item, note string) []byte {
	l, err := load(m.Zones(), it.rec.Definition)
	if err != nil {
		return nil
	}
	l.wire.Version++
	l.wire.Changed = timestamppb.New(time.Unix(0, now.Wall))
	l.wire.Spec.Paused, l.wire.Spec.Note = true, note
	b, err := pack(l.wire, l.policy.Table)
	if err != nil {
		return nil // it cannot have grown so much
	}
	return b
}

// forget removes what is left of a deleted schedule.
func (m *Machine) forget(now clock.Time, it *item) {
	r, err := decode(it.rec.State)
	if at := r.policy.Watermark + int64(forget); err == nil && at > now.Wall {
		m.agenda.Set(it, at)
		return
	}
	it.phase = committing
	it.work().change = &register.ScheduleChange{Name: it.name, Old: it.rec.Revision, Remove: true}
	m.changes = append(m.changes, it)
}

// flush commits the changes that wait, and has tasks enqueued.
func (m *Machine) flush(now clock.Time, out *Ready) {
	for len(m.changes) > 0 && len(m.commits) < maxCommits {
		req, w, size := register.Request{Nonce: m.nonce}, &work{}, 0
		for len(m.changes) > 0 && len(w.items) < maxBatch && size < maxBatchBytes {
			it := m.changes[0]
			m.changes = m.changes[1:]
			c := it.doing().change
			if it.phase != committing || c == nil {
				continue // it has gone meanwhile
			}
			req.Schedules = append(req.Schedules, *c)
			w.items = append(w.items, it)
			size += len(c.State) + len(c.Definition) + len(it.name) + 32
		}
		if len(w.items) > 0 {
			m.tag++
			m.commits[m.tag] = w
			out.Commits = append(out.Commits, Commit{m.tag, req})
		}
	}
	for len(m.toLaunch) > 0 && len(m.launches) < maxLaunches {
		m.enqueue(now, out)
	}
}

// Committed tells what came of a commit. The state in it is observed.
func (m *Machine) Committed(now clock.Time, c *Commit, r register.Result) {
	if r.Err == nil {
		m.Observe(now, &r.State)
	}
	if c.Tag == m.taking && c.Request.Master != nil {
		m.taken(now, c.Request.Master.New.Nonce, &r)
		return
	}
	w := m.commits[c.Tag]
	if w == nil {
		return // of a mastership that has ended
	}
	delete(m.commits, c.Tag)
	for i, it := range w.items {
		if it.rec == nil || it.phase != committing {
			continue // removed
		}
		old, tally := it.busy.change.Old, it.busy.tally
		it.phase, it.busy.change, it.busy.tally = idle, nil, nil
		m.read(now, it.name)
		if it.rec == nil {
			continue
		}
		m.place(now, it)
		switch {
		case r.Err == nil && i < len(r.SchedulesWon) && r.SchedulesWon[i]:
			m.stats.add(tally)
		case it.rec.Revision == old: // not known, or refused for good: the register is full
			m.agenda.Set(it, now.Wall+int64(askAgain))
		}
	}
}

// launch enqueues the task of an open launch, or first has the task before
// cancelled; or it has the task looked for, where no more is to be tried.
func (m *Machine) launch(now clock.Time, it *item, r *record, out *Ready) {
	b := it.work()
	if b.since == 0 || b.instant != r.policy.Last.Instant { // the schedule may be another one of its name
		at := r.policy.Last.Instant
		b.tries = tries{instant: at, since: now.Mono, doubt: b.ours != at}
	}
	if why := over(now, it, &r.policy.Last); why != "" && b.refused == "" {
		if !b.doubt {
			it.end(fact{instant: b.instant, at: now.Wall, status: policy.NotEnqueued, note: why})
			m.agenda.Set(it, math.MinInt64)
			return
		}
		b.refused, b.since, b.pause = why, now.Mono, 0
	}
	if b.refused != "" {
		if len(m.finds) >= maxFinds {
			m.agenda.Set(it, now.Wall+int64(retryFirst))
			return
		}
		it.phase = finding
		m.tag++
		m.finds[m.tag] = &work{items: []*item{it}, instants: []int64{b.instant}}
		out.Finds = append(out.Finds, Find{m.tag, id.Launch(m.cfg.Cluster, it.entry.UUID, b.instant)})
		return
	}
	if r.replaced != 0 && !b.freed {
		it.phase = cancelling
		m.tag++
		m.cancels[m.tag] = &work{items: []*item{it}}
		out.Cancels = append(out.Cancels, Cancels{m.tag, []id.ID{id.Launch(m.cfg.Cluster, it.entry.UUID, r.replaced)}})
		return
	}
	it.phase = launching
	m.toLaunch = append(m.toLaunch, it)
}

// over says why the task of an open launch is not enqueued any more, "" where it is.
func over(now clock.Time, it *item, last *policy.Run) string {
	def := it.def()
	switch {
	case def.Paused:
		return "the schedule was paused before the task was enqueued"
	case now.Wall > def.Until(*last):
		return "the task was not enqueued within the window or the deadline"
	}
	return ""
}

// Cancelled tells what came of a request to cancel a task; nil is cancelled. Where
// nobody could be reached it is tried again for a while. One that cannot be
// cancelled then goes on beside the next.
func (m *Machine) Cancelled(now clock.Time, tag uint64, bad *proto.Error) {
	w := m.cancels[tag]
	if w == nil {
		return
	}
	delete(m.cancels, tag)
	for _, it := range w.items {
		if it.phase != cancelling || it.rec == nil {
			continue
		}
		b := it.work()
		if passing(bad) && now.Mono-b.since < int64(patience) {
			it.phase = idle
			m.later(now, it)
			continue
		}
		b.since, b.pause, b.freed = now.Mono, 0, true
		it.phase = launching
		m.toLaunch = append(m.toLaunch, it)
	}
}

// later has a schedule looked at again after a pause, because nobody was there.
func (m *Machine) later(now clock.Time, it *item) {
	b := it.work()
	b.pause = min(max(2*b.pause, retryFirst), retryMost)
	m.agenda.Set(it, now.Wall+int64(b.pause))
}

// passing tells whether an error may be another one, or none, if it is tried again.
func passing(e *proto.Error) bool {
	return e != nil && slices.Contains([]nornv1.ErrorKind{
		nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, nornv1.ErrorKind_ERROR_KIND_OVERLOADED, nornv1.ErrorKind_ERROR_KIND_DEADLINE_EXCEEDED,
	}, e.Kind)
}

// enqueue makes one request of the tasks that wait.
func (m *Machine) enqueue(now clock.Time, out *Ready) {
	req, w, size := &nornv1.LaunchRequest{}, &work{}, 0
	for len(m.toLaunch) > 0 && len(w.items) < maxBatch && size < maxBatchBytes {
		it := m.toLaunch[0]
		m.toLaunch = m.toLaunch[1:]
		if it.phase != launching || it.rec == nil {
			continue
		}
		r, err := decode(it.rec.State)
		t, bad := m.task(now, it, r.policy.Last.Instant)
		if err != nil || bad != nil || r.policy.Last.Status != policy.Open || over(now, it, &r.policy.Last) != "" {
			it.phase = idle // it was edited meanwhile, or has waited for too long
			m.place(now, it)
			continue
		}
		def := it.def()
		req.Tasks, req.Begun = append(req.Tasks, t), append(req.Begun, r.policy.Last.Begun)
		req.Until = append(req.Until, def.Until(r.policy.Last))
		w.items, w.instants = append(w.items, it), append(w.instants, r.policy.Last.Instant)
		size += proto.SpecBytes(t) + 256
	}
	if len(w.items) > 0 {
		m.tag++
		m.launches[m.tag] = w
		out.Launches = append(out.Launches, Launches{m.tag, req})
	}
}

// task is the task of a launch.
func (m *Machine) task(now clock.Time, it *item, instant int64) (*nornv1.TaskSpec, error) {
	d := &nornv1.ScheduleDefinition{}
	if err := gproto.Unmarshal(it.rec.Definition, d); err != nil || d.GetSpec().GetTask() == nil {
		return nil, ErrDamaged
	}
	t := d.GetSpec().GetTask()
	dress(t, it.name, instant)
	if m.cfg.Policy.LaunchAtNow {
		instant = now.Wall
	}
	t.Id = id.Launch(m.cfg.Cluster, it.entry.UUID, instant).Bytes()
	return t, nil
}

// Launched tells what came of a request, task by task: nil is enqueued.
func (m *Machine) Launched(now clock.Time, tag uint64, errs []*proto.Error) (ask []id.ID) {
	w := m.launches[tag]
	if w == nil {
		return nil
	}
	delete(m.launches, tag)
	for i, it := range w.items {
		if it.phase != launching || it.rec == nil {
			continue
		}
		it.phase = idle
		b := it.work()
		var bad *proto.Error
		if i < len(errs) {
			bad = errs[i]
		}
		b.doubt = b.doubt || bad != nil && bad.Effect == nornv1.Effect_EFFECT_UNKNOWN
		f := fact{instant: w.instants[i], at: now.Wall}
		switch final := finalOf(bad); {
		case bad == nil, bad.Kind == nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS: // as the version before wanted it
			f.status = policy.Running
			ask = append(ask, id.Launch(m.cfg.Cluster, it.entry.UUID, f.instant))
		case final && b.doubt && !m.cfg.Policy.DoubtFinal: // the node that refuses may not have heard of the task
			b.refused, b.since, b.pause = bad.Message, now.Mono, 0
			m.agenda.Set(it, math.MinInt64)
			continue
		case final || now.Mono-b.since >= int64(patience):
			f.status, f.note = policy.NotEnqueued, bad.Message
			if b.doubt {
				f.note = "in doubt: " + f.note
			}
		default:
			m.later(now, it)
			continue
		}
		it.end(f)
		m.agenda.Set(it, math.MinInt64)
	}
	return ask
}

// Found tells what came of a look for a task among a majority of its cohort: nil is
// there. One that nobody knows may still come, of an attempt that is on its way: its
// launch ends in doubt, as one of which nobody could be asked for a while.
func (m *Machine) Found(now clock.Time, tag uint64, bad *proto.Error) {
	w := m.finds[tag]
	if w == nil {
		return
	}
	delete(m.finds, tag)
	for i, it := range w.items {
		if it.phase != finding || it.rec == nil {
			continue
		}
		it.phase = idle
		b := it.work()
		f := fact{instant: w.instants[i], at: now.Wall, status: policy.Running}
		if bad != nil {
			if bad.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND && now.Mono-b.since < int64(patience) {
				m.later(now, it)
				continue
			}
			f.status, f.note = policy.NotEnqueued, "in doubt: "+b.refused
		}
		it.end(f)
		m.agenda.Set(it, math.MinInt64)
	}
}

// finalOf tells whether trying again is no use.
func finalOf(e *proto.Error) bool {
	return e != nil && e.Effect == nornv1.Effect_EFFECT_NONE && slices.Contains([]nornv1.ErrorKind{
		nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT, nornv1.ErrorKind_ERROR_KIND_CONFLICT,
		nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW, nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED,
	}, e.Kind)
}

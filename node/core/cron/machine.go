package cron

import (
	"bytes"
	"errors"
	"math"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/schedule"
	"github.com/norn-dev/norn/schedule/agenda"
	"github.com/norn-dev/norn/schedule/policy"
)

// Limits and pauses of the master.
const (
	// maxBatch is how many schedules are changed in one commit, and how many tasks
	// are enqueued in one request.
	maxBatch = 1000
	// maxBatchBytes bounds both; a proposal of the register has at most 1 MiB.
	maxBatchBytes = 512 << 10
	// maxCommits and maxLaunches are how many of them may be under way: the next
	// one is prepared meanwhile, and what comes due waits in the list.
	maxCommits  = 2
	maxLaunches = 4
	// maxFinds is how many tasks of launches are looked for at once.
	maxFinds = 64
	// maxRefresh is how many changed schedules are read in one turn: a node that
	// has just heard of 100,000 has other things to do as well.
	maxRefresh = 2000
	// maxUrgent is how many schedules with something to note are passed over for the first
	// one that is due.
	maxUrgent = 1000
	// look is the longest pause: wall time steps (package policy).
	look = time.Second
	// patience is for how long a master tries to enqueue the task of a launch.
	patience = 30 * time.Second
	// retryFirst and retryMost are the pauses before it tries again.
	retryFirst, retryMost = 200 * time.Millisecond, 2 * time.Second
	// askAgain is the pause after a commit whose outcome is unknown.
	askAgain = 200 * time.Millisecond
	// forget is for how long the watermark of a deleted schedule is kept for a
	// successor of its name: clocks differ by less.
	forget = time.Hour
)

// Config is what a machine needs to know.
type Config struct {
	// Policy is the zero one but in the hunt.
	Policy Policy
	// Self is this node in this incarnation.
	Self register.Member
	// Cluster is the UUID of the cluster: it is part of the IDs of launches.
	Cluster [16]byte
	// Grace is for how long it is kept how a finished task has ended (gc-grace); 0:
	// for ever.
	Grace time.Duration
	// Nonce draws the name of a mastership. It is not 0 and never the same.
	Nonce func() uint64
	// Barred says why who made a schedule has no right to launch to its queue any more; empty: it
	// has. nil: nobody needs one.
	Barred func(access map[string]register.Value, m *nornv1.ScheduleMaker, queue string) string
}

// Commit is a request to the register; its result is told to
// [Machine.Committed]. The tag is the machine's.
type Commit struct {
	Tag     uint64
	Request register.Request
}

// Launches is a request for tasks to be enqueued; what came of it is told to
// [Machine.Launched].
type Launches struct {
	Tag     uint64
	Request *nornv1.LaunchRequest
}

// Cancels is a request for a task to be cancelled; what came of it is told to
// [Machine.Cancelled].
type Cancels struct {
	Tag   uint64
	Tasks []id.ID
}

// Find is a request to ask a majority of a task's cohort for it; what came of it is told
// to [Machine.Found].
type Find struct {
	Tag  uint64
	Task id.ID
}

// Ready is what the machine wants done. The order does not matter.
type Ready struct {
	Commits  []Commit
	Launches []Launches
	Cancels  []Cancels
	Finds    []Find
	// Ask are tasks of which the end is to be told to [Machine.Finished], now or
	// later; it asks again.
	Ask []id.ID
	// Seek are tasks that may be forgotten: if no majority of their cohort knows of
	// one, [Machine.Forgotten] is told.
	Seek []id.ID
}

// Stats is what can be watched of a machine.
type Stats struct {
	Master    bool
	Schedules int
	Running   int           // launches whose task is not known to be finished
	Overdue   time.Duration // how late the first launch of the list is
	// Since this process was started, as master:
	Launched, Replaced, NotEnqueued, Failed uint64
	Skipped                                 [policy.Limit + 1]uint64 // by reason
	LateSeconds                             float64                  // sum over launches
	Takeovers                               uint64
}

func (s *Stats) add(o *Stats) {
	if o == nil {
		return
	}
	s.Launched, s.Replaced = s.Launched+o.Launched, s.Replaced+o.Replaced
	s.NotEnqueued, s.Failed = s.NotEnqueued+o.NotEnqueued, s.Failed+o.Failed
	s.LateSeconds += o.LateSeconds
	for i, n := range o.Skipped {
		s.Skipped[i] += n
	}
}

// Machine follows the schedules of the register, and launches them on the node
// that leads it. One goroutine may use it.
//
// Invariant: a schedule that can be read is in the agenda, or something is under way of it;
// never both a change and a launch. One that is in neither would never launch again
// ([Audit]).
//
// Invariant: nonce is 0, or the register has been seen with it: nothing is begun under a
// mastership that is only asked for. That the register refuses what is asked for under an older
// nonce makes this safe; that it is dropped as soon as another one is seen ([Machine.Observe])
// saves the refusals.
//
// Invariant: revision and generation only grow. A state that comes late would bring back a
// definition that was replaced, and with it launches that nobody wants any more.
type Machine struct {
	cfg    Config
	zones  *schedule.Zones // nil until there is a schedule
	seen   register.Schedules
	access map[string]register.Value // of the newest state, see [Config.Barred]
	master register.Mastership
	// revision and generation of the newest state that was seen.
	revision, generation uint64

	items  map[string]*item
	agenda agenda.Agenda[*item]
	// Invariant: dirty has every schedule whose item may differ from seen: what is not read is
	// decided by an old record, and its commit is refused each time.
	dirty []string // changed, and not read again yet
	stale []string // to be placed anew, because the clock has gone back
	ahead int64    // wall less mono ns, as far as the clock has been ahead
	watch watch
	full  int // bytes of schedules from which on histories do not grow
	known int // items of schedules that are not deleted

	leads    bool
	nonce    uint64 // of our mastership; 0: none
	taking   uint64 // tag of the commit that takes it; 0: none
	takeAt   int64  // mono ns before which it is not tried again
	tag      uint64
	changes  []*item // with a change that waits
	toLaunch []*item // with a task that waits to be enqueued
	// Invariant: a batch is in its map from when it is given out until its answer or the end of
	// the mastership; an answer whose tag is in none is of a mastership before and changes
	// nothing.
	commits  map[uint64]*work // by tag
	launches map[uint64]*work
	cancels  map[uint64]*work
	finds    map[uint64]*work
	stats    Stats
}

// work is a batch that is under way.
type work struct {
	items    []*item
	instants []int64
}

// New makes a machine that has seen nothing yet.
func New(cfg Config) *Machine {
	m := &Machine{cfg: cfg, items: make(map[string]*item), full: register.MaxScheduleBytes - register.ScheduleReserve}
	m.watch.of = make(map[id.ID]running)
	m.drop()
	return m
}

// Zones gives the tz database.
func (m *Machine) Zones() *schedule.Zones {
	if m.zones == nil {
		m.zones = schedule.NewZones()
	}
	return m.zones
}

// Lead says whether this node leads the register's group, from the group itself.
// Who was deposed waits until it is told again.
func (m *Machine) Lead(now clock.Time, leads bool) {
	if leads == m.leads {
		return
	}
	if m.leads = leads; !leads {
		m.depose(now)
	}
}

// Observe takes in a state of the register. States may come more than once and
// out of order.
func (m *Machine) Observe(now clock.Time, s *register.State) {
	if s.Generation < m.generation || s.Generation == m.generation && s.Revision <= m.revision {
		return
	}
	anew := s.Generation != m.generation && m.revision != 0
	m.revision, m.generation, m.access = s.Revision, s.Generation, s.Access
	m.master = s.Master
	_, m.watch.rebuilt = s.LastRebuilt()
	if m.nonce != 0 && m.nonce != s.Master.Nonce { // somebody else is master
		m.depose(now)
		m.leads, m.takeAt = false, now.Mono+int64(askAgain)
	}
	for name := range s.Schedules.Since(m.seen) {
		m.dirty = append(m.dirty, name)
	}
	m.seen = s.Schedules
	if anew { // what was decided in the life before is judged anew
		m.dirty = m.dirty[:0]
		for x := range m.seen.All() {
			m.dirty = append(m.dirty, x.Name)
			if it := m.items[x.Name]; it != nil {
				it.rec = nil
			}
		}
	}
}

// depose ends the mastership: nothing that was asked for is waited for.
func (m *Machine) depose(now clock.Time) {
	var busy []*item
	for _, it := range m.items { // Any order: they are put into the agenda, which is sorted.
		if it.phase != idle {
			busy = append(busy, it)
		}
		if it.busy != nil {
			it.busy.facts, it.busy.tries = nil, tries{} // also of one that waits to be tried again
		}
	}
	m.drop()
	for _, it := range busy {
		if it.phase = idle; it.busy != nil {
			it.busy.change = nil
		}
		m.place(now, it)
	}
}

func (m *Machine) drop() {
	m.nonce, m.taking, m.changes, m.toLaunch = 0, 0, nil, nil
	m.commits, m.launches = make(map[uint64]*work), make(map[uint64]*work)
	m.cancels, m.finds = make(map[uint64]*work), make(map[uint64]*work)
}

// refresh reads some of the schedules that have changed.
func (m *Machine) refresh(now clock.Time) {
	n := min(len(m.dirty), maxRefresh)
	for _, name := range m.dirty[:n] {
		m.read(now, name)
	}
	if m.dirty = m.dirty[n:]; len(m.dirty) == 0 {
		m.dirty = nil
	}
	m.rewound(now)
}

// rewound places all schedules anew when the clock has gone back by more than
// look: they wait for times that are far away now. A clock that goes ahead needs
// nothing, what is due comes first.
func (m *Machine) rewound(now clock.Time) {
	ahead := now.Wall - now.Mono
	switch {
	case m.ahead == 0 || ahead > m.ahead:
		m.ahead = ahead
	case ahead < m.ahead-int64(look) && !m.cfg.Policy.NotPlacedAnew:
		m.ahead, m.stale = ahead, nil
		for x := range m.seen.All() {
			m.stale = append(m.stale, x.Name)
		}
	}
	n := min(len(m.stale), maxRefresh)
	for _, name := range m.stale[:n] {
		if it := m.items[name]; it != nil && it.rec != nil && it.phase == idle {
			m.place(now, it)
		}
	}
	if m.stale = m.stale[n:]; len(m.stale) == 0 {
		m.stale = nil
	}
}

// read takes over what the register says of one schedule.
func (m *Machine) read(now clock.Time, name string) {
	rec, it := m.seen.Get(name), m.items[name]
	switch {
	case rec == nil && it == nil || it != nil && it.rec == rec:
		return
	case rec == nil:
		m.remove(it)
		return
	case it == nil:
		it = &item{name: rec.Name}
		m.items[it.name] = it
	}
	if it.rec == nil || !bytes.Equal(it.rec.Definition, rec.Definition) {
		m.define(it, rec)
	}
	it.rec = rec
	if it.phase != committing { // else its end reads it, with what became of the change
		m.place(now, it)
	}
}

// define takes over what the user wants.
func (m *Machine) define(it *item, rec *register.Schedule) {
	def, kept := policy.Definition{UUID: it.entry.UUID}, DefaultHistory
	it.made = false
	m.count(it, len(rec.Definition) > 0)
	if len(rec.Definition) > 0 {
		d, err := load(m.Zones(), rec.Definition)
		if err != nil {
			d.policy.Table = nil // it is shown with its problem
		}
		if def = d.policy; !errors.Is(err, ErrDamaged) {
			kept, it.made = keep(d.wire.GetSpec()), d.wire.GetMaker() != nil
		}
	}
	if def.UUID == ([16]byte{}) { // deleted before this node heard of it
		def.UUID = nameless(it.name)
	}
	if def.UUID != it.entry.UUID {
		m.agenda.Remove(it)
	}
	it.define(def, kept)
}

// count counts the schedules that there are: one that is deleted leaves its watermark.
func (m *Machine) count(it *item, there bool) {
	switch {
	case there && !it.there:
		m.known++
	case !there && it.there:
		m.known--
	}
	it.there = there
}

// nameless is a place in the agenda for what has no UUID.
func nameless(name string) agenda.UUID {
	k := id.UniqueKey([16]byte{}, "", name, 0, 0)
	return agenda.UUID(k[4:])
}

func (m *Machine) remove(it *item) {
	delete(m.items, it.name)
	m.agenda.Remove(it)
	m.count(it, false)
	m.watch.replace(it, nil, m.cfg.Cluster)
	it.rec, it.phase, it.busy = nil, idle, nil
}

// place puts a schedule where it wakes.
func (m *Machine) place(now clock.Time, it *item) {
	r, err := decode(it.rec.State)
	if err != nil || it.table == nil && len(it.rec.Definition) > 0 {
		m.watch.replace(it, nil, m.cfg.Cluster)
		m.agenda.Remove(it)
		return
	}
	m.watch.replace(it, &r, m.cfg.Cluster)
	if it.phase == idle {
		m.agenda.Set(it, m.wakeOf(now, it, &r))
	}
}

// wakeOf is when there is something to decide about a schedule, wall ns.
func (m *Machine) wakeOf(now clock.Time, it *item, r *record) int64 {
	switch {
	case len(it.rec.Definition) == 0:
		return r.policy.Watermark + int64(forget)
	case r.generation != m.generation, r.policy.Last.Status == policy.Open, len(it.doing().facts) > 0:
		return math.MinInt64 // before anything else
	}
	def := it.def()
	d := policy.Decide(&def, r.policy, now.Wall)
	if d.Changed || d.Launch || d.Pause {
		return now.Wall
	}
	return d.Wake
}

// Next is when the machine wants to be looked at: wall and mono ns.
func (m *Machine) Next(now clock.Time) (wallAt, monoAt int64) {
	wallAt, monoAt = math.MaxInt64, clock.Never
	switch {
	case len(m.dirty)+len(m.stale) > 0:
		return wallAt, now.Mono
	case !m.leads || m.seen.Len() == 0:
		return wallAt, monoAt
	case m.nonce == 0:
		if m.taking == 0 {
			monoAt = max(m.takeAt, now.Mono)
		}
		return wallAt, monoAt
	}
	monoAt = now.Mono + int64(look)
	if at := m.watch.next(); at < monoAt {
		monoAt = max(at, now.Mono)
	}
	if _, first, ok := m.agenda.First(); ok && m.room() {
		wallAt = max(first, now.Wall)
	}
	return wallAt, monoAt
}

// Stats gives what can be watched.
func (m *Machine) Stats(now clock.Time) Stats {
	s := m.stats
	s.Master, s.Schedules, s.Running = m.nonce != 0, m.known, len(m.watch.of)
	if !s.Master {
		return s
	}
	if first, ok := m.agenda.Soonest(math.MinInt64, maxUrgent); ok { // what is before anything else is not due
		s.Overdue = time.Duration(max(0, now.Wall-first))
	}
	return s
}

// Finished tells how a task has ended.
func (m *Machine) Finished(now clock.Time, task id.ID, state crdt.State) {
	switch state {
	case crdt.StateCompleted:
		m.conclude(now, task, policy.Completed, "")
	case crdt.StateDead:
		m.conclude(now, task, policy.Failed, "")
	case crdt.StateCancelled:
		m.conclude(now, task, policy.Cancelled, "")
	}
}

// conclude notes what has become of a task, to be committed.
func (m *Machine) conclude(now clock.Time, task id.ID, status policy.Status, note string) {
	w, ok := m.watch.of[task]
	if !ok || m.nonce == 0 {
		return
	}
	f := fact{instant: w.instant, at: now.Wall, status: status, note: note}
	if task.Kind() == id.KindTask {
		f.task = task
	}
	b := w.it.work()
	for i := range b.facts {
		if b.facts[i].task == f.task && b.facts[i].instant == f.instant && b.facts[i].status == f.status {
			return
		}
	}
	b.facts = append(b.facts, f)
	if w.it.phase == idle {
		m.agenda.Set(w.it, math.MinInt64)
	}
}

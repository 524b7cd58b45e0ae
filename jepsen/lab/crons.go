package lab

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/node/core/cron"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Of workload schedules.
const (
	cronQueue = "launched"
	cronEach  = 8 // schedules of each specification
	// cronRecovers is how long after a fault launches may still be late: somebody
	// has to become master, and what came due meanwhile to be launched.
	cronRecovers = 10 * time.Second
	// cronDeadline is how late a launch may be begun when nothing is wrong, on a
	// machine that has other things to do as well.
	cronDeadline = 5 * time.Second
	// cronWindow is how late one may be at any time: the policy's.
	cronWindow = time.Hour
)

// cronSpecs are due often, for a run is short; the oracle of jepsen/check knows
// them. In Kathmandu the minutes are others than in UTC.
var cronSpecs = []string{
	"* * * * * *", "*/2 * * * * *", "@every 3s", "*/7 * * * * *", "0,30 * * * * *", "* * * * *",
	"?/5 * * * * *", "?,? ? * * * *", "?(10-40) * * * * *", "CRON_TZ=Asia/Kathmandu */3 0-59/2 * * * *", "TZ=Asia/Kolkata ?/4 * 0-23 * * *",
}

// scheduled is the workload of schedules (W9).
func scheduled() Workload {
	return Workload{
		Name: "schedules", About: "schedules of a second to a minute launch tasks, while clients edit, pause and resume them through all nodes, and delete some and make them again, with ? and zones; workers take their time with the tasks of some that allow, skip or queue what overlaps; in the end each instant has one task, or a reason; some enqueues beside (W9)",
		begin: (*crew).timekeepers, claims: true, queues: append(slices.Clone(queues), cronQueue, runQueue), finish: judgeCrons,
		lacks: func(r *Result) string { return cmp.Or(unlaunched(r), idle(r)) },
	}
}

// masters are the faults that look for the node that launches schedules (F23).
func masters() []Fault {
	hunt := func(name, about string, run func(*nemesis, *process) error) Fault {
		return Fault{Name: name, About: about, run: func(n *nemesis) error { return run(n, n.master()) }}
	}
	return []Fault{
		hunt("kill-master", "kill -9 the node that launches schedules, which leads the register, start it again (F1, F23)", func(n *nemesis, p *process) error { return n.killedThese([]*process{p}) }),
		hunt("isolate-master", "cut the node that launches schedules off (F3, F23)", (*nemesis).isolated),
		hunt("pause-master", "SIGSTOP the node that launches schedules, SIGCONT seconds later (F2, F23)", func(n *nemesis, p *process) error { return n.pausedThese([]*process{p}) }),
	}
}

// master is the node that launches schedules, as some node says; any one when
// nobody says.
func (n *nemesis) master() *process {
	all := n.members()
	for _, p := range n.some(len(all)) {
		to, err := n.dial(3*time.Second, p)
		if err != nil {
			continue
		}
		s, err := to.Schedules().Status(context.Background())
		if i := slices.IndexFunc(all, func(o *process) bool { return o.name == s.GetMaster() }); err == nil && i >= 0 {
			n.does("%s is master, the %d. time that one is", all[i].name, s.GetTerm())
			return all[i]
		}
	}
	return n.one()
}

// crons are the schedules of a run, as they were asked for.
type crons struct {
	all []check.CronSchedule
	// paused are when each may have been paused, wall ns; 0: it may be still.
	paused [][]check.CronSkip
	specs  []string // as they were given: with ?
	lost   []int    // of which it is not known whether they were deleted
	// before are those of the same names that were deleted.
	before [][]check.CronSchedule
	met    acquainted
}

// add makes room for one more schedule.
func (b *crons) add(spec string, overlap nornv1.Overlap, asked time.Time) {
	b.all = append(b.all, check.CronSchedule{Name: b.name(len(b.all)), Spec: spec, Asked: asked.Add(-clockSkew).UnixNano(), Overlap: overlap})
	b.specs = append(b.specs, spec)
}

// queue is where tasks of a schedule go.
func (b *crons) queue(i int) string {
	if i < len(cronSpecs)*cronEach {
		return cronQueue
	}
	return runQueue
}

// spec is a schedule of the run. The note differs and decides nothing.
func (b *crons) spec(i int, note string) *nornv1.ScheduleSpec {
	return &nornv1.ScheduleSpec{
		Cron: b.specs[i], History: cron.MaxHistory, Note: note, CatchUpWindowSeconds: cronWindow.Seconds(), Overlap: b.all[i].Overlap,
		Task: &nornv1.TaskSpec{Queue: b.queue(i), Payload: []byte(b.name(i))},
	}
}

// learn takes over which schedule has the name of an entry: another one than
// before, if that was deleted at a time (wall ns) or later.
func (b *crons) learn(i int, uuid string, deleted time.Time) error {
	s := &b.all[i]
	if s.UUID == uuid {
		return nil
	}
	resolved, err := check.Picked(b.specs[i], uuid)
	if err != nil {
		return err
	}
	if s.UUID != "" {
		old := *s
		old.Ended, old.Forgotten = deleted.Add(-clockSkew).UnixNano(), math.MaxInt64 // its history has gone with it
		b.before[i] = append(b.before[i], old)
		s.Asked = deleted.Add(-clockSkew).UnixNano()
	}
	s.UUID, s.Spec, s.Created = uuid, resolved, time.Now().Add(clockSkew).UnixNano()
	return nil
}

// of is the schedule of a name that an instant is of.
func (b *crons) of(i int, instant int64) *check.CronSchedule {
	for k := range b.before[i] {
		if next := append(b.before[i][k+1:len(b.before[i]):len(b.before[i])], b.all[i])[0]; instant <= next.Asked {
			return &b.before[i][k]
		}
	}
	return &b.all[i]
}

// timekeepers are the clients of workload schedules.
func (c *crew) timekeepers() error {
	to, err := c.dial(30*time.Second, c.members()...)
	if err != nil {
		return err
	}
	book := &crons{}
	var named []client.NamedSpec
	asked := time.Now()
	for _, spec := range cronSpecs {
		for range cronEach { // nobody works on these: they end with the run
			book.add(spec, nornv1.Overlap_OVERLAP_ALLOW, asked)
		}
	}
	for _, overlap := range runPolicies {
		for _, spec := range runSpecs {
			for range runsEach {
				book.add(spec, overlap, asked)
			}
		}
	}
	for i := range book.all {
		named = append(named, client.NamedSpec{Name: book.name(i), Spec: book.spec(i, "made")})
	}
	book.paused, book.before = make([][]check.CronSkip, len(book.all)), make([][]check.CronSchedule, len(book.all))
	made, err := to.Schedules().PutMany(context.Background(), named)
	if err != nil {
		return fmt.Errorf("schedules cannot be made: %w", err)
	}
	for i, res := range made {
		if res.GetError() != nil {
			return fmt.Errorf("schedule %s cannot be made: %s", named[i].Name, res.GetError().GetMessage())
		}
		if err := book.learn(i, res.GetSchedule().GetUuid(), asked); err != nil {
			return err
		}
	}
	c.crons = book
	if err := c.runners(); err != nil {
		return err
	}
	think := c.cfg.Think
	if err := c.join(nil, 3*time.Second, 30*think, (*hand).makeAgain); err != nil {
		return err
	}
	for _, p := range c.members() {
		if err := c.join(p, 3*time.Second, 4*think, (*hand).editSchedule); err != nil {
			return err
		}
		if err := c.join(p, 3*time.Second, think, func(h *hand) { h.enqueue(client.Quorum, false) }); err != nil {
			return err
		}
		if err := c.join(p, 3*time.Second, think, (*hand).read); err != nil {
			return err
		}
	}
	return nil
}

// editSchedule changes what does not move instants, or pauses a schedule for a
// moment: the master and people write the same records. What comes of a call
// that fails the histories tell.
func (h *hand) editSchedule() {
	i := h.rnd.IntN(len(h.crons.all))
	name, ctx, all := h.crons.name(i), context.Background(), h.client.Schedules()
	if h.rnd.IntN(8) > 0 {
		_, _ = all.Put(ctx, name, h.crons.spec(i, fmt.Sprint(h.rnd.IntN(1000))), client.PutOptions{KeepPaused: true})
		return
	}
	h.mu.Lock()
	h.crons.paused[i] = append(h.crons.paused[i], check.CronSkip{From: time.Now().UnixNano()})
	h.mu.Unlock()
	_, _ = all.Pause(ctx, name, "for a moment")
	if _, err := all.Resume(ctx, name); err == nil {
		h.resumed(i)
	}
}

// name is that of an entry; it stays.
func (b *crons) name(i int) string { return fmt.Sprintf("lab/%d-%d", i/cronEach, i%cronEach) }

// makeAgain deletes the last schedule of a specification, and makes it again. One
// client does so, and leaves alone for the rest of the run what it does not know
// the outcome of.
func (h *hand) makeAgain() {
	i := h.rnd.IntN(len(cronSpecs))*cronEach + cronEach - 1
	name, ctx, all := h.crons.name(i), context.Background(), h.client.Schedules()
	from := time.Now()
	h.mu.Lock()
	lost := slices.Contains(h.crons.lost, i)
	h.crons.paused[i] = append(h.crons.paused[i], check.CronSkip{From: from.UnixNano()})
	h.crons.lost = append(h.crons.lost, i)
	h.mu.Unlock()
	if lost || all.Delete(ctx, name) != nil {
		return
	}
	res, err := all.Put(ctx, name, h.crons.spec(i, "made again"), client.PutOptions{})
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.crons.learn(i, res.GetSchedule().GetUuid(), from) == nil {
		h.crons.lost = slices.DeleteFunc(h.crons.lost, func(k int) bool { return k == i })
		h.crons.ended(i)
	}
}

// foundAgain learns what has become of the schedules that were left alone.
func (c *crew) foundAgain(ctx context.Context, all client.Schedules) error {
	for _, i := range slices.Compact(slices.Sorted(slices.Values(c.crons.lost))) {
		name := c.crons.name(i)
		res, err := all.Put(ctx, name, c.crons.spec(i, "the end"), client.PutOptions{})
		if err != nil {
			return err
		}
		var from time.Time
		for _, p := range c.crons.paused[i] {
			if at := time.Unix(0, p.From); p.To == 0 && (from.IsZero() || at.Before(from)) {
				from = at
			}
		}
		if err := c.crons.learn(i, res.GetSchedule().GetUuid(), from); err != nil {
			return err
		}
	}
	return nil
}

// resumed notes that a schedule goes on.
func (c *crew) resumed(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.crons.lost, i) {
		c.crons.ended(i)
	}
}

// ended ends what a schedule is not to be judged in.
func (b *crons) ended(i int) {
	for k := range b.paused[i] {
		if p := &b.paused[i][k]; p.To == 0 {
			p.To = time.Now().UnixNano()
		}
	}
}

// judgeCrons pauses all schedules of a cluster that is whole again, and holds
// what there is of them to their instants. The tasks that were launched are
// written down as acknowledged: they must not get lost from then on.
func judgeCrons(ctx context.Context, c *crew) error {
	to, err := c.dial(30*time.Second, c.members()...)
	if err != nil {
		return err
	}
	book, all := c.crons, to.Schedules()
	if err := c.foundAgain(ctx, all); err != nil {
		return err
	}
	book.lost = nil
	stop, err := c.runOn(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for i := range book.all { // a pause that a client could not end: launches are to go on for a while
		if _, err := all.Resume(ctx, book.all[i].Name); err != nil {
			c.found("stuck", "schedule %s cannot be resumed: %v", book.all[i].Name, err)
			return errStuck
		}
		c.resumed(i)
	}
	c.say("schedules go on for %v without a fault", 2*cronRecovers)
	<-time.After(2 * cronRecovers)
	for i := range book.all {
		s := &book.all[i]
		s.Ended = time.Now().Add(-cronDeadline).UnixNano()
		if _, err := all.Pause(ctx, s.Name, "the end"); err != nil {
			c.found("stuck", "schedule %s cannot be paused: %v", s.Name, err)
			return errStuck
		}
	}
	stop()
	begun, err := c.histories(ctx, to)
	if err != nil {
		return err
	}
	if err := c.rests(ctx); err != nil { // a list asks one replica of each partition
		return err
	}
	n, err := c.launches(ctx, to, begun)
	if err != nil {
		return err
	}
	c.worked()
	c.judgeLaunches()
	again := 0
	for _, old := range book.before {
		again += len(old)
	}
	status, err := all.Status(ctx)
	c.note("%d schedules, %d of them made again, have launched %d tasks; the mastership has changed %d times (%v)", len(book.all), again, n, status.GetTerm(), err)
	return nil
}

// histories reads what became of all instants, once nothing is open any more, and
// gives when each task was begun.
func (c *crew) histories(ctx context.Context, to *client.Client) (map[string]int64, error) {
	begun := map[string]int64{}
	for i := range c.crons.all {
		s := &c.crons.all[i]
		var found *nornv1.Schedule
		for end := time.Now().Add(rest); ; <-time.After(100 * time.Millisecond) {
			var err error
			found, err = to.Schedules().Get(ctx, s.Name)
			open := slices.ContainsFunc(found.GetHistory(), func(l *nornv1.Launch) bool { return l.GetStatus() == nornv1.LaunchStatus_LAUNCH_STATUS_OPEN })
			if err == nil && !open {
				break
			}
			if time.Now().After(end) {
				c.found("stuck", "schedule %s has a launch that stays open: %v, %v", s.Name, found, err)
				return nil, errStuck
			}
		}
		for _, l := range found.GetHistory() {
			s.Told(l)
			begun[l.GetTaskId()] = l.GetBegun().AsTime().UnixNano()
		}
		if q := found.GetQueued(); q != nil {
			s.Skips = append(s.Skips, check.CronSkip{From: q.AsTime().UnixNano(), To: q.AsTime().UnixNano(), Reason: check.CronQueued})
		}
		if n := len(found.GetHistory()); n == cron.MaxHistory {
			s.Forgotten = found.GetHistory()[n-1].GetInstant().AsTime().UnixNano()
		}
	}
	return begun, nil
}

// launches reads all tasks that were launched, and gives their number.
func (c *crew) launches(ctx context.Context, to *client.Client, begun map[string]int64) (n int, err error) {
	byName := map[string]int{}
	for i := range c.crons.all {
		byName[c.crons.all[i].Name] = i
	}
	asked, answer := &history.Event{Func: history.Enqueue}, history.Event{}
	for _, queue := range []string{cronQueue, runQueue} {
		for t, err := range to.List(ctx, client.Filter{Queue: queue, PageSize: 1000}) {
			if err != nil {
				return 0, err
			}
			i, known := byName[t.GetHeaders()[cron.HeaderSchedule]]
			at, err := time.Parse(time.RFC3339, t.GetHeaders()[cron.HeaderInstant])
			if !known || err != nil || queue != c.crons.queue(i) {
				c.found("schedules", "task %s is of no schedule: %v", t.GetId(), t.GetHeaders())
				continue
			}
			s, task := c.crons.of(i, at.UnixNano()), parse(t.GetId())
			s.Launches = append(s.Launches, check.CronLaunch{Instant: at.UnixNano(), Task: t.GetId(), Begun: begun[t.GetId()]})
			asked.Items = append(asked.Items, history.Item{Task: task, Spec: specOf(&client.Task{Queue: queue, Payload: []byte(s.Name)})})
			answer.Items = append(answer.Items, history.Item{Task: task, Existed: !c.crons.met.meets(task)})
		}
	}
	c.rec.invoke(c.rec.process(), asked)
	c.rec.end(asked, nil, answer)
	return len(asked.Items), nil
}

// judgeLaunches holds what was launched to the instants of each schedule (I12).
func (c *crew) judgeLaunches() {
	skew := c.skew()
	for i := range c.crons.all {
		one := append(slices.Clone(c.crons.before[i]), c.crons.all[i])
		for _, v := range check.Cron(one, check.CronOptions{
			Healthy: c.calm(i), Deadline: cronDeadline, Limit: cronWindow, Knows: cronKnows, Skew: skew,
		}) {
			c.found("schedules", "%s: %s", v.Invariant, v.Text)
		}
	}
}

// calm are the stretches of wall time in which nothing was wrong with a schedule,
// and nobody had paused it.
func (c *crew) calm(i int) (out []check.CronSkip) {
	c.mu.Lock()
	paused := slices.Clone(c.crons.paused[i])
	c.mu.Unlock()
	c.lab.mu.Lock()
	wrong := paused
	for _, w := range c.windows {
		wrong = append(wrong, check.CronSkip{From: c.rec.began.Add(w.From).UnixNano(), To: c.rec.began.Add(max(w.To, w.Whole)).UnixNano()})
	}
	c.lab.mu.Unlock()
	slices.SortFunc(wrong, func(a, b check.CronSkip) int { return cmp.Compare(a.From, b.From) })
	s, first := &c.crons.all[i], &c.crons.all[i]
	if len(c.crons.before[i]) > 0 {
		first = &c.crons.before[i][0]
	}
	from := first.Created + int64(cronRecovers)
	for _, w := range append(wrong, check.CronSkip{From: s.Ended}) {
		if to := w.From - int64(cronDeadline); to > from {
			out = append(out, check.CronSkip{From: from, To: to})
		}
		from = max(from, w.To+int64(cronRecovers))
	}
	return out
}

// unlaunched says when too little was launched for anything to be shown.
func unlaunched(r *Result) string {
	n := 0
	for _, e := range r.Events {
		if e.Func != history.Enqueue || e.Phase != history.Invoke {
			continue
		}
		for i := range e.Items {
			if e.Items[i].Spec.Queue == cronQueue {
				n++
			}
		}
	}
	if least := int(10 * r.Config.Duration.Seconds()); n < least {
		return fmt.Sprintf("%d launches, %d are the least", n, least)
	}
	return ""
}

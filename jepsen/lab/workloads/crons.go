package workloads

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
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/record"
	"github.com/norn-dev/norn/node/core/cron"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Of workload schedules.
const (
	CronQueue = "launched"
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
		Begin: (*Crew).timekeepers, Claims: true, Queues: append(slices.Clone(Queues), CronQueue, RunQueue), Finish: judgeCrons,
		Lacks: func(r *Seen) string { return cmp.Or(unlaunched(r), idle(r)) },
	}
}

// Crons are the schedules of a run, as they were asked for.
type Crons struct {
	All []check.CronSchedule
	// paused are when each may have been paused, wall ns; 0: it may be still.
	Paused [][]check.CronSkip
	specs  []string // as they were given: with ?
	lost   []int    // of which it is not known whether they were deleted
	// before are those of the same names that were deleted.
	Before [][]check.CronSchedule
	met    acquainted
}

// add makes room for one more schedule.
func (b *Crons) add(spec string, overlap nornv1.Overlap, asked time.Time) {
	b.All = append(b.All, check.CronSchedule{Name: b.name(len(b.All)), Spec: spec, Asked: asked.Add(-ClockSkew).UnixNano(), Overlap: overlap})
	b.specs = append(b.specs, spec)
}

// queue is where tasks of a schedule go.
func (b *Crons) queue(i int) string {
	if i < len(cronSpecs)*cronEach {
		return CronQueue
	}
	return RunQueue
}

// spec is a schedule of the run. The note differs and decides nothing.
func (b *Crons) spec(i int, note string) *nornv1.ScheduleSpec {
	return &nornv1.ScheduleSpec{
		Cron: b.specs[i], History: cron.MaxHistory, Note: note, CatchUpWindowSeconds: cronWindow.Seconds(), Overlap: b.All[i].Overlap,
		Task: &nornv1.TaskSpec{Queue: b.queue(i), Payload: []byte(b.name(i))},
	}
}

// learn takes over which schedule has the name of an entry: another one than
// before, if that was deleted at a time (wall ns) or later.
func (b *Crons) learn(i int, uuid string, deleted time.Time) error {
	s := &b.All[i]
	if s.UUID == uuid {
		return nil
	}
	resolved, err := check.Picked(b.specs[i], uuid)
	if err != nil {
		return err
	}
	if s.UUID != "" {
		old := *s
		old.Ended, old.Forgotten = deleted.Add(-ClockSkew).UnixNano(), math.MaxInt64 // its history has gone with it
		b.Before[i] = append(b.Before[i], old)
		s.Asked = deleted.Add(-ClockSkew).UnixNano()
	}
	s.UUID, s.Spec, s.Created = uuid, resolved, time.Now().Add(ClockSkew).UnixNano()
	return nil
}

// of is the schedule of a name that an instant is of.
func (b *Crons) of(i int, instant int64) *check.CronSchedule {
	for k := range b.Before[i] {
		if next := append(b.Before[i][k+1:len(b.Before[i]):len(b.Before[i])], b.All[i])[0]; instant <= next.Asked {
			return &b.Before[i][k]
		}
	}
	return &b.All[i]
}

// timekeepers are the clients of workload schedules.
func (c *Crew) timekeepers() error {
	to, err := c.Dial(30*time.Second, c.Members()...)
	if err != nil {
		return err
	}
	book := &Crons{}
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
	for i := range book.All {
		named = append(named, client.NamedSpec{Name: book.name(i), Spec: book.spec(i, "made")})
	}
	book.Paused, book.Before = make([][]check.CronSkip, len(book.All)), make([][]check.CronSchedule, len(book.All))
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
	c.Crons = book
	if err := c.runners(); err != nil {
		return err
	}
	think := c.Cfg.Think
	if err := c.Join(nil, 3*time.Second, 30*think, (*Hand).makeAgain); err != nil {
		return err
	}
	for _, p := range c.Members() {
		if err := c.Join(p, 3*time.Second, 4*think, (*Hand).editSchedule); err != nil {
			return err
		}
		if err := c.Join(p, 3*time.Second, think, func(h *Hand) { h.Enqueue(client.Quorum, false) }); err != nil {
			return err
		}
		if err := c.Join(p, 3*time.Second, think, (*Hand).read); err != nil {
			return err
		}
	}
	return nil
}

// editSchedule changes what does not move instants, or pauses a schedule for a
// moment: the master and people write the same records. What comes of a call
// that fails the histories tell.
func (h *Hand) editSchedule() {
	i := h.Rnd.IntN(len(h.Crons.All))
	name, ctx, all := h.Crons.name(i), context.Background(), h.Client.Schedules()
	if h.Rnd.IntN(8) > 0 {
		_, _ = all.Put(ctx, name, h.Crons.spec(i, fmt.Sprint(h.Rnd.IntN(1000))), client.PutOptions{KeepPaused: true})
		return
	}
	h.mu.Lock()
	h.Crons.Paused[i] = append(h.Crons.Paused[i], check.CronSkip{From: time.Now().UnixNano()})
	h.mu.Unlock()
	_, _ = all.Pause(ctx, name, "for a moment")
	if _, err := all.Resume(ctx, name); err == nil {
		h.resumed(i)
	}
}

// name is that of an entry; it stays.
func (b *Crons) name(i int) string { return fmt.Sprintf("lab/%d-%d", i/cronEach, i%cronEach) }

// makeAgain deletes the last schedule of a specification, and makes it again. One
// client does so, and leaves alone for the rest of the run what it does not know
// the outcome of.
func (h *Hand) makeAgain() {
	i := h.Rnd.IntN(len(cronSpecs))*cronEach + cronEach - 1
	name, ctx, all := h.Crons.name(i), context.Background(), h.Client.Schedules()
	from := time.Now()
	h.mu.Lock()
	lost := slices.Contains(h.Crons.lost, i)
	h.Crons.Paused[i] = append(h.Crons.Paused[i], check.CronSkip{From: from.UnixNano()})
	h.Crons.lost = append(h.Crons.lost, i)
	h.mu.Unlock()
	if lost || all.Delete(ctx, name) != nil {
		return
	}
	res, err := all.Put(ctx, name, h.Crons.spec(i, "made again"), client.PutOptions{})
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Crons.learn(i, res.GetSchedule().GetUuid(), from) == nil {
		h.Crons.lost = slices.DeleteFunc(h.Crons.lost, func(k int) bool { return k == i })
		h.Crons.ended(i)
	}
}

// foundAgain learns what has become of the schedules that were left alone.
func (c *Crew) foundAgain(ctx context.Context, all client.Schedules) error {
	for _, i := range slices.Compact(slices.Sorted(slices.Values(c.Crons.lost))) {
		name := c.Crons.name(i)
		res, err := all.Put(ctx, name, c.Crons.spec(i, "the end"), client.PutOptions{})
		if err != nil {
			return err
		}
		var from time.Time
		for _, p := range c.Crons.Paused[i] {
			if at := time.Unix(0, p.From); p.To == 0 && (from.IsZero() || at.Before(from)) {
				from = at
			}
		}
		if err := c.Crons.learn(i, res.GetSchedule().GetUuid(), from); err != nil {
			return err
		}
	}
	return nil
}

// resumed notes that a schedule goes on.
func (c *Crew) resumed(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.Crons.lost, i) {
		c.Crons.ended(i)
	}
}

// ended ends what a schedule is not to be judged in.
func (b *Crons) ended(i int) {
	for k := range b.Paused[i] {
		if p := &b.Paused[i][k]; p.To == 0 {
			p.To = time.Now().UnixNano()
		}
	}
}

// judgeCrons pauses all schedules of a cluster that is whole again, and holds
// what there is of them to their instants. The tasks that were launched are
// written down as acknowledged: they must not get lost from then on.
func judgeCrons(ctx context.Context, c *Crew) error {
	to, err := c.Dial(30*time.Second, c.Members()...)
	if err != nil {
		return err
	}
	book, all := c.Crons, to.Schedules()
	if err := c.foundAgain(ctx, all); err != nil {
		return err
	}
	book.lost = nil
	stop, err := c.runOn(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for i := range book.All { // a pause that a client could not end: launches are to go on for a while
		if _, err := all.Resume(ctx, book.All[i].Name); err != nil {
			c.Found("stuck", "schedule %s cannot be resumed: %v", book.All[i].Name, err)
			return cluster.ErrStuck
		}
		c.resumed(i)
	}
	c.Say("schedules go on for %v without a fault", 2*cronRecovers)
	<-time.After(2 * cronRecovers)
	for i := range book.All {
		s := &book.All[i]
		s.Ended = time.Now().Add(-cronDeadline).UnixNano()
		if _, err := all.Pause(ctx, s.Name, "the end"); err != nil {
			c.Found("stuck", "schedule %s cannot be paused: %v", s.Name, err)
			return cluster.ErrStuck
		}
	}
	stop()
	begun, err := c.histories(ctx, to)
	if err != nil {
		return err
	}
	if err := c.Rests(ctx); err != nil { // a list asks one replica of each partition
		return err
	}
	n, err := c.launches(ctx, to, begun)
	if err != nil {
		return err
	}
	c.Worked()
	c.JudgeLaunches()
	again := 0
	for _, old := range book.Before {
		again += len(old)
	}
	status, err := all.Status(ctx)
	c.Note("%d schedules, %d of them made again, have launched %d tasks; the mastership has changed %d times (%v)", len(book.All), again, n, status.GetTerm(), err)
	return nil
}

// histories reads what became of all instants, once nothing is open any more, and
// gives when each task was begun.
func (c *Crew) histories(ctx context.Context, to *client.Client) (map[string]int64, error) {
	begun := map[string]int64{}
	for i := range c.Crons.All {
		s := &c.Crons.All[i]
		var found *nornv1.Schedule
		for end := time.Now().Add(cluster.Rest); ; <-time.After(100 * time.Millisecond) {
			var err error
			found, err = to.Schedules().Get(ctx, s.Name)
			open := slices.ContainsFunc(found.GetHistory(), func(l *nornv1.Launch) bool { return l.GetStatus() == nornv1.LaunchStatus_LAUNCH_STATUS_OPEN })
			if err == nil && !open {
				break
			}
			if time.Now().After(end) {
				c.Found("stuck", "schedule %s has a launch that stays open: %v, %v", s.Name, found, err)
				return nil, cluster.ErrStuck
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
func (c *Crew) launches(ctx context.Context, to *client.Client, begun map[string]int64) (n int, err error) {
	byName := map[string]int{}
	for i := range c.Crons.All {
		byName[c.Crons.All[i].Name] = i
	}
	asked, answer := &history.Event{Func: history.Enqueue}, history.Event{}
	for _, queue := range []string{CronQueue, RunQueue} {
		for t, err := range to.List(ctx, client.Filter{Queue: queue, PageSize: 1000}) {
			if err != nil {
				return 0, err
			}
			i, known := byName[t.GetHeaders()[cron.HeaderSchedule]]
			at, err := time.Parse(time.RFC3339, t.GetHeaders()[cron.HeaderInstant])
			if !known || err != nil || queue != c.Crons.queue(i) {
				c.Found("schedules", "task %s is of no schedule: %v", t.GetId(), t.GetHeaders())
				continue
			}
			s, task := c.Crons.of(i, at.UnixNano()), record.Parse(t.GetId())
			s.Launches = append(s.Launches, check.CronLaunch{Instant: at.UnixNano(), Task: t.GetId(), Begun: begun[t.GetId()]})
			asked.Items = append(asked.Items, history.Item{Task: task, Spec: record.SpecOf(&client.Task{Queue: queue, Payload: []byte(s.Name)})})
			answer.Items = append(answer.Items, history.Item{Task: task, Existed: !c.Crons.met.meets(task)})
		}
	}
	c.Rec.Invoke(c.Rec.Process(), asked)
	c.Rec.End(asked, nil, answer)
	return len(asked.Items), nil
}

// JudgeLaunches holds what was launched to the instants of each schedule (I12).
func (c *Crew) JudgeLaunches() {
	skew := c.skew()
	for i := range c.Crons.All {
		one := append(slices.Clone(c.Crons.Before[i]), c.Crons.All[i])
		for _, v := range check.Cron(one, check.CronOptions{
			Healthy: c.calm(i), Deadline: cronDeadline, Limit: cronWindow, Knows: cronKnows, Skew: skew,
		}) {
			c.Found("schedules", "%s: %s", v.Invariant, v.Text)
		}
	}
}

// calm are the stretches of wall time in which nothing was wrong with a schedule,
// and nobody had paused it.
func (c *Crew) calm(i int) (out []check.CronSkip) {
	c.mu.Lock()
	paused := slices.Clone(c.Crons.Paused[i])
	c.mu.Unlock()
	c.Lab.Mu.Lock()
	wrong := paused
	for _, w := range c.Windows {
		wrong = append(wrong, check.CronSkip{From: c.Rec.Began.Add(w.From).UnixNano(), To: c.Rec.Began.Add(max(w.To, w.Whole)).UnixNano()})
	}
	c.Lab.Mu.Unlock()
	slices.SortFunc(wrong, func(a, b check.CronSkip) int { return cmp.Compare(a.From, b.From) })
	s, first := &c.Crons.All[i], &c.Crons.All[i]
	if len(c.Crons.Before[i]) > 0 {
		first = &c.Crons.Before[i][0]
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
func unlaunched(r *Seen) string {
	n := 0
	for _, e := range r.Events {
		if e.Func != history.Enqueue || e.Phase != history.Invoke {
			continue
		}
		for i := range e.Items {
			if e.Items[i].Spec.Queue == CronQueue {
				n++
			}
		}
	}
	if least := int(10 * r.Duration.Seconds()); n < least {
		return fmt.Sprintf("%d launches, %d are the least", n, least)
	}
	return ""
}

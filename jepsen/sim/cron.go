package sim

import (
	"fmt"
	"time"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/node/core/cron"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/jepsen/sim/checks"
	"github.com/norn-dev/norn/jepsen/sim/clients"
	"github.com/norn-dev/norn/jepsen/sim/faults"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

// Times of a run with schedules.
const (
	// recovered is how long after the last node is up again everything is in time:
	// elections, and what had piled up.
	recovered = 30 * time.Second
	// healthy is for how long it is looked at then.
	healthy = 20 * time.Second
	// cronDeadline is how late a launch may be begun when nothing is wrong: links
	// and disks are slow in some seeds.
	cronDeadline = 2 * time.Second
	cronQueue    = "cron"
)

// Cron runs one seed of a cluster that launches schedules: the storm is that of
// [Cluster], people make and edit schedules, and in the end each instant must
// have one task, or a reason why it has none (check.Cron).
func Cron(seed uint64) *Result { return CronMutant(seed, nodes.Mutant{}) }

// CronMutant runs one seed of a cluster of mutants that launches schedules.
func CronMutant(seed uint64, m nodes.Mutant) *Result {
	return runCron(seed, Many{Mutant: m, Schedules: true})
}

func runCron(seed uint64, m Many) *Result {
	s := newSim(seed, m.Mutant)
	s.Tracing, s.Stop = m.Trace, m.Stop
	s.Plan = plan.DrawCluster(&s.World)
	s.Plan.Tasks, s.Plan.Producers, s.Plan.Workers, s.Plan.Readers, s.Plan.Admins = 0, 0, 0, 0, 0
	s.Plan.Queues, s.Plan.Collect = []string{cronQueue}, 0
	// A node that comes and goes takes the only copies of facts along; that is
	// judged by Cluster. Here nobody loses what a majority had.
	s.Plan.Cluster.Wipe, s.Plan.Cluster.Restore, s.Plan.Cluster.Flip, s.Plan.Cluster.Members = 0, 0, 0, 0
	s.Stalls = s.Plan.Disk.Stall > 0
	s.Note("seed %d, schedules: %+v", seed, s.Plan)
	f, harm := s.cluster()
	for range s.Plan.Cluster.Nodes {
		f.Add()
	}
	f.Found(f.Nodes[0])
	for _, n := range f.Nodes[1:] {
		s.After(s.Between(time.Second, 4*time.Second), func() { f.Join(n) })
	}
	f.Gossip()
	k := &timekeeper{f: f, harm: harm, end: checks.NewEnding(s.People), Caller: s.NewCaller(), specs: map[string]*check.CronSchedule{}}
	k.end.WhenWhole(s.Now+int64(2*time.Minute), "the cluster never forms", func() {
		f.Forming = false
		k.begin()
	})
	s.Run()
	r := s.result(seed)
	r.Calm, r.Again = k.calm(), m.again(seed)
	if r.Violation != nil {
		r.Detail = k.end.Roll()
	}
	return r
}

// timekeeper is who makes schedules and judges them.
type timekeeper struct {
	*clients.Caller
	f       *nodes.Fleet
	harm    *faults.Nemesis
	end     *checks.Ending
	names   []string
	specs   map[string]*check.CronSchedule
	edits   uint64
	stormed int64 // when the storm began, true time
	healed  int64 // when it had ended, and all nodes were up again
	quiet   bool  // no more edits
}

// wall is what good clocks show at a true time.
func wall(now int64) int64 { return world.Origin + now }

// begin makes the schedules, then lets the storm loose.
func (k *timekeeper) begin() {
	s := k.S
	specs := []string{"* * * * * *", "*/2 * * * * *", "@every 3s", "*/7 * * * * *", "0,30 * * * * *"}
	for i := range 4 + s.Rnd.IntN(8) {
		name := fmt.Sprintf("s%02d", i)
		k.names = append(k.names, name)
		k.specs[name] = &check.CronSchedule{Name: name, Spec: world.Pick(&s.World, specs)}
	}
	k.make(0)
}

// make makes one schedule after another, each until it is there.
func (k *timekeeper) make(i int) {
	s := k.S
	if i == len(k.names) {
		s.Note("the storm begins")
		k.stormed, k.f.Stormy = s.Now, true
		k.harm.Trouble()
		s.After(s.About(2*time.Second), k.edit)
		s.After(s.Plan.Storm, k.heal)
		return
	}
	c := k.specs[k.names[i]]
	if c.Asked == 0 {
		c.Asked = wall(s.Now) - int64(s.Plan.Eta)
	}
	k.change(k.put(c), func(ok bool) {
		if !ok {
			k.After(200*time.Millisecond, func() { k.make(i) })
			return
		}
		c.Created = wall(s.Now) + int64(s.Plan.Eta)
		k.make(i + 1)
	})
}

func (k *timekeeper) put(c *check.CronSchedule) *nornv1.ScheduleChange {
	return &nornv1.ScheduleChange{Name: c.Name, Action: &nornv1.ScheduleChange_Put{Put: &nornv1.PutSchedule{Spec: &nornv1.ScheduleSpec{
		Cron: c.Spec, History: cron.MaxHistory, Task: &nornv1.TaskSpec{Queue: cronQueue, Payload: []byte(fmt.Sprint(k.edits))},
	}}}}
}

// edit changes what does not change instants, again and again: the master and
// people write the same records.
func (k *timekeeper) edit() {
	if k.quiet {
		return
	}
	k.edits++
	k.change(k.put(k.specs[world.Pick(&k.S.World, k.names)]), func(ok bool) {
		if ok {
			k.S.Stats[stats.Settings]++
		}
		k.After(k.S.About(2*time.Second), k.edit)
	})
}

// change asks for one change, and hears whether it was made.
func (k *timekeeper) change(c *nornv1.ScheduleChange, done func(bool)) {
	k.Do(&nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{c}}, 10*time.Second, func(a *clients.Answer) {
		reply, ok := a.Message.(*nornv1.ChangeSchedulesReply)
		ok = ok && a.Fine() && len(reply.GetResults()) == 1
		if ok && reply.GetResults()[0].GetError() != nil {
			ok = false
		}
		done(ok)
	})
}

// heal ends the storm; after a healthy stretch all schedules are paused, so that
// the cluster can come to rest.
func (k *timekeeper) heal() {
	s, f := k.S, k.harm
	s.Healing, k.quiet = true, true
	s.Plan.Calm()
	s.Plan.Cluster.Calm()
	s.Note("the storm is over")
	f.Mend()
	for _, n := range f.Nodes {
		n.Steps, n.Armed, n.Clock.Off = 0, false, 0
	}
	s.After(10*time.Second, f.Tidy)
	s.After(10*time.Second, k.recover)
}

// recover waits until every node is up again: some are down for longer than the
// storm takes.
func (k *timekeeper) recover() {
	s := k.S
	if len(k.f.Alive()) < len(k.f.Nodes) {
		s.After(time.Second, k.recover)
		return
	}
	k.healed = s.Now
	s.After(recovered+healthy, func() { k.pause(0) })
}

func (k *timekeeper) pause(i int) {
	s := k.S
	if i == len(k.names) {
		s.After(5*time.Second, func() {
			k.end.WhenWhole(s.Now+int64(checks.Restless), "the cluster does not come to rest", func() { k.read(&readings{left: k.names}) })
		})
		return
	}
	c := k.specs[k.names[i]]
	if c.Ended == 0 {
		c.Ended = wall(s.Now) - int64(s.Plan.Eta)
	}
	k.change(&nornv1.ScheduleChange{Name: c.Name, Action: &nornv1.ScheduleChange_Pause{Pause: &nornv1.PauseSchedule{Paused: true}}}, func(ok bool) {
		if !ok {
			k.After(200*time.Millisecond, func() { k.pause(i) })
			return
		}
		k.pause(i + 1)
	})
}

// readings is what is read in the end.
type readings struct {
	left  []string
	begun map[string]map[string]int64 // by schedule and task
}

// read reads the histories, then the tasks.
func (k *timekeeper) read(r *readings) {
	if len(r.left) == 0 {
		k.list(r, nil)
		return
	}
	k.ask(&nornv1.SchedulesRequest{Names: r.left[:1], History: true}, func(m gproto.Message) {
		reply := m.(*nornv1.SchedulesReply)
		s := reply.GetSchedules()[0]
		c := k.specs[s.GetName()]
		if r.begun == nil {
			r.begun = map[string]map[string]int64{}
		}
		r.begun[c.Name] = map[string]int64{}
		for _, l := range s.GetHistory() {
			c.Told(l)
			if l.GetKind() == nornv1.LaunchKind_LAUNCH_KIND_LAUNCH {
				r.begun[c.Name][l.GetTaskId()] = l.GetBegun().AsTime().UnixNano()
			}
		}
		if n := len(s.GetHistory()); n == cron.MaxHistory {
			c.Forgotten = s.GetHistory()[n-1].GetInstant().AsTime().UnixNano()
		}
		r.left = r.left[1:]
		k.read(r)
	})
}

// ask asks until there is an answer.
func (k *timekeeper) ask(m gproto.Message, done func(gproto.Message)) {
	k.Do(m, 10*time.Second, func(a *clients.Answer) {
		if !a.Fine() {
			k.After(200*time.Millisecond, func() { k.ask(gproto.Clone(m), done) })
			return
		}
		done(a.Message)
	})
}

func (k *timekeeper) list(r *readings, cursor []byte) {
	k.ask(&nornv1.ListRequest{Queue: cronQueue, Limit: 200, Cursor: cursor}, func(m gproto.Message) {
		page := m.(*nornv1.ListReply)
		for _, t := range page.GetTasks() {
			c := k.specs[t.GetHeaders()[cron.HeaderSchedule]]
			at, err := time.Parse(time.RFC3339, t.GetHeaders()[cron.HeaderInstant])
			if c == nil || err != nil {
				k.S.Violation(check.CronStray, "task %s is of no schedule: %v", t.GetId(), t.GetHeaders())
				return
			}
			k.S.Stats[stats.Enqueues]++
			c.Launches = append(c.Launches, check.CronLaunch{Instant: at.UnixNano(), Task: t.GetId(), Begun: r.begun[c.Name][t.GetId()]})
		}
		if next := page.GetNextCursor(); len(next) > 0 {
			k.list(r, next)
			return
		}
		k.judge()
	})
}

// judge is the end of a run.
func (k *timekeeper) judge() {
	s := k.S
	var all []check.CronSchedule
	for _, name := range k.names {
		all = append(all, *k.specs[name])
	}
	found := check.Cron(all, check.CronOptions{
		// What is begun just before the pause of all of them may not be enqueued any more.
		Healthy:  []check.CronSkip{{From: wall(k.healed + int64(recovered)), To: all[0].Ended - 2*int64(cronDeadline)}},
		Deadline: cronDeadline, Limit: time.Hour,
	})
	for i := len(found) - 1; i >= 0; i-- {
		s.Note("%s: %s", found[i].Invariant, found[i].Text)
		s.Found = &found[i]
	}
	s.Ended = true
}

// calm tells what did not happen that would have had to.
func (k *timekeeper) calm() string {
	masters := uint64(0)
	for _, n := range k.f.Alive() {
		masters = max(masters, n.Peers.State().Master.Term)
	}
	switch {
	case k.S.Stats[stats.Enqueues] == 0:
		return "nothing was launched"
	case masters < 2:
		return "there was one master only"
	}
	return ""
}

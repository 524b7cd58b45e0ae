package sim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/node/core"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/jepsen/sim/checks"
	"github.com/norn-dev/norn/jepsen/sim/clients"
	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/jepsen/sim/faults"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/witness"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

// How much there is of everything in a crowd: more than any batch that nodes work in.
const (
	crowdWaits  = 420 // tasks that wait, for one of two others or for both
	crowdClaims = 330 // claims that are held
	crowdKeys   = 400 // tasks with unique keys
	crowdLong   = 40  // of those, with windows that are longer than gc-grace
	crowdNeeded = 80  // finished tasks that one needs which is not finished
	crowdFree   = 40  // that nothing needs, finished after those
	crowdRuled  = 40  // whose retention is changed while they are archived
	crowdLarge  = 90  // so large that the bytes end a page, in one seed of three
	crowdLog    = 45  // updates of one task
	crowdPlans  = 23  // schedules

	crowdWindow = 10 * time.Minute // no run takes so long
	crowdBatch  = 60               // tasks and claims of one request
	// crowdFor is how long whatever is to be done may take in a cluster of which one node
	// is down, or was a moment ago.
	crowdFor = time.Minute
)

// runCrowd runs one seed of a cluster that has hundreds of everything in one partition.
// Nothing goes wrong but that the partition changes its leader: when its tasks come to be
// ready, while its claims are held, and while what is finished is collected and forgotten.
func runCrowd(seed uint64, m Many) *Result {
	s := newSim(seed, m.Mutant)
	s.Tracing, s.Stop = m.Trace, m.Stop
	s.Plan = plan.DrawCluster(&s.World)
	s.Plan.Crowded(&s.World)
	o := check.Options{
		Partitions: s.Plan.Partitions, Slack: int64(10 * time.Second), Elected: true, Sessions: true, Lease: int64(plan.CrowdLease) / 2, Attempts: s.Plan.Work.Attempts,
		Skew: int64(s.Plan.Eta / 8), Retention: int64(s.Plan.Retention), Grace: int64(s.Plan.Grace),
	}
	s.Checker = check.New(o)
	s.Note("seed %d, a crowd: %+v", seed, s.Plan)
	f, harm := s.cluster()
	f.Leaders = witness.NewLeaders(f.Seen())
	for range s.Plan.Cluster.Nodes {
		f.Add()
	}
	f.Found(f.Nodes[0])
	for _, n := range f.Nodes[1:] {
		s.After(s.Between(time.Second, 4*time.Second), func() { f.Join(n) })
	}
	f.Gossip()
	f.Witness = witness.New(f.Seen())
	k := &crowd{Caller: s.NewCaller(), f: f, harm: harm, end: checks.NewEnding(s.People), of: ring.Partition(seed % 2), large: seed%3 == 0, ids: id.NewGenerator(s.Rnd.Uint32(), s.Rnd.Uint64)}
	s.Archives = k.archives
	k.end.WhenWhole(s.Now+int64(2*time.Minute), "the cluster never forms", func() {
		f.Forming, f.Whole = false, s.Now
		s.Begin()
		k.through([]func(func()){
			k.fill, k.rests, k.pages, k.take, // everything is there, and claims are held
			k.fall, k.freed, k.second, k.freed, // what waits goes on
			k.held, k.change, k.held, k.rests, // claims are known to whoever leads
			k.finish, k.fall, k.collected, k.keep, k.forgotten, k.rests,
		}, func() {
			s.Note("the crowd is gone")
			s.Ended = true
		})
	})
	s.Run()
	r := s.result(seed)
	r.Calm, r.Again = k.calm(), m.again(seed)
	if v := r.Violation; v != nil {
		if !v.Task.IsZero() {
			r.Detail = k.end.Facts(v.Task)
		}
		r.Detail = append(r.Detail, k.end.Roll()...)
	}
	return r
}

// crowd is who fills a cluster and looks what becomes of all that.
type crowd struct {
	*clients.Caller
	f       *nodes.Fleet
	harm    *faults.Nemesis
	end     *checks.Ending
	of      ring.Partition // where everything is
	ids     *id.Generator
	large   bool
	roots   [2]id.ID       // that the others wait for
	ended   int            // of those
	latch   id.ID          // that one task waits for to the end
	stays   map[id.ID]bool // until then
	ruled   map[id.ID]bool // tasks whose retention is changed
	kept    bool           // it was
	live    map[id.ID]bool // tasks of keys that were taken once more
	logged  id.ID          // the task with a log
	waits   []id.ID
	keyed   []*nornv1.TaskSpec // with unique keys
	all     []id.ID
	owned   []*clients.Work // claims that are held
	session uint64
	request uint64
	lost    []uint64 // claim requests without an answer
}

// through does one step after the other.
func (k *crowd) through(steps []func(func()), done func()) {
	if len(steps) == 0 {
		done()
		return
	}
	steps[0](func() { k.through(steps[1:], done) })
}

// sure asks until there is an answer.
func (k *crowd) sure(m gproto.Message, done func(*clients.Answer)) {
	k.Do(gproto.Clone(m), 10*time.Second, func(a *clients.Answer) {
		if !a.Fine() {
			k.After(200*time.Millisecond, func() { k.sure(m, done) })
			return
		}
		done(a)
	})
}

// until looks again and again whether something is so; what says what is not.
func (k *crowd) until(invariant string, what func() string, done func()) {
	end := k.S.Now + int64(crowdFor)
	var look func()
	look = func() {
		switch why := what(); {
		case why == "":
			done()
		case k.S.Now > end:
			k.S.Violation(invariant, "%v after the leader has changed: %s", crowdFor, why)
		default:
			k.After(500*time.Millisecond, look)
		}
	}
	look()
}

// next makes an ID in a partition.
func (k *crowd) next(p ring.Partition) id.ID {
	for {
		if i := k.ids.Next(k.Clock.Wall(k.S.Now)); ring.Of(i, k.S.Plan.Partitions) == p {
			return i
		}
	}
}

// task makes a task in the partition, or of a key anywhere.
func (k *crowd) task(queue string, deps ...id.ID) *nornv1.TaskSpec {
	t := &nornv1.TaskSpec{Id: k.next(k.of).Bytes(), Queue: queue, Payload: fmt.Appendf(nil, "%s %d", queue, len(k.all))}
	for _, d := range deps {
		t.Dependencies = append(t.Dependencies, d.Bytes())
	}
	k.all = append(k.all, convert.IDOf(t.Id))
	return t
}

// fill makes everything there is to be.
func (k *crowd) fill(done func()) {
	var specs []*nornv1.TaskSpec
	for i := range k.roots {
		t := k.task("roots")
		k.roots[i] = convert.IDOf(t.Id)
		specs = append(specs, t)
	}
	for i := range crowdWaits {
		t := k.task(fmt.Sprintf("waits%d", i%7), [][]id.ID{k.roots[:1], k.roots[1:], k.roots[:]}[i%3]...)
		k.waits = append(k.waits, convert.IDOf(t.Id))
		specs = append(specs, t)
	}
	for range crowdClaims {
		specs = append(specs, k.task("held"))
	}
	k.stays, k.ruled = map[id.ID]bool{}, map[id.ID]bool{}
	latch := k.task("latch")
	k.latch = convert.IDOf(latch.Id)
	needs := []id.ID{k.latch}
	for range crowdNeeded {
		t := k.task("kept")
		needs = append(needs, convert.IDOf(t.Id))
		specs = append(specs, t)
	}
	last := k.task("kept", needs...)
	for _, i := range append(needs, convert.IDOf(last.Id)) {
		k.stays[i] = true
	}
	specs = append(specs, latch, last)
	for range crowdFree {
		specs = append(specs, k.task("kept"))
	}
	for range crowdRuled {
		t := k.task("ruled")
		k.ruled[convert.IDOf(t.Id)] = true
		specs = append(specs, t)
	}
	for i := range crowdLarge {
		if !k.large {
			break
		}
		t := k.task("large")
		if t.Payload = make([]byte, 60<<10); i%4 == 0 {
			t.Id = k.next(1 - k.of).Bytes()
			k.all[len(k.all)-1] = convert.IDOf(t.Id)
		}
		specs = append(specs, t)
	}
	log := k.task("logged")
	k.logged = convert.IDOf(log.Id)
	specs = append(specs, log)
	for i := range crowdKeys {
		t := k.task("keys")
		t.Key = fmt.Sprintf("key%d", i)
		start := int64(0)
		if i%(crowdKeys/crowdLong) == 0 {
			t.KeyWindowSeconds = crowdWindow.Seconds()
			start = max(world.Origin+k.S.Now-(world.Origin+k.S.Now)%int64(crowdWindow), 1)
		}
		t.Id = id.UniqueKey([16]byte(nodes.ClusterID), t.Queue, t.Key, start, 0).Bytes()
		k.all[len(k.all)-1] = convert.IDOf(t.Id)
		k.keyed = append(k.keyed, t)
		specs = append(specs, t)
	}
	k.enqueue(specs, func() { k.plans(0, done) })
}

// plans makes schedules that launch nothing.
func (k *crowd) plans(i int, done func()) {
	if i == crowdPlans {
		done()
		return
	}
	spec := &nornv1.ScheduleSpec{Cron: "0 0 1 7 *", Task: &nornv1.TaskSpec{Queue: "plans"}}
	c := &nornv1.ScheduleChange{Name: fmt.Sprintf("plan%02d", i), Action: &nornv1.ScheduleChange_Put{Put: &nornv1.PutSchedule{Spec: spec}}}
	k.sure(&nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{c}}, func(*clients.Answer) { k.plans(i+1, done) })
}

// enqueue makes tasks, each until it is there.
func (k *crowd) enqueue(specs []*nornv1.TaskSpec, done func()) {
	if len(specs) == 0 {
		done()
		return
	}
	n := min(crowdBatch, len(specs))
	k.sure(&nornv1.EnqueueRequest{Tasks: specs[:n]}, func(a *clients.Answer) {
		var left []*nornv1.TaskSpec
		for i, r := range a.End.Items {
			if r.Error != "" {
				left = append(left, specs[i])
			}
			k.S.Stats[stats.Enqueues]++
		}
		pause := time.Duration(0)
		if len(left) > 0 {
			pause = 200 * time.Millisecond
		}
		k.After(pause, func() { k.enqueue(append(left, specs[n:]...), done) })
	})
}

// rests waits until all replicas are equal.
func (k *crowd) rests(done func()) {
	k.end.WhenWhole(k.S.Now+int64(checks.Restless), "the cluster does not come to rest", done)
}

// pages reads everything in pages of many sizes, and the log of one task, which is written
// first.
func (k *crowd) pages(done func()) {
	k.claim("logged", 1, func() {
		w := k.owned[0]
		var write func(seq uint64)
		write = func(seq uint64) {
			if seq < crowdLog {
				k.sure(&nornv1.UpdateRequest{Id: w.Task.Bytes(), Token: w.Token, Seq: seq, Data: fmt.Appendf(nil, "update %d", seq)}, func(*clients.Answer) { write(seq + 1) })
				return
			}
			k.rests(func() {
				waiting := []nornv1.State{nornv1.State_STATE_WAITING}
				odd := []uint32{9, 101}
				if k.large {
					odd = []uint32{57, 313}
				}
				clients.Pager{Caller: k.Caller}.Compare([]*clients.Paged{
					clients.TasksPaged("tasks", &nornv1.ListRequest{}, len(k.all), odd...),
					clients.TasksPaged("tasks of a queue", &nornv1.ListRequest{Queue: "waits3"}, crowdWaits/7, 1, 2, 7),
					clients.TasksPaged("tasks in a state", &nornv1.ListRequest{Queue: "waits4", States: waiting}, crowdWaits/7, 1, 2, 5),
					clients.TasksPaged("tasks in no state", &nornv1.ListRequest{Queue: "waits4", States: []nornv1.State{nornv1.State_STATE_DEAD}}, 0, 1),
					clients.TasksPaged("tasks of keys", &nornv1.ListRequest{Queue: "keys", IdsOnly: true}, crowdKeys, 2, 7),
					clients.QueuesPaged(14, 1, 2, 3, 5), clients.WorkersPaged(plan.CrowdHands, 1, 2, 3, 5), clients.SchedulesPaged(crowdPlans, 1, 2, 3, 7),
					clients.UpdatesPaged(k.logged.Bytes(), crowdLog, 1, 2, 7),
				}, done)
			})
		}
		write(0)
	})
}

// claim claims tasks of a queue, up to a number, or all there are.
func (k *crowd) claim(queue string, n int, done func()) {
	k.ask([]string{queue}, n, func(got int) {
		if got == 0 || got == n {
			done()
			return
		}
		k.claim(queue, n-got, done)
	})
}

// ask asks for tasks once.
func (k *crowd) ask(queues []string, n int, done func(got int)) {
	k.request++
	m := &nornv1.ClaimRequest{
		Queues: queues, MaxTasks: uint32(min(n, crowdBatch)), LeaseSeconds: plan.CrowdLease.Seconds(), Worker: "crowd", WaitSeconds: 1,
		Session: binary.BigEndian.AppendUint64(make([]byte, 8), k.session+1), RequestNo: k.request, Unanswered: slices.Clone(k.lost),
	}
	number := k.request
	k.Do(m, 10*time.Second, func(a *clients.Answer) {
		if !a.Fine() {
			k.lost = append(k.lost, number)
			k.After(300*time.Millisecond, func() { k.ask(queues, n, done) })
			return
		}
		k.lost = nil
		for i := range a.End.Items {
			g := &a.End.Items[i]
			k.S.Stats[stats.Grants]++
			k.owned = append(k.owned, &clients.Work{Task: g.Task, Token: g.Token, Until: g.Until})
		}
		done(len(a.End.Items))
	})
}

// take claims what the others wait for, and all that is to be held.
func (k *crowd) take(done func()) {
	k.claim("roots", len(k.roots), func() {
		k.claim("held", crowdClaims, func() {
			if n := len(k.owned); n != 1+len(k.roots)+crowdClaims {
				k.S.Violation(check.Stuck, "%d tasks were handed out, not %d", n, 1+len(k.roots)+crowdClaims)
			}
			done()
		})
	})
}

// change has the partition change its leader: it falls, or it is to leave the cluster with
// another one of those who keep it, so that two newcomers take their places.
func (k *crowd) change(done func()) {
	if k.S.Chance(0.5) {
		k.fall(done)
		return
	}
	cell := k.f.Cells[k.of]
	k.S.Note("partition %d is to have two other keepers", k.of)
	k.harm.Grow()
	k.harm.Grow()
	var gone []register.Member
	for _, m := range append([]register.Member{cell.Leader}, cell.Cohort...) {
		if n := k.f.Find(m); len(gone) < 2 && n.Up && !slices.Contains(gone, m) {
			gone = append(gone, m)
			k.harm.Leave(n)
		}
	}
	k.until(check.Stuck, func() string {
		now := &k.f.Cells[k.of]
		if k.leader() == nil || slices.ContainsFunc(gone, func(m register.Member) bool { return slices.Contains(now.Cohort, m) }) {
			return fmt.Sprintf("partition %d is kept by %v, and %v are to leave", k.of, witness.Names(now.Cohort), witness.Names(gone))
		}
		return ""
	}, done)
}

// fall has the leader of the partition die. The first time what others wait for is completed
// in the very moment.
func (k *crowd) fall(done func()) {
	cell := k.f.Cells[k.of]
	n := k.f.Find(cell.Leader)
	k.S.Note("partition %d is to have another leader than %s", k.of, n.Self.Node)
	n.Asleep = 8 * time.Second
	n.Crash()
	led := func() {
		k.until(check.Stuck, func() string {
			if k.f.Cells[k.of].Epoch == cell.Epoch || k.leader() == nil {
				return fmt.Sprintf("nobody else leads partition %d", k.of)
			}
			return ""
		}, done)
	}
	if k.ended > 0 {
		led()
		return
	}
	k.second(led)
}

// second completes the next one that others wait for.
func (k *crowd) second(done func()) {
	root := k.roots[k.ended]
	k.ended++
	i := slices.IndexFunc(k.owned, func(w *clients.Work) bool { return w.Task == root })
	w := k.owned[i]
	k.owned = slices.Delete(k.owned, i, i+1)
	k.complete([]*clients.Work{w}, done)
}

// complete completes tasks.
func (k *crowd) complete(all []*clients.Work, done func()) {
	if len(all) == 0 {
		done()
		return
	}
	n := min(crowdBatch, len(all))
	m := &nornv1.CompleteRequest{}
	for _, w := range all[:n] {
		m.Completions = append(m.Completions, &nornv1.Completion{Id: w.Task.Bytes(), Token: w.Token, AutoSeq: true, Result: clients.DoneBy(w.Task, w.Token, "crowd")})
	}
	k.sure(m, func(a *clients.Answer) {
		var left []*clients.Work
		for i, r := range a.End.Items {
			switch {
			case r.Error == "":
				k.S.Stats[stats.Completions]++
			default:
				left = append(left, all[i])
			}
		}
		pause := time.Duration(0)
		if len(left) > 0 {
			pause = 200 * time.Millisecond
		}
		k.After(pause, func() { k.complete(append(left, all[n:]...), done) })
	})
}

// leader is who leads the partition, or nil.
func (k *crowd) leader() *nodes.Node {
	n := k.f.Find(k.f.Cells[k.of].Leader)
	if n == nil || !n.Up || !core.Leads(n.Core, k.of) {
		return nil
	}
	return n
}

// freed: whatever waited for what is completed by now goes on.
func (k *crowd) freed(done func()) {
	k.until(check.Stuck, func() string {
		n := k.leader()
		if n == nil {
			return "nobody leads"
		}
		left := 0
		for _, pair := range vnode.Waiting(n.Disk.Mem, k.of, id.ID{}, id.ID{}, 10_000) {
			if slices.Contains(k.roots[:k.ended], pair.Dependency) {
				left++
			}
		}
		if left > 0 {
			return fmt.Sprintf("%d tasks still wait for what is completed", left)
		}
		return ""
	}, done)
}

// held: whoever leads now knows all claims, and renews them.
func (k *crowd) held(done func()) {
	k.renew(k.owned, done)
}

func (k *crowd) renew(all []*clients.Work, done func()) {
	if len(all) == 0 {
		done()
		return
	}
	n := min(crowdBatch, len(all))
	m := &nornv1.RenewRequest{}
	for _, w := range all[:n] {
		m.Claims = append(m.Claims, &nornv1.ClaimRef{Id: w.Task.Bytes(), Token: w.Token})
	}
	asked := k.S.Now
	k.Do(m, 5*time.Second, func(a *clients.Answer) {
		if !a.Fine() {
			k.After(200*time.Millisecond, func() { k.renew(all, done) })
			return
		}
		var left []*clients.Work
		for i, r := range a.End.Items {
			switch {
			case r.Error == "":
				k.S.Stats[stats.Renewals]++
				all[i].Until = max(all[i].Until, r.Until)
			case r.Error == "CLAIM_LOST" && all[i].Until > asked+int64(time.Second):
				k.S.Violation(check.Leader, "claim %d on task %s holds for another %v, and whoever leads by now says that it is lost: %s", all[i].Token, all[i].Task, time.Duration(all[i].Until-asked), r.Text)
			default:
				left = append(left, all[i])
			}
		}
		pause := time.Duration(0)
		if len(left) > 0 {
			pause = 200 * time.Millisecond
		}
		k.After(pause, func() { k.renew(append(left, all[n:]...), done) })
	})
}

// finish completes all there is, in turns: claims that are held, and what they free.
func (k *crowd) finish(done func()) {
	queues := []string{"kept", "keys", "roots", "logged", "held", "ruled", "large"}
	for i := range 7 {
		queues = append(queues, fmt.Sprintf("waits%d", i))
	}
	end := k.S.Now + int64(2*crowdFor)
	var turn func()
	turn = func() {
		mine := k.owned
		k.owned = nil
		k.complete(mine, func() {
			k.ask(queues, crowdBatch, func(got int) {
				if got == 0 && k.unfinished() == 2 { // the latch, and what waits for it
					done()
					return
				}
				if k.S.Now > end {
					k.S.Violation(check.Stuck, "%d tasks are not finished, and %d were handed out last", k.unfinished(), got)
					return
				}
				k.After(10*time.Millisecond, turn)
			})
		})
	}
	k.session++
	turn()
}

// unfinished counts what is not finished, at those who lead.
func (k *crowd) unfinished() (left int) {
	for _, n := range k.f.Alive() {
		for p := range k.S.Plan.Partitions {
			if p := ring.Partition(p); core.Leads(n.Core, p) {
				n.WalkPartition(p, func(d *vnode.Detail) bool {
					if d.Task.Enqueued != nil && !d.State.Finished() {
						left++
					}
					return true
				})
			}
		}
	}
	return left
}

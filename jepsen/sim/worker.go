package sim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

// worker claims tasks and works on several at a time, by the rules of package
// client: a claim request whose outcome is unknown is named by the next one, which
// has a number of its own, or (where the caller has chosen the number) repeated
// under its number; and a claim is believed in up to its deadline, counted from the sending of the
// request that was answered.
type worker struct {
	*caller
	name    string
	session [16]byte
	number  uint64
	slots   int
	lease   time.Duration
	jobs    []*work
	pending *nornv1.ClaimRequest // with an unknown outcome
	lost    []uint64             // numbers without an answer that are named by the next request
	again   bool                 // the number is the caller's: it stays
	asking  bool
	stopped bool
}

// work is a task under a claim.
type work struct {
	task  id.ID
	token uint64
	until int64 // true time
	seq   uint64
	lazy  bool // it is not renewed
	over  bool
}

func (s *sim) newWorker() *worker {
	w := &worker{caller: s.newCaller(), slots: 1 + s.Rnd.IntN(4), again: s.Chance(0.3) && !s.plan.Work.Quick}
	w.name = fmt.Sprintf("w%d", w.process)
	if s.rights != nil {
		w.by = w.name
	}
	binary.BigEndian.PutUint64(w.session[:], s.Rnd.Uint64())
	w.lease = max(s.Between(s.plan.Lease/2, 2*s.plan.Lease), time.Second)
	w.after(s.About(100*time.Millisecond), w.fetch)
	w.after(w.lease/3, w.renew)
	return w
}

// fetch claims as many tasks as there is room for.
func (w *worker) fetch() {
	room := w.slots - len(w.jobs)
	if w.asking || w.stopped || room <= 0 {
		return
	}
	s := w.s
	w.asking = true
	if w.pending == nil {
		w.number++
		w.pending = &nornv1.ClaimRequest{
			Queues: w.choose(), MaxTasks: uint32(room), LeaseSeconds: w.lease.Seconds(), Worker: w.name,
			Session: w.session[:], RequestNo: w.number,
		}
		if s.Chance(0.7) {
			w.pending.WaitSeconds = s.Between(time.Second, 10*time.Second).Seconds()
		}
		if s.fleet != nil && s.fleet.closing() { // only who waits can be forgotten
			w.pending.WaitSeconds = s.Between(2*drowsyFor, 3*drowsyFor).Seconds()
		}
	}
	p := w.pending
	m := &nornv1.ClaimRequest{
		Queues: slices.Clone(p.Queues), MaxTasks: p.MaxTasks, LeaseSeconds: p.LeaseSeconds, Worker: p.Worker,
		WaitSeconds: p.WaitSeconds, Session: slices.Clone(p.Session), RequestNo: p.RequestNo, Unanswered: slices.Clone(w.lost),
	}
	patience := time.Duration(m.WaitSeconds*1e9) + s.Between(200*time.Millisecond, 3*time.Second)
	w.do(m, patience, func(a *answer) { w.claimed(m, a) })
}

// claimed takes in what a claim request was answered, and asks again later.
func (w *worker) claimed(m *nornv1.ClaimRequest, a *answer) {
	s := w.s
	w.asking = false
	lonely := a.refused != nil && a.refused.Kind == nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE && a.refused.Guarantee != ""
	switch {
	case !w.again && lonely && !a.unknown && !w.forgets(): // the node may have taken back what others hold
		w.pending, w.lost = nil, append(w.lost, m.RequestNo)
		w.lost = w.lost[max(0, len(w.lost)-proto.MaxUnanswered):]
	case !a.unknown:
		w.pending, w.lost = nil, nil // known: the next request is another one
	case w.forgets():
		w.pending, w.lost = nil, nil // forgetful: what was granted has to lapse
	case !w.again:
		w.pending, w.lost = nil, append(w.lost, m.RequestNo)
		w.lost = w.lost[max(0, len(w.lost)-proto.MaxUnanswered):]
		s.stats[stats.Unanswered]++
	}
	if lonely && (s.plan.Work.Quick || s.Chance(0.5)) {
		w.leave()
	}
	if a.fine() {
		for i := range a.end.Items {
			g := &a.end.Items[i]
			s.stats[stats.Grants]++
			w.adopt(&work{task: g.Task, token: g.Token, until: g.Until})
		}
	}
	pause := s.About(20 * time.Millisecond)
	if !a.fine() {
		pause = s.About(500 * time.Millisecond)
	}
	w.after(pause, w.fetch)
}

// forgets draws whether a worker never says that a request had no answer.
func (w *worker) forgets() bool { return !w.s.plan.Work.Quick && w.s.Chance(0.1) }

// choose draws the queues of a request; in the calm all of them.
func (w *worker) choose() []string {
	all := w.s.plan.Queues
	if w.s.healing || w.s.Chance(0.5) {
		return slices.Clone(all)
	}
	return []string{world.Pick(&w.s.World, all)}
}

// adopt begins to work on a granted task.
func (w *worker) adopt(j *work) {
	s := w.s
	for _, o := range w.jobs {
		if o.task == j.task && o.token == j.token {
			o.until = max(o.until, j.until)
			return
		}
	}
	if j.until <= s.Now {
		s.stats[stats.TooLate]++
		return
	}
	w.jobs = append(w.jobs, j)
	s.board.claimed(j.task)
	tellClaim(s, j.task, j.token)
	j.lazy = s.Chance(s.plan.Work.Lazy)
	for at := s.About(w.lease / 4); s.Chance(0.5); at += s.About(w.lease / 8) {
		w.after(at, func() { w.update(j) })
	}
	w.after(w.effort(), func() { w.finish(j) })
	w.expire(j)
}

// effort is how long a job takes; in the calm not long.
func (w *worker) effort() time.Duration {
	if w.s.healing || w.s.plan.Work.Quick {
		return w.s.About(50 * time.Millisecond)
	}
	return min(w.s.About(w.lease/2), 2*w.lease)
}

// expire gives a job up at its deadline.
func (w *worker) expire(j *work) {
	w.s.At(j.until, func() {
		switch {
		case w.gone || j.over:
		case j.until > w.s.Now:
			w.expire(j) // it was renewed meanwhile
		default:
			w.s.stats[stats.GivenUp]++
			w.drop(j)
			if w.s.Chance(0.3) { // the work was done all the same
				w.complete(j)
			}
		}
	})
}

// drop ends the work on a task.
func (w *worker) drop(j *work) {
	j.over = true
	if i := slices.Index(w.jobs, j); i >= 0 {
		w.jobs = slices.Delete(w.jobs, i, i+1)
	}
	w.after(w.s.About(10*time.Millisecond), w.fetch)
}

// renew renews what is not neglected, in one request, every third of a lease.
func (w *worker) renew() {
	w.after(w.lease/3, w.renew)
	m := &nornv1.RenewRequest{}
	var jobs []*work
	for _, j := range w.jobs {
		if !j.lazy {
			jobs = append(jobs, j)
			m.Claims = append(m.Claims, &nornv1.ClaimRef{Id: j.task.Bytes(), Token: j.token})
		}
	}
	if len(jobs) == 0 {
		return
	}
	if w.s.Chance(0.3) {
		m.LeaseSeconds = max(w.s.Between(w.lease/2, 2*w.lease), time.Second).Seconds()
	}
	w.do(m, w.lease/3, func(a *answer) {
		if !a.fine() {
			return
		}
		for n := range a.end.Items {
			switch i := &a.end.Items[n]; i.Error {
			case "":
				w.s.stats[stats.Renewals]++
				jobs[n].until = max(jobs[n].until, i.Until)
			default:
				if !jobs[n].over {
					w.s.stats[stats.LostClaims]++
					w.drop(jobs[n])
				}
			}
		}
	})
}

// update appends to the log of a task, and repeats itself while the outcome is
// unknown.
func (w *worker) update(j *work) {
	if j.over {
		return
	}
	seq := j.seq
	j.seq++
	w.sendUpdate(j, seq, w.s.Chance(0.3), 5)
}

func (w *worker) sendUpdate(j *work, seq uint64, output bool, tries int) {
	data := fmt.Appendf(nil, "%s %d", w.name, seq)
	w.do(&nornv1.UpdateRequest{Id: j.task.Bytes(), Token: j.token, Seq: seq, Data: data, Output: output, Durability: w.s.durability()}, 2*time.Second, func(a *answer) {
		if a.fine() {
			w.s.stats[stats.Updates]++
			return
		}
		if tries > 1 {
			w.after(w.s.About(300*time.Millisecond), func() { w.sendUpdate(j, seq, output, tries-1) })
		}
	})
}

// finish does what a handler does in the end.
func (w *worker) finish(j *work) {
	s := w.s
	if j.over {
		return
	}
	plan := &s.plan.Work
	switch {
	case s.Chance(plan.Dies):
		w.perish()
		return
	case s.Chance(plan.Fails):
		w.fail(j)
	case !s.healing && !plan.Quick && s.Chance(0.1):
		w.release(j)
	case !s.healing && !plan.Quick && s.Chance(0.05):
		j.lazy = true // it hangs until its deadline
		return
	case !w.asking && !w.stopped && w.pending == nil && s.Chance(0.5):
		w.next(j)
	default:
		w.complete(j)
	}
	w.drop(j)
}

// perish is the end of the process: another one takes its place later.
func (w *worker) perish() {
	s := w.s
	s.stats[stats.Deaths]++
	w.die()
	s.record(&history.Event{Phase: history.Note, Func: history.Died, Process: w.process})
	for i, o := range s.workers {
		if o == w {
			s.workers = slices.Delete(s.workers, i, i+1)
			break
		}
	}
	s.After(s.About(2*time.Second), func() {
		if !s.stopping {
			s.workers = append(s.workers, s.newWorker())
		}
	})
}

// insist sends a write again while its outcome is unknown.
func (w *worker) insist(tries int, send func(done func(*answer))) {
	send(func(a *answer) {
		if !a.fine() && (tries > 1 || w.s.healing) && (a.unknown || a.end == nil || a.refused != nil) {
			w.after(w.s.About(500*time.Millisecond), func() { w.insist(tries-1, send) })
		}
	})
}

// doneBy is the result of a task: each claim has its own, so that one in the place of
// another is seen.
func doneBy(task id.ID, token uint64, worker string) []byte {
	return fmt.Appendf(nil, "%s %d %s", task, token, worker)
}

func (w *worker) complete(j *work) {
	auto := w.s.Chance(0.3)
	w.insist(4, func(done func(*answer)) {
		m := &nornv1.Completion{Id: j.task.Bytes(), Token: j.token, Seq: j.seq, AutoSeq: auto, Result: doneBy(j.task, j.token, w.name)}
		w.do(&nornv1.CompleteRequest{Completions: []*nornv1.Completion{m}, Durability: w.s.durability()}, 2*time.Second, func(a *answer) {
			if a.fine() && a.end.Items[0].Error == "" {
				w.s.stats[stats.Completions]++
			}
			done(a)
		})
	})
}

// next completes a task and asks for the next ones in one request. Its two parts are two
// operations: what is wrong with one of them leaves the other alone. What is unknown of the
// completion is sent again by itself.
func (w *worker) next(j *work) {
	s := w.s
	w.number++
	w.asking = true
	w.pending = &nornv1.ClaimRequest{
		Queues: w.choose(), MaxTasks: uint32(w.slots - len(w.jobs) + 1), LeaseSeconds: w.lease.Seconds(), Worker: w.name,
		Session: w.session[:], RequestNo: w.number, Unanswered: slices.Clone(w.lost),
	}
	claim := gproto.Clone(w.pending).(*nornv1.ClaimRequest)
	done := &nornv1.CompleteRequest{Durability: s.durability(), Completions: []*nornv1.Completion{
		{Id: j.task.Bytes(), Token: j.token, Seq: j.seq, Result: doneBy(j.task, j.token, w.name)},
	}}
	parts := []*call{
		{asked: convert.Invocation(done), weak: s.weak(done), done: func(a *answer) {
			switch {
			case a.fine() && a.end.Items[0].Error == "":
				s.stats[stats.Completions]++
			case a.fine() && a.refused == nil:
			default:
				w.after(s.About(500*time.Millisecond), func() { w.complete(j) })
			}
		}},
		{asked: convert.Invocation(claim), done: func(a *answer) { w.claimed(claim, a) }},
	}
	parts[0].asked.Weak = one(done)
	for _, k := range parts {
		k.stamp, k.asked.Process, k.asked.By = s.Now, w.process, w.by
		s.invoke(k.asked)
	}
	m := &nornv1.WorkRequest{Completions: done.Completions, Durability: done.Durability, Claim: claim}
	w.send(m, nil, s.Between(200*time.Millisecond, 3*time.Second), func(a *answer) {
		reply, ok := a.message.(*nornv1.WorkReply)
		if !ok || a.refused != nil {
			for _, k := range parts {
				if a.refused != nil {
					w.ended(k, &answer{refused: a.refused})
				} else {
					w.caller.finish(k, &answer{unknown: a.unknown}, "no answer")
				}
			}
			return
		}
		s.stats[stats.Works]++
		w.ended(parts[0], &answer{message: &nornv1.WriteReply{Results: reply.GetCompletions()}})
		if e := reply.GetClaimError(); e != nil {
			w.ended(parts[1], &answer{refused: proto.FromProto(e)})
			return
		}
		w.ended(parts[1], &answer{message: reply.GetClaim()})
	})
}

func (w *worker) fail(j *work) {
	s := w.s
	uncounted, discard, at := s.Chance(0.2), s.Chance(0.1), int64(0)
	if s.Chance(0.3) {
		at = w.clock.Wall(s.Now) + int64(s.Between(0, 4*time.Second))
	}
	w.insist(3, func(done func(*answer)) {
		m := &nornv1.Failure{Id: j.task.Bytes(), Token: j.token, Error: "it went wrong", Uncounted: uncounted, Discard: discard}
		if at != 0 {
			m.RetryAt = timestamppb.New(time.Unix(0, at))
		}
		w.do(&nornv1.FailRequest{Failures: []*nornv1.Failure{m}}, 2*time.Second, func(a *answer) {
			if a.fine() && a.end.Items[0].Error == "" {
				s.stats[stats.Failures]++
			}
			done(a)
		})
	})
}

func (w *worker) release(j *work) {
	w.insist(2, func(done func(*answer)) {
		m := &nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: j.task.Bytes(), Token: j.token}}}
		w.do(m, 2*time.Second, func(a *answer) {
			if a.fine() && a.end.Items[0].Error == "" {
				w.s.stats[stats.Releases]++
			}
			done(a)
		})
	})
}

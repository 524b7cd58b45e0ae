package clients

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
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

// worker claims tasks and works on several at a time, by the rules of package
// client: a claim request whose outcome is unknown is named by the next one, which
// has a number of its own, or (where the caller has chosen the number) repeated
// under its number; and a claim is believed in up to its deadline, counted from the sending of the
// request that was answered.
type worker struct {
	*Caller
	name    string
	session [16]byte
	number  uint64
	slots   int
	lease   time.Duration
	jobs    []*Work
	pending *nornv1.ClaimRequest // with an unknown outcome
	lost    []uint64             // numbers without an answer that are named by the next request
	again   bool                 // the number is the caller's: it stays
	asking  bool
	Stopped bool
}

// Work is a task under a claim.
type Work struct {
	Task  id.ID
	Token uint64
	Until int64 // true time
	seq   uint64
	lazy  bool // it is not renewed
	over  bool
}

func (s *People) newWorker() *worker {
	w := &worker{Caller: s.NewCaller(), slots: 1 + s.Rnd.IntN(4), again: s.Chance(0.3) && !s.Plan.Work.Quick}
	w.name = fmt.Sprintf("w%d", w.process)
	if s.Rights != nil {
		w.by = w.name
	}
	binary.BigEndian.PutUint64(w.session[:], s.Rnd.Uint64())
	w.lease = max(s.Between(s.Plan.Lease/2, 2*s.Plan.Lease), time.Second)
	w.After(s.About(100*time.Millisecond), w.fetch)
	w.After(w.lease/3, w.renew)
	return w
}

// fetch claims as many tasks as there is room for.
func (w *worker) fetch() {
	room := w.slots - len(w.jobs)
	if w.asking || w.Stopped || room <= 0 {
		return
	}
	s := w.S
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
		if s.Fleet != nil && s.Fleet.Closing { // only who waits can be forgotten
			w.pending.WaitSeconds = s.Between(2*run.DrowsyFor, 3*run.DrowsyFor).Seconds()
		}
	}
	p := w.pending
	m := &nornv1.ClaimRequest{
		Queues: slices.Clone(p.Queues), MaxTasks: p.MaxTasks, LeaseSeconds: p.LeaseSeconds, Worker: p.Worker,
		WaitSeconds: p.WaitSeconds, Session: slices.Clone(p.Session), RequestNo: p.RequestNo, Unanswered: slices.Clone(w.lost),
	}
	patience := time.Duration(m.WaitSeconds*1e9) + s.Between(200*time.Millisecond, 3*time.Second)
	w.Do(m, patience, func(a *Answer) { w.claimed(m, a) })
}

// claimed takes in what a claim request was answered, and asks again later.
func (w *worker) claimed(m *nornv1.ClaimRequest, a *Answer) {
	s := w.S
	w.asking = false
	lonely := a.Refused != nil && a.Refused.Kind == nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE && a.Refused.Guarantee != ""
	switch {
	case !w.again && lonely && !a.Unknown && !w.forgets(): // the node may have taken back what others hold
		w.pending, w.lost = nil, append(w.lost, m.RequestNo)
		w.lost = w.lost[max(0, len(w.lost)-proto.MaxUnanswered):]
	case !a.Unknown:
		w.pending, w.lost = nil, nil // known: the next request is another one
	case w.forgets():
		w.pending, w.lost = nil, nil // forgetful: what was granted has to lapse
	case !w.again:
		w.pending, w.lost = nil, append(w.lost, m.RequestNo)
		w.lost = w.lost[max(0, len(w.lost)-proto.MaxUnanswered):]
		s.Stats[stats.Unanswered]++
	}
	if lonely && (s.Plan.Work.Quick || s.Chance(0.5)) {
		w.Leave()
	}
	if a.Fine() {
		for i := range a.End.Items {
			g := &a.End.Items[i]
			s.Stats[stats.Grants]++
			w.adopt(&Work{Task: g.Task, Token: g.Token, Until: g.Until})
		}
	}
	pause := s.About(20 * time.Millisecond)
	if !a.Fine() {
		pause = s.About(500 * time.Millisecond)
	}
	w.After(pause, w.fetch)
}

// forgets draws whether a worker never says that a request had no answer.
func (w *worker) forgets() bool { return !w.S.Plan.Work.Quick && w.S.Chance(0.1) }

// choose draws the queues of a request; in the calm all of them.
func (w *worker) choose() []string {
	all := w.S.Plan.Queues
	if w.S.Healing || w.S.Chance(0.5) {
		return slices.Clone(all)
	}
	return []string{world.Pick(&w.S.World, all)}
}

// adopt begins to work on a granted task.
func (w *worker) adopt(j *Work) {
	s := w.S
	for _, o := range w.jobs {
		if o.Task == j.Task && o.Token == j.Token {
			o.Until = max(o.Until, j.Until)
			return
		}
	}
	if j.Until <= s.Now {
		s.Stats[stats.TooLate]++
		return
	}
	w.jobs = append(w.jobs, j)
	s.Board.Claimed(j.Task)
	tellClaim(s, j.Task, j.Token)
	j.lazy = s.Chance(s.Plan.Work.Lazy)
	for at := s.About(w.lease / 4); s.Chance(0.5); at += s.About(w.lease / 8) {
		w.After(at, func() { w.update(j) })
	}
	w.After(w.effort(), func() { w.finish(j) })
	w.expire(j)
}

// effort is how long a job takes; in the calm not long.
func (w *worker) effort() time.Duration {
	if w.S.Healing || w.S.Plan.Work.Quick {
		return w.S.About(50 * time.Millisecond)
	}
	return min(w.S.About(w.lease/2), 2*w.lease)
}

// expire gives a job up at its deadline.
func (w *worker) expire(j *Work) {
	w.S.At(j.Until, func() {
		switch {
		case w.gone || j.over:
		case j.Until > w.S.Now:
			w.expire(j) // it was renewed meanwhile
		default:
			w.S.Stats[stats.GivenUp]++
			w.drop(j)
			if w.S.Chance(0.3) { // the work was done all the same
				w.complete(j)
			}
		}
	})
}

// drop ends the work on a task.
func (w *worker) drop(j *Work) {
	j.over = true
	if i := slices.Index(w.jobs, j); i >= 0 {
		w.jobs = slices.Delete(w.jobs, i, i+1)
	}
	w.After(w.S.About(10*time.Millisecond), w.fetch)
}

// renew renews what is not neglected, in one request, every third of a lease.
func (w *worker) renew() {
	w.After(w.lease/3, w.renew)
	m := &nornv1.RenewRequest{}
	var jobs []*Work
	for _, j := range w.jobs {
		if !j.lazy {
			jobs = append(jobs, j)
			m.Claims = append(m.Claims, &nornv1.ClaimRef{Id: j.Task.Bytes(), Token: j.Token})
		}
	}
	if len(jobs) == 0 {
		return
	}
	if w.S.Chance(0.3) {
		m.LeaseSeconds = max(w.S.Between(w.lease/2, 2*w.lease), time.Second).Seconds()
	}
	w.Do(m, w.lease/3, func(a *Answer) {
		if !a.Fine() {
			return
		}
		for n := range a.End.Items {
			switch i := &a.End.Items[n]; i.Error {
			case "":
				w.S.Stats[stats.Renewals]++
				jobs[n].Until = max(jobs[n].Until, i.Until)
			default:
				if !jobs[n].over {
					w.S.Stats[stats.LostClaims]++
					w.drop(jobs[n])
				}
			}
		}
	})
}

// update appends to the log of a task, and repeats itself while the outcome is
// unknown.
func (w *worker) update(j *Work) {
	if j.over {
		return
	}
	seq := j.seq
	j.seq++
	w.sendUpdate(j, seq, w.S.Chance(0.3), 5)
}

func (w *worker) sendUpdate(j *Work, seq uint64, output bool, tries int) {
	data := fmt.Appendf(nil, "%s %d", w.name, seq)
	w.Do(&nornv1.UpdateRequest{Id: j.Task.Bytes(), Token: j.Token, Seq: seq, Data: data, Output: output, Durability: w.S.Durability()}, 2*time.Second, func(a *Answer) {
		if a.Fine() {
			w.S.Stats[stats.Updates]++
			return
		}
		if tries > 1 {
			w.After(w.S.About(300*time.Millisecond), func() { w.sendUpdate(j, seq, output, tries-1) })
		}
	})
}

// finish does what a handler does in the end.
func (w *worker) finish(j *Work) {
	s := w.S
	if j.over {
		return
	}
	plan := &s.Plan.Work
	switch {
	case s.Chance(plan.Dies):
		w.perish()
		return
	case s.Chance(plan.Fails):
		w.fail(j)
	case !s.Healing && !plan.Quick && s.Chance(0.1):
		w.release(j)
	case !s.Healing && !plan.Quick && s.Chance(0.05):
		j.lazy = true // it hangs until its deadline
		return
	case !w.asking && !w.Stopped && w.pending == nil && s.Chance(0.5):
		w.next(j)
	default:
		w.complete(j)
	}
	w.drop(j)
}

// perish is the end of the process: another one takes its place later.
func (w *worker) perish() {
	s := w.S
	s.Stats[stats.Deaths]++
	w.die()
	s.Record(&history.Event{Phase: history.Note, Func: history.Died, Process: w.process})
	for i, o := range s.Workers {
		if o == w {
			s.Workers = slices.Delete(s.Workers, i, i+1)
			break
		}
	}
	s.After(s.About(2*time.Second), func() {
		if !s.Stopping {
			s.Workers = append(s.Workers, s.newWorker())
		}
	})
}

// insist sends a write again while its outcome is unknown.
func (w *worker) insist(tries int, send func(done func(*Answer))) {
	send(func(a *Answer) {
		if !a.Fine() && (tries > 1 || w.S.Healing) && (a.Unknown || a.End == nil || a.Refused != nil) {
			w.After(w.S.About(500*time.Millisecond), func() { w.insist(tries-1, send) })
		}
	})
}

// DoneBy is the result of a task: each claim has its own, so that one in the place of
// another is seen.
func DoneBy(task id.ID, token uint64, worker string) []byte {
	return fmt.Appendf(nil, "%s %d %s", task, token, worker)
}

func (w *worker) complete(j *Work) {
	auto := w.S.Chance(0.3)
	w.insist(4, func(done func(*Answer)) {
		m := &nornv1.Completion{Id: j.Task.Bytes(), Token: j.Token, Seq: j.seq, AutoSeq: auto, Result: DoneBy(j.Task, j.Token, w.name)}
		w.Do(&nornv1.CompleteRequest{Completions: []*nornv1.Completion{m}, Durability: w.S.Durability()}, 2*time.Second, func(a *Answer) {
			if a.Fine() && a.End.Items[0].Error == "" {
				w.S.Stats[stats.Completions]++
			}
			done(a)
		})
	})
}

// next completes a task and asks for the next ones in one request. Its two parts are two
// operations: what is wrong with one of them leaves the other alone. What is unknown of the
// completion is sent again by itself.
func (w *worker) next(j *Work) {
	s := w.S
	w.number++
	w.asking = true
	w.pending = &nornv1.ClaimRequest{
		Queues: w.choose(), MaxTasks: uint32(w.slots - len(w.jobs) + 1), LeaseSeconds: w.lease.Seconds(), Worker: w.name,
		Session: w.session[:], RequestNo: w.number, Unanswered: slices.Clone(w.lost),
	}
	claim := gproto.Clone(w.pending).(*nornv1.ClaimRequest)
	done := &nornv1.CompleteRequest{Durability: s.Durability(), Completions: []*nornv1.Completion{
		{Id: j.Task.Bytes(), Token: j.Token, Seq: j.seq, Result: DoneBy(j.Task, j.Token, w.name)},
	}}
	parts := []*call{
		{asked: convert.Invocation(done), weak: s.Weak(done), done: func(a *Answer) {
			switch {
			case a.Fine() && a.End.Items[0].Error == "":
				s.Stats[stats.Completions]++
			case a.Fine() && a.Refused == nil:
			default:
				w.After(s.About(500*time.Millisecond), func() { w.complete(j) })
			}
		}},
		{asked: convert.Invocation(claim), done: func(a *Answer) { w.claimed(claim, a) }},
	}
	parts[0].asked.Weak = run.One(done)
	for _, k := range parts {
		k.stamp, k.asked.Process, k.asked.By = s.Now, w.process, w.by
		s.Invoke(k.asked)
	}
	m := &nornv1.WorkRequest{Completions: done.Completions, Durability: done.Durability, Claim: claim}
	w.Send(m, nil, s.Between(200*time.Millisecond, 3*time.Second), func(a *Answer) {
		reply, ok := a.Message.(*nornv1.WorkReply)
		if !ok || a.Refused != nil {
			for _, k := range parts {
				if a.Refused != nil {
					w.ended(k, &Answer{Refused: a.Refused})
				} else {
					w.Caller.finish(k, &Answer{Unknown: a.Unknown}, "no answer")
				}
			}
			return
		}
		s.Stats[stats.Works]++
		w.ended(parts[0], &Answer{Message: &nornv1.WriteReply{Results: reply.GetCompletions()}})
		if e := reply.GetClaimError(); e != nil {
			w.ended(parts[1], &Answer{Refused: proto.FromProto(e)})
			return
		}
		w.ended(parts[1], &Answer{Message: reply.GetClaim()})
	})
}

func (w *worker) fail(j *Work) {
	s := w.S
	uncounted, discard, at := s.Chance(0.2), s.Chance(0.1), int64(0)
	if s.Chance(0.3) {
		at = w.Clock.Wall(s.Now) + int64(s.Between(0, 4*time.Second))
	}
	w.insist(3, func(done func(*Answer)) {
		m := &nornv1.Failure{Id: j.Task.Bytes(), Token: j.Token, Error: "it went wrong", Uncounted: uncounted, Discard: discard}
		if at != 0 {
			m.RetryAt = timestamppb.New(time.Unix(0, at))
		}
		w.Do(&nornv1.FailRequest{Failures: []*nornv1.Failure{m}}, 2*time.Second, func(a *Answer) {
			if a.Fine() && a.End.Items[0].Error == "" {
				s.Stats[stats.Failures]++
			}
			done(a)
		})
	})
}

func (w *worker) release(j *Work) {
	w.insist(2, func(done func(*Answer)) {
		m := &nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: j.Task.Bytes(), Token: j.Token}}}
		w.Do(m, 2*time.Second, func(a *Answer) {
			if a.Fine() && a.End.Items[0].Error == "" {
				w.S.Stats[stats.Releases]++
			}
			done(a)
		})
	})
}

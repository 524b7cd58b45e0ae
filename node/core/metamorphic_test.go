package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// deed is one thing that clients do, whatever cluster they do it to.
type deed struct {
	kind, task, node, number int
	spec                     *nornv1.TaskSpec
}

const (
	doEnqueue = iota
	doClaim
	doComplete
	doFail
	doDiscard
	doUpdate
	doRelease
	doCancel
	doRetry
	doWait
	doDisturb
	deeds
)

// deedsOf draws what is done. Each task is in a queue of its own, so that a claim says
// which task is meant.
func deedsOf(seed uint64) (all []deed) {
	rnd := rand.New(rand.NewPCG(seed, 77))
	ids := id.NewGenerator(9, rnd.Uint64)
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	var specs []*nornv1.TaskSpec
	for n := range 200 {
		d := deed{kind: rnd.IntN(deeds), node: rnd.IntN(60), number: n}
		if d.kind == doCancel && rnd.IntN(4) > 0 {
			d.kind = doClaim
		}
		if d.kind == doEnqueue || len(specs) < 4 {
			d.kind = doEnqueue
			s := spec(fmt.Sprintf("q%d", len(specs)))
			s.Id, s.Priority = ids.Next(base).Bytes(), int32(rnd.IntN(5))-2
			s.Payload = fmt.Appendf(nil, "payload %d", n)
			s.Retry = &nornv1.RetryPolicy{MaxAttempts: uint32(1 + rnd.IntN(3))}
			s.OnDependencyFailure = []nornv1.DependencyFailure{nornv1.DependencyFailure_DEPENDENCY_FAILURE_CANCEL, nornv1.DependencyFailure_DEPENDENCY_FAILURE_RUN}[rnd.IntN(2)]
			if len(specs) > 0 && rnd.IntN(3) == 0 {
				s.Dependencies = [][]byte{specs[rnd.IntN(len(specs))].Id}
			}
			if rnd.IntN(8) == 0 {
				s.NotBefore = timestamppb.New(time.Unix(0, base).Add(2 * time.Hour))
			}
			d.spec, d.task = s, len(specs)
			specs = append(specs, s)
		} else {
			d.task = rnd.IntN(len(specs))
			d.spec = specs[d.task]
		}
		all = append(all, d)
	}
	return all
}

// world is a cluster that deeds are done to.
type world struct {
	*trio
	need   nornv1.WriteLevel
	tokens map[int]uint64 // the newest, by task
	seqs   map[int]uint64 // of its next update
}

// do asks until there is an answer other than that it cannot be said now.
func (w *world) do(i int, m gproto.Message) gproto.Message {
	w.t.Helper()
	for range 100 {
		from := w.send(i, m)
		for range 100 {
			w.settle()
			if _, ok := w.peers[i].replies[from]; ok {
				break
			}
			w.live(50*time.Millisecond, 10*time.Millisecond, nothing)
		}
		reply, ok := w.peers[i].replies[from]
		e := refusedWith(reply.Message, reply.Err)
		if ok && (e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE) {
			return reply.Message
		}
		w.live(50*time.Millisecond, 10*time.Millisecond, nothing)
	}
	w.t.Fatalf("no answer to %v", m)
	return nil
}

// disturb has another node lead, or a node die and start again.
func (w *world) disturb(d deed) {
	i := d.node % len(w.peers)
	if d.number%2 == 0 {
		w.lead(i)
		return
	}
	w.kill(i)
	w.live(time.Second, 50*time.Millisecond, nothing)
	w.open(i)
	w.elect()
}

func (w *world) run(d deed, calm bool) {
	i, task := d.node%len(w.peers), d.spec.Id
	need := &nornv1.Durability{Level: w.need}
	token := w.tokens[d.task]
	failure := &nornv1.Failure{Id: task, Token: token, Error: fmt.Sprintf("it went wrong (%d)", d.number), RetryAt: timestamppb.New(time.Unix(0, w.now.Wall)), Discard: d.kind == doDiscard}
	switch d.kind {
	case doEnqueue:
		w.do(i, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{gproto.CloneOf(d.spec)}, Durability: need})
	case doClaim:
		reply, _ := w.do(i, &nornv1.ClaimRequest{Queues: []string{d.spec.Queue}, MaxTasks: 1, Worker: "w", LeaseSeconds: 3600, WaitSeconds: 3}).(*nornv1.ClaimReply)
		for _, g := range reply.GetGrants() {
			w.tokens[d.task], w.seqs[d.task] = g.Token, 0
		}
	case doCancel:
		w.do(i, &nornv1.CancelRequest{Ids: [][]byte{task}, Reason: fmt.Sprintf("not wanted (%d)", d.number), Durability: need})
	case doRetry:
		w.do(i, &nornv1.RetryRequest{Ids: [][]byte{task}})
	case doWait:
		w.live(time.Second, 100*time.Millisecond, nothing)
	case doDisturb:
		if !calm {
			w.disturb(d)
		}
	default:
		if token == 0 {
			return
		}
		switch d.kind {
		case doComplete:
			w.do(i, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task, Token: token, AutoSeq: true, Result: fmt.Appendf(nil, "result %d", d.number)}}, Durability: need})
		case doFail, doDiscard:
			w.do(i, &nornv1.FailRequest{Failures: []*nornv1.Failure{failure}})
		case doRelease:
			w.do(i, &nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: task, Token: token}}})
		case doUpdate:
			w.do(i, &nornv1.UpdateRequest{Id: task, Token: token, Seq: w.seqs[d.task], Data: fmt.Appendf(nil, "update %d", d.number), Durability: need})
			w.seqs[d.task]++
		}
	}
}

// dump is what a node says of a task, without what is of this cluster: its tokens and times.
func (w *world) dump(i int, d deed) string {
	reply, ok := w.do(i, &nornv1.GetRequest{Id: d.spec.Id}).(*nornv1.GetReply)
	if !ok {
		return "unknown"
	}
	t := reply.Task
	var b strings.Builder
	fmt.Fprintf(&b, "%v priority %d attempts %d of %d retries %d %q %q %q after %v;", t.State, t.Priority, t.Attempts, t.MaxAttempts, t.Retries, t.Payload, t.Result, t.Error, t.Dependencies)
	slices.SortFunc(t.Claims, func(a, b *nornv1.Claim) int { return int(int64(a.Token) - int64(b.Token)) })
	for n, c := range slices.DeleteFunc(t.Claims, func(c *nornv1.Claim) bool { return c.Outcome == nornv1.ClaimOutcome_CLAIM_OUTCOME_RELEASED }) {
		fmt.Fprintf(&b, " claim %d %v", n, c.Outcome)
	}
	for _, u := range t.Updates {
		fmt.Fprintf(&b, " %d %q", u.Seq, u.Data)
	}
	return b.String()
}

// TestTheSameOnOneNodeAndMore: what clients have done leaves the same tasks behind on one
// node, on three and on five, whatever number of copies they wait for, and whoever
// leads, dies and comes back meanwhile.
func TestTheSameOnOneNodeAndMore(t *testing.T) {
	for seed := range uint64(2) {
		all := deedsOf(seed)
		tasks := slices.Clone(all)
		tasks = slices.DeleteFunc(tasks, func(d deed) bool { return d.kind != doEnqueue })
		var want []string
		for n, v := range []struct {
			nodes int
			need  nornv1.WriteLevel
			calm  bool
		}{
			{1, nornv1.WriteLevel_WRITE_LEVEL_QUORUM, true},
			{1, nornv1.WriteLevel_WRITE_LEVEL_QUORUM, false},
			{3, nornv1.WriteLevel_WRITE_LEVEL_ONE, true},
			{3, nornv1.WriteLevel_WRITE_LEVEL_QUORUM, false},
			{3, nornv1.WriteLevel_WRITE_LEVEL_ALL, false},
			{5, nornv1.WriteLevel_WRITE_LEVEL_QUORUM, false},
		} {
			w := &world{trio: newWorld(t, v.nodes), need: v.need, tokens: map[int]uint64{}, seqs: map[int]uint64{}}
			for _, d := range all {
				w.run(d, v.calm)
			}
			w.live(3*time.Hour, time.Minute, nothing)
			w.elect() // in steps as long as these nobody leads for long
			w.live(10*time.Second, 100*time.Millisecond, nothing)
			states := map[string]int{}
			for at, d := range tasks {
				for i := range w.peers {
					got := w.dump(i, d)
					if n == 0 {
						want = append(want, got)
						states[strings.Fields(got)[0]]++
					} else if got != want[at] {
						t.Errorf("seed %d, %d nodes (%v, calm %v), task %d by node %d:\n%s\ninstead of\n%s", seed, v.nodes, v.need, v.calm, at, i+1, got, want[at])
					}
				}
			}
			if n == 0 && len(states) < 3 {
				t.Errorf("seed %d: all tasks are %v", seed, states)
			}
		}
	}
}

// newWorld keeps finished tasks for long.
func newWorld(t *testing.T, nodes int) *trio {
	keep := func(p int) []int {
		if nodes == 1 {
			return []int{0}
		}
		return []int{p % nodes, (p + 1) % nodes, (p + 2) % nodes}
	}
	return newCohorts(t, nodes, 30*time.Second, keep)
}

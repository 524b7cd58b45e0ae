package convert

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// DiskRetry is the advice when the disk is full: space does not come back by
// itself.
const DiskRetry = 5 * time.Second

// Enqueued turns a checked wire spec into the enqueue fact, with the retry policy
// frozen in.
func Enqueued(t *nornv1.TaskSpec, def crdt.Retry) (crdt.Enqueued, *proto.Error) {
	var bad *proto.Error
	e := crdt.Enqueued{
		Queue: t.GetQueue(), Priority: t.GetPriority(), Payload: t.GetPayload(),
		OnDepFailure: crdt.OnDepFailure(t.GetOnDependencyFailure()),
		Retry:        def, Key: t.GetKey(), KeyWindow: int64(proto.Seconds(t.GetKeyWindowSeconds())),
	}
	for _, b := range t.GetDependencies() {
		e.Dependencies = append(e.Dependencies, id.ID(b))
	}
	slices.SortFunc(e.Dependencies, id.ID.Compare)
	e.Dependencies = slices.Compact(e.Dependencies)
	if r := t.GetRetry(); r != nil {
		e.Retry = Retry(def, r)
	}
	if ts := t.GetNotBefore(); ts != nil {
		e.NotBefore = ts.AsTime().UnixNano()
	}
	for k, v := range t.GetHeaders() {
		e.Headers = append(e.Headers, crdt.Header{Key: k, Value: v})
	}
	slices.SortFunc(e.Headers, func(a, b crdt.Header) int { return strings.Compare(a.Key, b.Key) })
	e.Further, bad = UnknownOfSpec(t)
	return e, bad
}

// Retry lets what the client asked for replace the defaults.
func Retry(def crdt.Retry, r *nornv1.RetryPolicy) crdt.Retry {
	out := def
	out.FromQueue = false
	if r.GetMaxAttempts() != 0 {
		out.MaxAttempts = r.GetMaxAttempts()
	}
	if s := r.GetInitialSeconds(); s != 0 {
		out.Initial = proto.Seconds(s)
	}
	if s := r.GetMaxSeconds(); s != 0 {
		out.Max = proto.Seconds(s)
	}
	if m := r.GetMultiplier(); m != 0 {
		out.Multiplier = uint32(math.Round(m * 1000))
	}
	if j := r.GetJitter(); j != 0 {
		out.Jitter = uint32(math.Round(j * 1000))
	}
	return out
}

// FillReceipt fills in the receipt of a task that is on this disk alone.
func FillReceipt(r *nornv1.Receipt, task id.ID, p ring.Partition, existed bool) {
	r.Id, r.Copies, r.DurableCopies = task.String(), 1, 1
	r.Partition, r.Existed = uint32(p), existed
}

// Timestamp is a wall clock time in ns as clients see it; nil for 0.
func Timestamp(wall int64) *timestamppb.Timestamp {
	if wall == 0 {
		return nil
	}
	return &timestamppb.Timestamp{Seconds: wall / 1e9, Nanos: int32(wall % 1e9)}
}

// shownClaims is how many of a task's claims are shown, the newest: one that was claimed
// and given back all the time would fit no frame any more, so that it could be neither
// read nor granted, and whoever asked for its queue would get an error.
const shownClaims = vnode.MaxClaims

// Task is a task as clients see it, with the newest updates up to a number
// of bytes.
func Task(d *vnode.Detail, updateBytes int) *nornv1.Task {
	t := d.Task
	w := &nornv1.Task{
		Id: t.ID.String(), State: nornv1.State(d.State),
		Attempts: uint32(t.Attempts()), CreatedAt: Timestamp(t.ID.Nanos()),
		NotBefore: Timestamp(t.NotBefore()), Error: t.Error(),
		Retries: t.Retries(), FinishedAt: Timestamp(t.FinishedAt()),
	}
	if e := t.Enqueued; e != nil {
		w.Queue, w.Payload, w.Priority, w.MaxAttempts = e.Queue, e.Payload, e.Priority, e.Retry.MaxAttempts
		if e.Admission != 0 {
			w.CreatedAt = Timestamp(e.Admission)
		}
		w.OnDependencyFailure, w.Key = nornv1.DependencyFailure(e.OnDepFailure), e.Key
		w.KeyWindowSeconds = time.Duration(e.KeyWindow).Seconds()
		for _, dep := range e.Dependencies {
			w.Dependencies = append(w.Dependencies, dep.String())
		}
		if len(e.Headers) > 0 {
			w.Headers = make(map[string]string, len(e.Headers))
			for _, h := range e.Headers {
				w.Headers[h.Key] = h.Value
			}
		}
		w.FurtherSpec, w.Kind, w.Tags = e.Further, proto.KindOf(e.Further), proto.TagsOf(e.Further)
	}
	for i := max(0, len(d.Claims)-shownClaims); i < len(d.Claims); i++ {
		w.Claims = append(w.Claims, Claim(&d.Claims[i]))
	}
	for i := range d.Attempts {
		w.AttemptLog = append(w.AttemptLog, Attempt(&d.Attempts[i]))
	}
	for _, u := range newest(d.Log, updateBytes) {
		w.Updates = append(w.Updates, Update(&u))
	}
	if done := t.Completion(); done != nil {
		w.CompletedAt, w.Result, w.FurtherCompletion = Timestamp(done.At), done.Result, crdt.WithoutRun(done.Further)
	}
	w.FurtherFailure, w.FurtherCancel, w.FurtherRetry = t.Further()
	return w
}

// Update is an update of a task as clients see it.
func Update(u *crdt.Update) *nornv1.Update {
	return &nornv1.Update{Token: u.Token, Seq: u.Seq, Data: u.Data, At: Timestamp(u.At), Further: u.Further}
}

// newest cuts older updates off, so that a task with a long log still fits an
// answer. The newest one always stays: it is the checkpoint.
func newest(updates []crdt.Update, limit int) []crdt.Update {
	for i := len(updates) - 1; i >= 0; i-- {
		if limit -= len(updates[i].Data) + len(updates[i].Further) + 64; limit < 0 && i < len(updates)-1 {
			return updates[i+1:]
		}
	}
	return updates
}

// Claim is a claim as clients see it.
func Claim(r *claim.Record) *nornv1.Claim {
	return &nornv1.Claim{
		Token: r.Token, Worker: r.Worker, Start: Timestamp(r.Start), End: Timestamp(r.End),
		Outcome: nornv1.ClaimOutcome(r.Outcome) + 1, Principal: r.Principal,
	}
}

// Attempt is an attempt that has ended as clients see it.
func Attempt(a *crdt.Attempt) *nornv1.Attempt {
	w := &nornv1.Attempt{
		Number: a.Number, Token: a.Token, Worker: a.Worker, Start: Timestamp(a.Start), End: Timestamp(a.End),
		Outcome: nornv1.ClaimOutcome_CLAIM_OUTCOME_COMPLETED, Counted: a.Counted, Principal: a.Principal, CompletedBy: a.Completer,
	}
	switch a.By {
	case crdt.KindFailed:
		w.Outcome = nornv1.ClaimOutcome_CLAIM_OUTCOME_FAILED
		w.Error, w.Stack = proto.SplitError(a.Error)
	case crdt.KindExpired:
		w.Outcome = nornv1.ClaimOutcome_CLAIM_OUTCOME_EXPIRED
		w.Error = "its lease ended: the worker was killed, hung, or was out of reach for longer than the lease"
	}
	if a.Start != 0 {
		w.DurationSeconds = time.Duration(max(a.End-a.Start, 0)).Seconds()
	}
	if a.Ready != 0 {
		w.WaitSeconds = time.Duration(max(a.Start-a.Ready, 0)).Seconds()
	}
	return w
}

// Grant is a claim as its worker hears of it. What it needs of the log is
// the checkpoint; of the rest it gets so many bytes.
func Grant(d *vnode.Detail, eta time.Duration, updateBytes int) *nornv1.Grant {
	r := &d.Claims[len(d.Claims)-1]
	w := Task(d, updateBytes)
	if n := len(w.Updates); n == 1 && len(w.Updates[0].Data)+len(w.Updates[0].Further) > updateBytes {
		w.Updates = nil
	}
	return &nornv1.Grant{
		Task: w, Token: r.Token, LeaseSeconds: r.Lease.Seconds(),
		Start: Timestamp(r.Start), End: Timestamp(r.End), EtaSeconds: eta.Seconds(),
		Checkpoint: d.Checkpoint,
	}
}

// Count is how many tasks of a queue are in each state, as clients see it.
func Count(name string, n *vnode.Counts) *nornv1.Count {
	return &nornv1.Count{
		Queue: name, Waiting: n[crdt.StateWaiting], Scheduled: n[crdt.StateScheduled],
		Ready: n[crdt.StateReady], Claimed: n[crdt.StateClaimed], Completed: n[crdt.StateCompleted],
		Dead: n[crdt.StateDead], Cancelled: n[crdt.StateCancelled], Total: n.Total(),
	}
}

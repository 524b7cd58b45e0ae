package conformance

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// result is what came of a step; with an error what came beside it.
type result = map[string]any

type operation func(ctx context.Context, r *run, c *client.Client, s Step, with args) (result, error)

// operations are the words of the list.
func operations() map[string]operation {
	return map[string]operation{
		"id": doID, "enqueue": doEnqueue, "enqueue_many": doEnqueueMany, "claim": doClaim, "renew": doRenew, "update": doUpdate,
		"complete": doComplete, "fail": doFail, "release": doRelease, "work": doWork, "get": doGet, "cancel": doCancel,
		"retry": doRetry, "count": doCount, "seen": doSeen, "worker": doWorker,
	}
}

// args are what a step is given.
type args struct{ m map[string]any }

func (a args) text(name string) string {
	if v, ok := a.m[name]; ok {
		return fmt.Sprint(v)
	}
	return ""
}

func (a args) number(name string) float64 { n, _ := number(a.m[name]); return n }
func (a args) flag(name string) bool      { b, _ := a.m[name].(bool); return b }

func (a args) list(name string) []string {
	all, _ := a.m[name].([]any)
	out := make([]string, 0, len(all))
	for _, v := range all {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// kindOf is the kind of an error as the wire names it.
func kindOf(err error) string {
	var said *proto.Error
	if errors.As(err, &said) {
		name := strings.TrimPrefix(said.Kind.String(), "ERROR_KIND_")
		if _, known := nornv1.ErrorKind_value["ERROR_KIND_"+name]; known && said.Kind != 0 {
			return name
		}
		return "INTERNAL"
	}
	for _, k := range []struct {
		is   error
		name string
	}{
		{client.ErrInvalid, "INVALID_ARGUMENT"},
		{id.ErrMalformed, "INVALID_ARGUMENT"},
		{client.ErrInternal, "INTERNAL"},
		{client.ErrDeadline, "DEADLINE_EXCEEDED"},
		{client.ErrUnavailable, "UNAVAILABLE"},
	} {
		if errors.Is(err, k.is) {
			return k.name
		}
	}
	return err.Error()
}

func unknown(err error) bool { return errors.Is(err, client.ErrUnknown) }

func state(s nornv1.State) string { return strings.TrimPrefix(s.String(), "STATE_") }

// judged is the result of one item of a batch.
func judged(r client.Result) (result, error) {
	return result{"existed": r.Receipt.GetExisted(), "state": state(r.State)}, r.Err
}

// single is the same of a batch of one.
func single(all []client.Result, err error) (result, error) {
	if err != nil {
		return nil, err
	}
	return judged(all[0])
}

func doID(_ context.Context, _ *run, _ *client.Client, _ Step, with args) (result, error) {
	task, err := id.Parse(with.text("text"))
	if err != nil {
		return nil, err
	}
	return result{"hex": hex.EncodeToString(task.Bytes()), "text": task.String(), "partition": int(ring.Of(task, int(with.number("partitions"))))}, nil
}

// task is a task as a step says.
func (r *run) task(with args) client.Task {
	t := client.Task{
		Queue: r.queue, Payload: []byte(with.text("payload")), Priority: int32(with.number("priority")), Kind: with.text("kind"),
		Tags: with.list("tags"), Key: with.text("key"), Delay: seconds(with.number("delay")),
	}
	if q := with.text("queue"); q != "" {
		t.Queue = q
	}
	if n := int(with.number("size")); n > 0 {
		t.Payload = slices.Repeat([]byte{'x'}, n)
	}
	if n := with.number("max_attempts"); n > 0 {
		t.Retry = &nornv1.RetryPolicy{MaxAttempts: uint32(n)}
	}
	for _, name := range with.list("dependencies") {
		t.Dependencies = append(t.Dependencies, r.tasks[name])
	}
	if headers, ok := with.m["headers"].(map[string]any); ok {
		t.Headers = map[string]string{}
		for name, v := range headers { // Any order: it is a map again.
			t.Headers[name] = fmt.Sprint(v)
		}
	}
	return t
}

func doEnqueue(ctx context.Context, r *run, c *client.Client, s Step, with args) (result, error) {
	receipt, err := c.Enqueue(ctx, r.task(with))
	if err != nil {
		return nil, err
	}
	r.tasks[s.As], err = id.Parse(receipt.GetId())
	return result{"existed": receipt.GetExisted()}, err
}

func doEnqueueMany(ctx context.Context, r *run, c *client.Client, _ Step, with args) (result, error) {
	var tasks []client.Task
	all, _ := with.m["tasks"].([]any)
	for _, one := range all {
		m, _ := one.(map[string]any)
		tasks = append(tasks, r.task(args{m}))
	}
	got, err := c.EnqueueMany(ctx, tasks)
	return result{"results": listed(got)}, err
}

func listed(all []client.Result) []any {
	var out []any
	for _, one := range all {
		m, err := judged(one)
		if err != nil {
			m["error"], m["unknown"] = kindOf(err), unknown(err)
		}
		out = append(out, m)
	}
	return out
}

// granted names claims and says what they are.
func (r *run) granted(as string, claims []*client.Claim) result {
	r.claims[as] = claims
	payloads, checkpoints := []any{}, []any{}
	for _, one := range claims {
		payloads = append(payloads, string(one.Grant.GetTask().GetPayload()))
		checkpoints = append(checkpoints, string(one.Grant.GetCheckpoint()))
	}
	out := result{"claims": len(claims), "payloads": payloads, "checkpoints": checkpoints}
	if len(claims) > 0 {
		out["left"] = time.Until(claims[0].Deadline).Seconds()
		r.seqs[claims[0].ID] = 0
	}
	return out
}

func doClaim(ctx context.Context, r *run, c *client.Client, s Step, with args) (result, error) {
	claims, err := c.Claim(ctx, client.ClaimRequest{
		Queues: []string{r.queue}, Max: int(with.number("max")), Lease: seconds(with.number("lease")), Wait: seconds(with.number("wait")), Worker: "conformance",
	})
	if err != nil {
		return nil, err
	}
	return r.granted(s.As, claims), nil
}

// claim is the first of the claims that a step names.
func (r *run) claim(with args) *client.Claim {
	if all := r.claims[with.text("claim")]; len(all) > 0 {
		return all[0]
	}
	return &client.Claim{}
}

func doRenew(ctx context.Context, r *run, c *client.Client, _ Step, with args) (result, error) {
	claim := r.claim(with)
	got, err := c.Renew(ctx, []client.Ref{claim.Ref()}, seconds(with.number("lease")))
	if err != nil {
		return nil, err
	}
	claim.Deadline = got[0].Deadline
	return result{"left": time.Until(claim.Deadline).Seconds(), "state": state(got[0].State)}, got[0].Err
}

func doUpdate(ctx context.Context, r *run, c *client.Client, _ Step, with args) (result, error) {
	claim := r.claim(with)
	receipt, err := c.Update(ctx, claim.ID, claim.Token, r.seqs[claim.ID], []byte(with.text("data")))
	if err != nil {
		return nil, err
	}
	r.seqs[claim.ID]++
	return result{"existed": receipt.GetExisted()}, nil
}

func doComplete(ctx context.Context, r *run, c *client.Client, _ Step, with args) (result, error) {
	claim := r.claim(with)
	seq := r.seqs[claim.ID]
	receipt, err := c.Complete(ctx, claim.ID, claim.Token, client.CompleteOptions{Seq: &seq, Result: []byte(with.text("result"))})
	if err != nil {
		return nil, err
	}
	return result{"existed": receipt.GetExisted()}, nil
}

func doFail(ctx context.Context, r *run, c *client.Client, _ Step, with args) (result, error) {
	claim := r.claim(with)
	after, err := c.Fail(ctx, claim.ID, claim.Token, client.FailOptions{
		Error: with.text("error"), RetryIn: seconds(with.number("retry_in")), Uncounted: with.flag("uncounted"), Discard: with.flag("discard"),
	})
	return result{"state": state(after)}, err
}

func doRelease(ctx context.Context, r *run, c *client.Client, _ Step, with args) (result, error) {
	return single(c.Release(ctx, r.claim(with).Ref()))
}

func doWork(ctx context.Context, r *run, c *client.Client, s Step, with args) (result, error) {
	claim := r.claim(with)
	got, err := c.Work(ctx, client.WorkRequest{
		Completions: []*nornv1.Completion{{Id: claim.ID.Bytes(), Token: claim.Token, Seq: r.seqs[claim.ID], Result: []byte(with.text("result"))}},
		Claim:       &client.ClaimRequest{Queues: []string{r.queue}, Worker: "conformance"},
	})
	if err != nil {
		return nil, err
	}
	out := r.granted(s.As, got.Claims)
	out["completed"] = listed(got.Completions)
	return out, got.ClaimErr
}

func doGet(ctx context.Context, r *run, c *client.Client, _ Step, with args) (result, error) {
	task := r.tasks[with.text("task")]
	if text := with.text("text"); text != "" {
		var err error
		if task, err = id.Parse(text); err != nil {
			return nil, err
		}
	}
	t, err := c.Get(ctx, task)
	if err != nil {
		return nil, err
	}
	updates, tags, headers := []any{}, []any{}, map[string]any{}
	for _, u := range t.GetUpdates() {
		updates = append(updates, string(u.GetData()))
	}
	for _, tag := range t.GetTags() {
		tags = append(tags, tag)
	}
	for name, v := range t.GetHeaders() { // Any order: it is a map again.
		headers[name] = v
	}
	return result{
		"state": state(t.GetState()), "payload": string(t.GetPayload()), "size": len(t.GetPayload()), "attempts": t.GetAttempts(),
		"result": string(t.GetResult()), "error": t.GetError(), "updates": updates, "kind": t.GetKind(), "tags": tags, "headers": headers,
		"priority": t.GetPriority(), "max_attempts": t.GetMaxAttempts(), "claims": len(t.GetClaims()),
	}, nil
}

func doCancel(ctx context.Context, r *run, c *client.Client, _ Step, with args) (result, error) {
	return single(c.Cancel(ctx, []id.ID{r.tasks[with.text("task")]}, client.CancelOptions{Reason: with.text("reason")}))
}

func doRetry(ctx context.Context, r *run, c *client.Client, _ Step, with args) (result, error) {
	return single(c.Retry(ctx, []id.ID{r.tasks[with.text("task")]}))
}

func doCount(ctx context.Context, r *run, c *client.Client, _ Step, _ args) (result, error) {
	m, err := c.Count(ctx, r.queue)
	if err != nil {
		return nil, err
	}
	n := m.GetTotal()
	return result{
		"waiting": n.GetWaiting(), "scheduled": n.GetScheduled(), "ready": n.GetReady(), "claimed": n.GetClaimed(), "completed": n.GetCompleted(),
		"dead": n.GetDead(), "cancelled": n.GetCancelled(), "total": n.GetTotal(),
	}, nil
}

func doSeen(_ context.Context, r *run, _ *client.Client, _ Step, _ args) (result, error) {
	out := result{}
	for name, n := range r.liar.Seen() { // Any order: it is a map again.
		out[name] = n
	}
	return out, nil
}

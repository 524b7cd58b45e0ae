package record

import (
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// State is a task's state as a history has it.
func State(s nornv1.State) history.State {
	if s == 0 {
		return ""
	}
	return history.State(strings.ToLower(strings.TrimPrefix(s.String(), "STATE_")))
}

// Parse gives the zero ID for what is none: the checker will say so.
func Parse(text string) id.ID {
	i, _ := id.Parse(text)
	return i
}

// SpecOf is a task as it is asked for.
func SpecOf(t *client.Task) *history.Spec {
	s := &history.Spec{Queue: t.Queue, Priority: t.Priority, Payload: history.Digest(t.Payload), Deps: slices.Clone(t.Dependencies), Key: t.Key, Window: int64(t.KeyWindow)}
	s.OnFailure, s.MaxAttempts = onFailure(t.OnDependencyFailure), t.Retry.GetMaxAttempts()
	slices.SortFunc(s.Deps, id.ID.Compare)
	return s
}

// onFailure is what happens to a task whose dependency fails, as a history has
// it.
func onFailure(d nornv1.DependencyFailure) string {
	if d == nornv1.DependencyFailure_DEPENDENCY_FAILURE_CANCEL {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(d.String(), "DEPENDENCY_FAILURE_"))
}

// Seen is a task as it was shown. Of a collected one there is no spec.
func Seen(t *nornv1.Task) history.Item {
	i := history.Item{Task: Parse(t.GetId()), State: State(t.GetState()), Attempts: t.GetAttempts(), Text: t.GetError(), Data: history.Digest(t.GetResult())}
	if t.GetQueue() == "" {
		return i
	}
	i.Spec = &history.Spec{
		Queue: t.GetQueue(), Priority: t.GetPriority(), Payload: history.Digest(t.GetPayload()), MaxAttempts: t.GetMaxAttempts(),
		Key: t.GetKey(), Window: int64(t.GetKeyWindowSeconds() * float64(time.Second)), OnFailure: onFailure(t.GetOnDependencyFailure()),
	}
	for _, d := range t.GetDependencies() {
		i.Spec.Deps = append(i.Spec.Deps, Parse(d))
	}
	slices.SortFunc(i.Spec.Deps, id.ID.Compare)
	for _, c := range t.GetClaims() {
		i.Claims = append(i.Claims, history.ClaimSeen{
			Token: c.GetToken(), Worker: c.GetWorker(),
			Outcome: strings.ToLower(strings.TrimPrefix(c.GetOutcome().String(), "CLAIM_OUTCOME_")),
		})
	}
	for _, u := range t.GetUpdates() {
		i.Log = append(i.Log, history.Entry{Token: u.GetToken(), Seq: u.GetSeq(), Data: history.Digest(u.GetData())})
	}
	return i
}

// Results are the parts of an answer to a batch.
func Results(asked *history.Event, all []client.Result) (items []history.Item) {
	for n, r := range all {
		i := history.Item{Task: asked.Items[n].Task, State: State(r.State), Existed: r.Receipt.GetExisted()}
		if r.Receipt != nil {
			i.Task = Parse(r.Receipt.GetId())
		}
		if r.Err != nil {
			i.Error, i.Text, i.Unsure = Kind(r.Err), r.Err.Error(), Unknown(r.Err)
		}
		items = append(items, i)
	}
	return items
}

// Tallies are the counters of an answer.
func Tallies(c *nornv1.CountReply) (all []history.Tally) {
	for _, n := range append([]*nornv1.Count{c.GetTotal()}, c.GetQueues()...) {
		all = append(all, history.Tally{Queue: n.GetQueue(), Total: n.GetTotal(), Counts: map[history.State]uint64{
			history.Waiting: n.GetWaiting(), history.Scheduled: n.GetScheduled(), history.Ready: n.GetReady(), history.Claimed: n.GetClaimed(),
			history.Completed: n.GetCompleted(), history.Dead: n.GetDead(), history.Cancelled: n.GetCancelled(),
		}})
	}
	return all
}

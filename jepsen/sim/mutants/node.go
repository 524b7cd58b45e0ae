package mutants

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/store"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

// OfOne are nodes that break one promise each, now and then. The names say
// what they do.
func OfOne() []nodes.Mutant {
	return slices.Concat(lossy(), unruly(), liars())
}

// lossy nodes forget.
func lossy() []nodes.Mutant {
	return []nodes.Mutant{
		{Name: "answers before the sync", NoSync: true, Breaks: []string{check.Lost, check.Undone, check.Phantom, check.Token, check.Overlap, check.Counting}},
		{Name: "a key of the disk rots", Crash: rot, Breaks: []string{run.Audit, check.Internal, check.Lost, check.Undone, check.StateRule}},
		{Name: "acknowledges completions and does nothing", Event: swallow[*nornv1.CompleteRequest](acknowledge), Breaks: []string{check.Undone, check.Lost, check.StateRule, check.Stuck}},
		{Name: "acknowledges cancellations and does nothing", Event: swallow[*nornv1.CancelRequest](acknowledge), Breaks: []string{check.Undone, check.Lost, check.StateRule}},
		{Name: "acknowledges updates and does nothing", Event: swallow[*nornv1.UpdateRequest](acknowledge), Breaks: []string{check.Lost}},
		{Name: "collects too early", Config: func(c *core.Config) { c.Retention.After, c.CollectInterval = time.Millisecond, 10*time.Millisecond },
			Breaks: []string{check.Collected, check.Content, check.Counting, check.Lost, check.StateRule}},
		{Name: "never answers some claims", Reply: silence, Breaks: []string{"replies", "wake-up"}},
		{Name: "leaves claims lying", Event: swallow[*nornv1.ClaimRequest](nil), Breaks: []string{"replies", "wake-up"}},
	}
}

// unruly nodes do what they should not, or too early.
func unruly() []nodes.Mutant {
	return []nodes.Mutant{
		{Name: "its monotonic clock runs four times as fast", Clock: hurry, Breaks: []string{check.Overlap, check.Lost}},
		{Name: "holds tasks back for a day", Event: each(later), Breaks: []string{check.Stuck}},
		{Name: "has no buffer and half the lease", Event: each(func(r *nornv1.ClaimRequest) { r.LeaseSeconds = max(1, r.LeaseSeconds/4) }),
			Config: func(c *core.Config) { c.Buffer = 0 }, Reply: grants(func(g *nornv1.Grant) { g.LeaseSeconds *= 4 }), Breaks: []string{check.Overlap, check.Lost}},
		{Name: "hands a grant out twice", Reply: twice, Breaks: []string{check.Token, check.Overlap, check.Undone, check.Content}},
		{Name: "worst task first", Event: each(upsideDown), Reply: shown(func(_ *nodes.Node, t *nornv1.Task) { t.Priority = -t.Priority }), Breaks: []string{check.Order}},
		{Name: "forgets dependencies", Event: each(independent), Reply: shown(dependent), Breaks: []string{check.Dependency}},
		{Name: "tries what has failed again at once", Event: failures(func(f *nornv1.Failure) {
			if f.RetryAt == nil {
				f.RetryAt = timestamppb.New(time.Unix(0, 1))
			}
		}), Breaks: []string{check.Early}},
		{Name: "does not hear for how long a task is put off", Event: failures(func(f *nornv1.Failure) { f.RetryAt = nil }), Breaks: []string{check.Early}},
		{Name: "keeps what is thrown away", Event: failures(func(f *nornv1.Failure) { f.Discard = false }), Breaks: []string{check.StateRule}},
		{Name: "hands out before the time", Event: each(sooner), Breaks: []string{check.Early}},
		{Name: "does not pause", Event: each(func(r *nornv1.SetQueueRequest) { r.Settings.Paused = false }), Breaks: []string{check.Paused}},
		{Name: "does not drain", Event: each(func(r *nornv1.SetQueueRequest) { r.Settings.Draining = false }), Breaks: []string{check.Paused}},
	}
}

// liars say what is not.
func liars() []nodes.Mutant {
	return []nodes.Mutant{
		{Name: "changes payloads", Reply: grants(func(g *nornv1.Grant) { g.Task.Payload[0]++ }), Breaks: []string{check.Content}},
		{Name: "leaves out what it does not know", Event: each(ignorant), Breaks: []string{check.Content}},
		{Name: "keeps no results", Event: each(resultless), Breaks: []string{check.Content}},
		{Name: "gives tokens out that fall", Reply: grants(func(g *nornv1.Grant) { g.Token = 1<<40 - g.Token }), Breaks: []string{check.Token, check.Lost}},
		{Name: "hides an update", Reply: shown(gap), Breaks: []string{check.Contiguous, check.Lost}},
		{Name: "hides a task from lists", Reply: shortList, Breaks: []string{check.Counting}},
		{Name: "counts no attempts", Reply: shown(func(_ *nodes.Node, t *nornv1.Task) { t.Attempts = 0 }), Breaks: []string{check.StateRule}},
		{Name: "counts one too many", Reply: miscount, Breaks: []string{check.Counting}},
		{Name: "says that everything is new", Reply: brandNew, Breaks: []string{check.Lost}},
		{Name: "answers twice", Reply: answerTwice, Breaks: []string{"replies"}},
		{Name: "shows dead tasks as ready", Reply: shown(func(_ *nodes.Node, t *nornv1.Task) {
			if t.State == nornv1.State_STATE_DEAD {
				t.State = nornv1.State_STATE_READY
			}
		}), Breaks: []string{check.Undone, check.StateRule, check.Stuck}},
		{Name: "refuses and does it all the same", Reply: refuse, Breaks: []string{check.Honesty, check.Counting}},
	}
}

// hurry makes the monotonic clock of a node run four times as fast.
func hurry(n *nodes.Node, now clock.Time) clock.Time {
	now.Mono += 3 * (now.Mono - n.Clock.First)
	return now
}

// each changes the requests of one kind.
func each[M gproto.Message](change func(M)) func(*nodes.Node, any) bool {
	return func(_ *nodes.Node, event any) bool {
		if r, ok := event.(*message.Request); ok {
			if m, ok := r.Body.(M); ok {
				change(m)
			}
		}
		return true
	}
}

// failures changes what workers say of tasks that have failed.
func failures(change func(*nornv1.Failure)) func(*nodes.Node, any) bool {
	return each(func(r *nornv1.FailRequest) {
		for _, f := range r.Failures {
			change(f)
		}
	})
}

// swallow drops some requests of one kind, and answers them itself.
func swallow[M gproto.Message](answer func(*nodes.Node, *message.Request)) func(*nodes.Node, any) bool {
	return func(n *nodes.Node, event any) bool {
		r, ok := event.(*message.Request)
		if !ok {
			return true
		}
		if _, ok := r.Body.(M); !ok || n.S.Rnd.IntN(5) > 0 {
			return true
		}
		if answer != nil {
			answer(n, r)
		}
		return false
	}
}

// acknowledge answers a write as if it had been done.
func acknowledge(n *nodes.Node, r *message.Request) {
	reply := &nornv1.WriteReply{}
	for _, i := range convert.Invocation(r.Body).Items {
		reply.Results = append(reply.Results, &nornv1.WriteResult{Receipt: &nornv1.Receipt{Id: i.Task.String()}})
	}
	n.Send(message.Reply{To: r.From, Message: reply})
}

// rot deletes a key somewhere on the disk.
func rot(n *nodes.Node) {
	var keys [][]byte
	for key := range n.Disk.Scan(nil, nil) {
		keys = append(keys, append([]byte(nil), key...))
	}
	if len(keys) > 0 {
		b := &store.Batch{}
		b.Delete(world.Pick(&n.S.World, keys))
		n.Disk.Write(b)
		n.Disk.Secure(n.Disk.Applied)
	}
}

// grants changes one grant in three.
func grants(change func(*nornv1.Grant)) func(*nodes.Node, *message.Reply) bool {
	return func(n *nodes.Node, r *message.Reply) bool {
		if m, ok := r.Message.(*nornv1.ClaimReply); ok {
			for _, g := range m.Grants {
				if len(g.Task.Payload) > 0 && n.S.Rnd.IntN(3) == 0 {
					change(g)
				}
			}
		}
		return true
	}
}

// shown changes every task that is shown.
func shown(change func(*nodes.Node, *nornv1.Task)) func(*nodes.Node, *message.Reply) bool {
	return func(n *nodes.Node, r *message.Reply) bool {
		switch m := r.Message.(type) {
		case *nornv1.GetReply:
			change(n, m.Task)
		case *nornv1.ListReply:
			for _, t := range m.Tasks {
				change(n, t)
			}
		case *nornv1.ClaimReply:
			for _, g := range m.Grants {
				change(n, g.Task)
			}
		}
		return true
	}
}

func silence(n *nodes.Node, r *message.Reply) bool {
	m, ok := r.Message.(*nornv1.ClaimReply)
	return !ok || len(m.Grants) == 0 || n.S.Rnd.IntN(5) > 0
}

// twice gives the grants of one request to another one too.
func twice(n *nodes.Node, r *message.Reply) bool {
	m, ok := r.Message.(*nornv1.ClaimReply)
	if !ok {
		return true
	}
	if len(m.Grants) > 0 {
		n.S.LastGrants = m.Grants
	} else if n.S.Rnd.IntN(3) == 0 {
		m.Grants = n.S.LastGrants
	}
	return true
}

func upsideDown(r *nornv1.EnqueueRequest) {
	for _, t := range r.Tasks {
		t.Priority = -t.Priority
	}
}

func independent(r *nornv1.EnqueueRequest) {
	for _, t := range r.Tasks {
		t.Dependencies = nil
	}
}

// dependent shows the dependencies that were forgotten.
func dependent(n *nodes.Node, t *nornv1.Task) {
	if j := n.S.Board.ByID[convert.Parse(t.Id)]; j != nil && t.Queue != "" {
		t.Dependencies = nil
		for _, d := range j.Deps {
			t.Dependencies = append(t.Dependencies, d.String())
		}
	}
}

func sooner(r *nornv1.EnqueueRequest) {
	for _, t := range r.Tasks {
		if t.NotBefore != nil {
			t.NotBefore.Seconds -= 10
		}
	}
}

func later(r *nornv1.EnqueueRequest) {
	for _, t := range r.Tasks {
		if t.NotBefore != nil {
			t.NotBefore.Seconds += 24 * 3600
		}
	}
}

func gap(_ *nodes.Node, t *nornv1.Task) {
	if len(t.Updates) > 1 {
		t.Updates = slices.Delete(slices.Clone(t.Updates), 0, 1)
	}
}

func shortList(n *nodes.Node, r *message.Reply) bool {
	if m, ok := r.Message.(*nornv1.ListReply); ok && len(m.Tasks) > 2 {
		m.Tasks = slices.Delete(m.Tasks, 1, 2)
	}
	return true
}

func miscount(n *nodes.Node, r *message.Reply) bool {
	if m, ok := r.Message.(*nornv1.CountReply); ok {
		m.Total.Ready++
		m.Total.Total++
	}
	return true
}

func brandNew(_ *nodes.Node, r *message.Reply) bool {
	if m, ok := r.Message.(*nornv1.EnqueueReply); ok {
		for _, res := range m.Results {
			if res.Receipt != nil {
				res.Receipt.Existed = false
			}
		}
	}
	return true
}

func answerTwice(n *nodes.Node, r *message.Reply) bool {
	if n.S.Rnd.IntN(20) == 0 && n.Conns[r.To.Conn] != nil && n.Asked[r.To] != nil {
		delete(n.Asked, r.To)
	}
	return true
}

// refuse says of some enqueues that they have failed.
func refuse(n *nodes.Node, r *message.Reply) bool {
	if m, ok := r.Message.(*nornv1.EnqueueReply); ok && n.S.Rnd.IntN(5) == 0 {
		for _, res := range m.Results {
			res.Receipt = nil
			res.Error = &nornv1.Error{Kind: nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT, Message: "no", Effect: nornv1.Effect_EFFECT_NONE}
		}
	}
	return true
}

// ignorant leaves out the fields that newer clients have added to tasks.
func ignorant(r *nornv1.EnqueueRequest) {
	for _, t := range r.GetTasks() {
		t.ProtoReflect().SetUnknown(nil)
		if t.GetRetry() != nil {
			t.GetRetry().ProtoReflect().SetUnknown(nil)
		}
	}
}

// resultless drops what came of tasks.
func resultless(r *nornv1.CompleteRequest) {
	for _, d := range r.GetCompletions() {
		d.Result = nil
	}
}

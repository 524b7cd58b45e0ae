package attention

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Bounds from which on something needs somebody.
const (
	// waitsLong is how long the oldest task of a queue that is worked on may be ready.
	waitsLong = 5 * time.Minute
	// asksOften is how long ago somebody without a session may have asked for tasks.
	asksOften = time.Minute
	// late is by how much a schedule may be.
	late = 30 * time.Second
	// told is how many concerns of one kind are told.
	told = 50
)

// Concerns is what needs somebody, the worst first.
func Concerns(v *View) []*nornv1.Concern {
	var all []*nornv1.Concern
	for _, judge := range []func(*View) []*nornv1.Concern{
		register, partitions, nodes, moves, paused, noWorker, dying, waiting, scheduled, troubled,
	} {
		all = append(all, short(judge(v))...)
	}
	slices.SortStableFunc(all, worse)
	return all
}

// worse orders concerns: by severity, then kind, then how many tasks they are about.
func worse(a, b *nornv1.Concern) int {
	return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Subject, b.Subject))
}

// short leaves out what is one too many of a kind, and says so.
func short(all []*nornv1.Concern) []*nornv1.Concern {
	slices.SortStableFunc(all, worse)
	var out []*nornv1.Concern
	seen := make(map[nornv1.ConcernKind]int)
	for _, c := range all {
		if seen[c.Kind]++; seen[c.Kind] <= told {
			out = append(out, c)
		}
	}
	for i, c := range slices.Backward(out) {
		if more := seen[c.Kind] - told; more > 0 {
			page, _, _ := strings.Cut(strings.TrimPrefix(c.Link, "#/"), "/")
			page, _, _ = strings.Cut(page, "?")
			seen[c.Kind] = 0
			out = slices.Insert(out, i+1, &nornv1.Concern{
				Kind: c.Kind, Severity: c.Severity, Text: fmt.Sprintf("%d more like these", more), Action: "look through the list", Link: "#/" + page,
			})
		}
	}
	return out
}

// link is a place of the dashboard.
func link(page, name string, params ...string) string {
	at := "#/" + page
	if name != "" {
		at += "/" + url.PathEscape(name)
	}
	q := url.Values{}
	for i := 0; i+1 < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	if len(q) > 0 {
		at += "?" + q.Encode()
	}
	return at
}

// number writes how many of something there are.
func number[N uint64 | uint32 | int](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// span writes a time as people do: to the second, or to the minute from an hour on.
func span(d time.Duration) string {
	if d >= time.Hour {
		return d.Round(time.Minute).String()[:len(d.Round(time.Minute).String())-2]
	}
	return d.Round(time.Second).String()
}

// seconds is a time of the wire.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// register tells of a register without a majority.
func register(v *View) []*nornv1.Concern {
	if r := v.Status.GetRegister(); r == nil || r.GetMajority() {
		return nil
	}
	return []*nornv1.Concern{{
		Kind: nornv1.ConcernKind_CONCERN_KIND_NO_MAJORITY, Severity: nornv1.Severity_SEVERITY_CRITICAL, Link: link("cluster", ""),
		Text:   fmt.Sprintf("the register has no majority (voters: %s): leaders that die are not replaced, queues and schedules cannot be changed", strings.Join(v.Status.GetVoters(), ", ")),
		Action: "start the voters that are down; `norn cluster status` names them",
	}}
}

// partitions tells of partitions that hand out or take nothing.
func partitions(v *View) (out []*nornv1.Concern) {
	var noLeader, shut uint64
	for _, p := range v.Status.GetPartitions() {
		if !p.GetClaimAvailable() {
			noLeader++
		} else if !p.GetEnqueueAvailable() {
			shut++
		}
	}
	add := func(n uint64, text string) {
		if n > 0 {
			out = append(out, &nornv1.Concern{
				Kind: nornv1.ConcernKind_CONCERN_KIND_NO_LEADER, Severity: nornv1.Severity_SEVERITY_CRITICAL, Count: n, Link: link("cluster", ""), Text: text,
				Action: "start the nodes that are down; if that lasts for more than seconds, `norn cluster status`",
			})
		}
	}
	add(noLeader, number(noLeader, "partition has no leader: its tasks are", "partitions have no leader: their tasks are")+" not handed out")
	add(shut, number(shut, "partition takes", "partitions take")+" no enqueues: too few copies are in reach")
	return out
}

// nodes tells of nodes that do not answer, whose clock or disk is not good, or that keep facts
// aside.
func nodes(v *View) (out []*nornv1.Concern) {
	for _, n := range v.Status.GetNodes() {
		add := func(kind nornv1.ConcernKind, s nornv1.Severity, text, action string) {
			out = append(out, &nornv1.Concern{Kind: kind, Severity: s, Subject: n.GetName(), Text: text, Action: action, Link: link("cluster", "")})
		}
		if !n.GetAlive() && n.GetState() != "removed" {
			add(nornv1.ConcernKind_CONCERN_KIND_NODE_DOWN, nornv1.Severity_SEVERITY_CRITICAL, "node "+n.GetName()+" does not answer",
				"bring it back, or `norn cluster remove "+n.GetName()+"` if it never comes back")
		}
		if why := n.GetClockFault(); why != "" {
			add(nornv1.ConcernKind_CONCERN_KIND_CLOCK, nornv1.Severity_SEVERITY_WARNING, "clock of node "+n.GetName()+": "+why+"; it leads nothing meanwhile",
				"set its clock (NTP); `norn cluster clock` shows by how much it is off")
		}
		if why := n.GetForgot(); why != "" {
			add(nornv1.ConcernKind_CONCERN_KIND_DISK, nornv1.Severity_SEVERITY_CRITICAL, "disk of node "+n.GetName()+" has lost what it had acknowledged: "+why,
				"bring the other nodes back; then it becomes a new member by itself")
		}
		if why := n.GetDiskFull(); why != "" {
			add(nornv1.ConcernKind_CONCERN_KIND_DISK, nornv1.Severity_SEVERITY_CRITICAL, "disk of node "+n.GetName()+" is nearly full ("+why+"): it takes no enqueues",
				"free space on it, add a node, or have tasks finished and collected sooner (`norn queue set QUEUE --retention 1h`)")
		}
		if k := n.GetQuarantinedTasks(); k > 0 {
			add(nornv1.ConcernKind_CONCERN_KIND_FACTS, nornv1.Severity_SEVERITY_NOTE, fmt.Sprintf("node %s keeps %s aside that nobody else knows", n.GetName(), number(k, "task", "tasks")),
				"`norn cluster verify` names them")
		}
	}
	return out
}

// moves tells of partitions that cannot move.
func moves(v *View) []*nornv1.Concern {
	n := v.Status.GetMovement().GetStuck()
	if n == 0 {
		return nil
	}
	return []*nornv1.Concern{{
		Kind: nornv1.ConcernKind_CONCERN_KIND_MOVE_STUCK, Severity: nornv1.Severity_SEVERITY_WARNING, Count: uint64(n), Link: link("cluster", ""),
		Text: number(n, "partition", "partitions") + " cannot move: too few of their holders are left", Action: "start the nodes that hold them; see `norn cluster status`",
	}}
}

// paused tells of paused queues with work.
func paused(v *View) (out []*nornv1.Concern) {
	for _, q := range v.Queues {
		s, n := q.GetEffective(), q.GetCount().GetReady()
		if !s.GetPaused() || n == 0 {
			continue
		}
		text := "queue " + q.GetName() + " is paused"
		if by := s.GetPausedBy(); by != "" {
			text += " by " + by
		}
		if at := s.GetPausedAt(); at != nil {
			text += " for " + span(max(v.Now.Sub(at.AsTime()), 0))
		}
		if note := strings.Join(strings.Fields(s.GetNote()), " "); note != "" {
			text += " (" + note + ")"
		}
		out = append(out, &nornv1.Concern{
			Kind: nornv1.ConcernKind_CONCERN_KIND_QUEUE_PAUSED, Severity: nornv1.Severity_SEVERITY_WARNING, Subject: q.GetName(), Count: n, Since: s.GetPausedAt(),
			Text: text + ", and " + number(n, "task is", "tasks are") + " ready", Action: "`norn queue resume " + q.GetName() + "`, if it is to go on", Link: link("queues", q.GetName()),
		})
	}
	return out
}

// taking are the queues that a worker takes.
func taking(v *View) map[string]bool {
	all := make(map[string]bool)
	for _, w := range v.Workers {
		able := !w.GetDraining() && !w.GetKilled() && w.GetTrouble() == "" && w.GetState() == nornv1.SessionState_SESSION_STATE_HEALTHY
		for _, q := range w.GetQueues() {
			all[q.GetQueue()] = all[q.GetQueue()] || able
		}
	}
	return all
}

// deserted tells whether a queue has work that no worker with a session takes.
func deserted(q *nornv1.Queue, taken map[string]bool) bool {
	return q.GetCount().GetReady() > 0 && !q.GetEffective().GetPaused() && q.GetWaitingClaims() == 0 && !taken[q.GetName()]
}

// noWorker tells of queues with work that nobody takes. Who asks without a session counts, if
// it was a moment ago.
func noWorker(v *View) (out []*nornv1.Concern) {
	taken := taking(v)
	for _, q := range v.Queues {
		if !deserted(q, taken) {
			continue
		}
		asked, known := v.Asked[q.GetName()]
		at := asked.GetLastAsked()
		if asked.GetWaitingClaims() > 0 || at != nil && v.Now.Sub(at.AsTime()) < asksOften {
			continue // somebody asks without a session
		}
		text := fmt.Sprintf("no worker takes queue %s, and %s ready", q.GetName(), number(q.GetCount().GetReady(), "task is", "tasks are"))
		switch {
		case at != nil:
			text += "; somebody last asked for it " + span(v.Now.Sub(at.AsTime())) + " ago"
		case known:
			text += "; nobody has asked for it since the nodes started"
		}
		if _, is := taken[q.GetName()]; is {
			text += "; those that do are draining, in trouble or silent"
		}
		out = append(out, &nornv1.Concern{
			Kind: nornv1.ConcernKind_CONCERN_KIND_NO_WORKER, Severity: nornv1.Severity_SEVERITY_WARNING, Subject: q.GetName(), Count: q.GetCount().GetReady(), Since: at,
			Text: text, Action: "start a worker: `norn work -q " + q.GetName() + " -- CMD`", Link: link("queues", q.GetName()),
		})
	}
	return out
}

// dying tells of queues in which tasks have died.
func dying(v *View) (out []*nornv1.Concern) {
	for _, d := range v.Died {
		out = append(out, &nornv1.Concern{
			Kind: nornv1.ConcernKind_CONCERN_KIND_TASKS_DIE, Severity: nornv1.Severity_SEVERITY_WARNING, Subject: d.GetQueue(), Count: d.GetDead(),
			Text:   fmt.Sprintf("%s of queue %s died in the last ten minutes (%d were completed)", number(d.GetDead(), "task", "tasks"), d.GetQueue(), d.GetCompleted()),
			Action: "look at their errors; when the cause is mended: `norn task retry --filter 'queue=" + d.GetQueue() + ",state=dead'`",
			Link:   link("tasks", "", "queue", d.GetQueue(), "states", "dead"),
		})
	}
	return out
}

// waiting tells of queues whose oldest ready task is old although workers take it.
func waiting(v *View) (out []*nornv1.Concern) {
	taken := taking(v)
	for _, q := range v.Queues {
		oldest := seconds(q.GetOldestReadySeconds())
		if q.GetCount().GetReady() == 0 || q.GetEffective().GetPaused() || oldest < waitsLong || deserted(q, taken) {
			continue
		}
		out = append(out, &nornv1.Concern{
			Kind: nornv1.ConcernKind_CONCERN_KIND_WORK_WAITS, Severity: nornv1.Severity_SEVERITY_WARNING, Subject: q.GetName(), Count: q.GetCount().GetReady(),
			Since:  timestamppb.New(v.Now.Add(-oldest)),
			Text:   fmt.Sprintf("%s ready in queue %s, the oldest for %s", number(q.GetCount().GetReady(), "task is", "tasks are"), q.GetName(), span(oldest)),
			Action: "more workers, or more slots for this queue; `norn worker list` shows who is busy", Link: link("queues", q.GetName()),
		})
	}
	return out
}

// pausedItself is how the note of a schedule begins that has paused itself.
const pausedItself = "paused because task "

// scheduled tells of schedules that are late, fail, or have paused themselves.
func scheduled(v *View) (out []*nornv1.Concern) {
	if v.Cron.GetSchedules() > 0 && v.Cron.GetMaster() == "" {
		out = append(out, &nornv1.Concern{
			Kind: nornv1.ConcernKind_CONCERN_KIND_SCHEDULE_LATE, Severity: nornv1.Severity_SEVERITY_WARNING, Count: v.Cron.GetSchedules(), Link: link("schedules", ""),
			Text:   fmt.Sprintf("there is nobody who launches schedules (%d)", v.Cron.GetSchedules()),
			Action: "if it lasts for more than seconds, the register has no majority: `norn cluster status`",
		})
	}
	for _, s := range v.Schedules {
		add := func(kind nornv1.ConcernKind, since *timestamppb.Timestamp, text, action string) {
			out = append(out, &nornv1.Concern{
				Kind: kind, Severity: nornv1.Severity_SEVERITY_WARNING, Subject: s.GetName(), Text: "schedule " + s.GetName() + " " + text, Action: action,
				Link: link("schedules", s.GetName()), Since: since,
			})
		}
		last := s.GetLast()
		switch {
		case s.GetProblem() != "":
			add(nornv1.ConcernKind_CONCERN_KIND_SCHEDULE_FAILS, nil, "is not launched: "+s.GetProblem(), "`norn schedule set "+s.GetName()+"` with a definition that can be read")
		case s.GetSpec().GetPaused() && strings.HasPrefix(s.GetSpec().GetNote(), pausedItself):
			add(nornv1.ConcernKind_CONCERN_KIND_SCHEDULE_PAUSED_ITSELF, s.GetChanged(), "has paused itself: "+s.GetSpec().GetNote(),
				"mend the cause, then `norn schedule resume "+s.GetName()+"`")
		case s.GetSpec().GetPaused(), s.GetEnded():
		case s.GetOverdueSeconds() > late.Seconds():
			add(nornv1.ConcernKind_CONCERN_KIND_SCHEDULE_LATE, s.GetNextLaunch(), "is "+span(seconds(s.GetOverdueSeconds()))+" late", "see who launches: `norn schedule list`; a node may be overloaded")
		case last.GetStatus() == nornv1.LaunchStatus_LAUNCH_STATUS_FAILED:
			add(nornv1.ConcernKind_CONCERN_KIND_SCHEDULE_FAILS, last.GetFinished(), "failed: task "+last.GetTaskId()+" of its last launch is dead",
				"`norn task get "+last.GetTaskId()+"` shows the error; `norn task retry "+last.GetTaskId()+"`")
		case last.GetStatus() == nornv1.LaunchStatus_LAUNCH_STATUS_NOT_ENQUEUED:
			add(nornv1.ConcernKind_CONCERN_KIND_SCHEDULE_FAILS, last.GetBegun(), "failed: its last launch could not be enqueued: "+last.GetNote(),
				"`norn schedule trigger "+s.GetName()+"`, once the cause is mended")
		}
	}
	return out
}

// troubled tells of workers that cannot begin tasks.
func troubled(v *View) (out []*nornv1.Concern) {
	for _, w := range v.Workers {
		if w.GetTrouble() == "" {
			continue
		}
		out = append(out, &nornv1.Concern{
			Kind: nornv1.ConcernKind_CONCERN_KIND_WORKER_TROUBLED, Severity: nornv1.Severity_SEVERITY_WARNING, Subject: w.GetName(), Link: link("workers", w.GetName()),
			Text: "worker " + w.GetName() + " cannot begin tasks: " + w.GetTrouble(), Action: "mend it on machine " + w.GetMachine() + ", or stop the worker",
		})
	}
	return out
}

package attention

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }

// queue is one with so many ready tasks.
func queue(name string, ready uint64, change ...func(*nornv1.Queue)) *nornv1.Queue {
	q := &nornv1.Queue{Name: name, Count: &nornv1.Count{Ready: ready}, Effective: &nornv1.QueueSettings{}}
	for _, f := range change {
		f(q)
	}
	return q
}

func worker(name string, queues ...string) *nornv1.Worker {
	w := &nornv1.Worker{Name: name, State: nornv1.SessionState_SESSION_STATE_HEALTHY, Machine: "m1"}
	for _, q := range queues {
		w.Queues = append(w.Queues, &nornv1.SessionQueue{Queue: q})
	}
	return w
}

// well is a cluster of which nothing needs anybody.
func well() *View {
	return &View{
		Now: now,
		Status: &nornv1.StatusReply{
			Voters: []string{"a", "b", "c"}, Register: &nornv1.RegisterStatus{Majority: true},
			Nodes:      []*nornv1.NodeStatus{{Name: "a", State: "up", Alive: true}, {Name: "gone", State: "removed"}},
			Partitions: []*nornv1.PartitionStatus{{ClaimAvailable: true, EnqueueAvailable: true}, {ClaimAvailable: true, EnqueueAvailable: true}},
		},
		Queues:    []*nornv1.Queue{queue("mail", 3), queue("empty", 0, func(q *nornv1.Queue) { q.Effective.Paused = true })},
		Workers:   []*nornv1.Worker{worker("w1", "mail")},
		Schedules: []*nornv1.Schedule{{Name: "nightly", Spec: &nornv1.ScheduleSpec{}, Last: &nornv1.Launch{Status: nornv1.LaunchStatus_LAUNCH_STATUS_COMPLETED}}},
		Cron:      &nornv1.CronStatus{Schedules: 1, Master: "a"},
		Asked:     map[string]*nornv1.WorkersReply{},
	}
}

func schedule(change func(*nornv1.Schedule)) func(*View) {
	return func(v *View) {
		s := &nornv1.Schedule{Name: "report", Spec: &nornv1.ScheduleSpec{}, Last: &nornv1.Launch{}}
		change(s)
		v.Schedules = append(v.Schedules, s)
	}
}

// TestEachConcern: each cause by itself, with what it says, where it leads and what to do.
//
// Long because: it is a table.
func TestEachConcern(t *testing.T) {
	if all := Concerns(well()); len(all) > 0 {
		t.Fatalf("of a cluster that is well: %v", all)
	}
	for name, c := range map[string]struct {
		change             func(*View)
		kind               string
		text, action, link string
	}{
		"paused": {func(v *View) {
			v.Queues = append(v.Queues, queue("sms", 800, func(q *nornv1.Queue) {
				q.Effective.Paused, q.Effective.PausedAt, q.Effective.PausedBy, q.Effective.Note = true, ago(90*time.Minute), "ann@desk", "provider is\ndown"
			}))
		}, "QUEUE_PAUSED", "queue sms is paused by ann@desk for 1h30m (provider is down), and 800 tasks are ready", "norn queue resume sms", "#/queues/sms"},
		"no worker, ever": {func(v *View) {
			v.Queues = append(v.Queues, queue("acme/pdf", 600))
			v.Asked["acme/pdf"] = &nornv1.WorkersReply{}
		}, "NO_WORKER", "no worker takes queue acme/pdf, and 600 tasks are ready; nobody has asked for it since the nodes started", "norn work -q acme/pdf -- CMD", "#/queues/acme%2Fpdf"},
		"no worker any more": {func(v *View) {
			v.Queues = append(v.Queues, queue("pdf", 1))
			v.Asked["pdf"] = &nornv1.WorkersReply{LastAsked: ago(3 * time.Minute)}
		}, "NO_WORKER", "no worker takes queue pdf, and 1 task is ready; somebody last asked for it 3m0s ago", "norn work", "#/queues/pdf"},
		"no worker that can": {func(v *View) {
			v.Workers[0].Draining = true
		}, "NO_WORKER", "those that do are draining, in trouble or silent", "norn work", "#/queues/mail"},
		"tasks die": {func(v *View) {
			v.Died = []*nornv1.QueueDecisions{{Queue: "mail", Dead: 12, Completed: 3}}
		}, "TASKS_DIE", "12 tasks of queue mail died in the last ten minutes (3 were completed)", "queue=mail,state=dead", "#/tasks?queue=mail&states=dead"},
		"work waits": {func(v *View) {
			v.Queues[0].OldestReadySeconds = 420
		}, "WORK_WAITS", "3 tasks are ready in queue mail, the oldest for 7m0s", "more workers", "#/queues/mail"},
		"schedule failed": {schedule(func(s *nornv1.Schedule) {
			s.Last.Status, s.Last.TaskId = nornv1.LaunchStatus_LAUNCH_STATUS_FAILED, "37dGamhT6KhgeCdJ3yaFwZAimIC"
		}), "SCHEDULE_FAILS", "task 37dGamhT6KhgeCdJ3yaFwZAimIC of its last launch is dead", "norn task retry 37dGamhT6KhgeCdJ3yaFwZAimIC", "#/schedules/report"},
		"schedule not enqueued": {schedule(func(s *nornv1.Schedule) {
			s.Last.Status, s.Last.Note = nornv1.LaunchStatus_LAUNCH_STATUS_NOT_ENQUEUED, "the queue is draining"
		}), "SCHEDULE_FAILS", "could not be enqueued: the queue is draining", "norn schedule trigger report", "#/schedules/report"},
		"schedule unreadable": {schedule(func(s *nornv1.Schedule) { s.Problem = "no such zone" }), "SCHEDULE_FAILS", "no such zone", "norn schedule set report", "#/schedules/report"},
		"schedule paused itself": {schedule(func(s *nornv1.Schedule) {
			s.Spec.Paused, s.Spec.Note = true, "paused because task 37dGamhT6KhgeCdJ3yaFwZAimIC has failed"
		}), "SCHEDULE_PAUSED_ITSELF", "schedule report has paused itself: paused because task", "norn schedule resume report", "#/schedules/report"},
		"schedule late":   {schedule(func(s *nornv1.Schedule) { s.OverdueSeconds = 61 }), "SCHEDULE_LATE", "schedule report is 1m1s late", "norn schedule list", "#/schedules/report"},
		"nobody launches": {func(v *View) { v.Cron.Master = "" }, "SCHEDULE_LATE", "nobody who launches schedules (1)", "norn cluster status", "#/schedules"},
		"node down": {func(v *View) {
			v.Status.Nodes = append(v.Status.Nodes, &nornv1.NodeStatus{Name: "b", State: "down"})
		}, "NODE_DOWN", "node b does not answer", "norn cluster remove b", "#/cluster"},
		"clock":       {func(v *View) { v.Status.Nodes[0].ClockFault = "900 ms ahead" }, "CLOCK", "clock of node a: 900 ms ahead", "NTP", "#/cluster"},
		"disk lost":   {func(v *View) { v.Status.Nodes[0].Forgot = "it was set back" }, "DISK", "disk of node a has lost what it had acknowledged: it was set back", "bring", "#/cluster"},
		"disk full":   {func(v *View) { v.Status.Nodes[0].DiskFull = "10.0 MiB are free" }, "DISK", "disk of node a is nearly full (10.0 MiB are free)", "free space", "#/cluster"},
		"aside":       {func(v *View) { v.Status.Nodes[0].QuarantinedTasks = 2 }, "FACTS", "keeps 2 tasks aside", "norn cluster verify", "#/cluster"},
		"no leader":   {func(v *View) { v.Status.Partitions[1].ClaimAvailable = false }, "NO_LEADER", "1 partition has no leader: its tasks are not handed out", "start the nodes", "#/cluster"},
		"no enqueues": {func(v *View) { v.Status.Partitions[1].EnqueueAvailable = false }, "NO_LEADER", "1 partition takes no enqueues", "start the nodes", "#/cluster"},
		"no majority": {func(v *View) { v.Status.Register.Majority = false }, "NO_MAJORITY", "(voters: a, b, c)", "start the voters", "#/cluster"},
		"stuck":       {func(v *View) { v.Status.Movement = &nornv1.MovementStatus{Stuck: 4} }, "MOVE_STUCK", "4 partitions cannot move", "start the nodes", "#/cluster"},
		"trouble": {func(v *View) {
			w := worker("w2", "mail")
			w.Trouble = "no space left"
			v.Workers = append(v.Workers, w)
		}, "WORKER_TROUBLED", "worker w2 cannot begin tasks: no space left", "machine m1", "#/workers/w2"},
	} {
		v := well()
		c.change(v)
		all := Concerns(v)
		if len(all) != 1 {
			t.Errorf("%s: %v", name, all)
			continue
		}
		got := all[0]
		if got.Kind.String() != "CONCERN_KIND_"+c.kind || !strings.Contains(got.Text, c.text) || !strings.Contains(got.Action, c.action) || got.Link != c.link || got.Severity == 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWhatNeedsNobody: what looks like a concern and is none.
func TestWhatNeedsNobody(t *testing.T) {
	for name, change := range map[string]func(*View){
		"claims wait": func(v *View) {
			v.Queues = append(v.Queues, queue("q", 5, func(q *nornv1.Queue) { q.WaitingClaims = 1 }))
		},
		"claims wait elsewhere": func(v *View) {
			v.Queues = append(v.Queues, queue("q", 5))
			v.Asked["q"] = &nornv1.WorkersReply{WaitingClaims: 1}
		},
		"somebody asks, no waits": func(v *View) {
			v.Queues = append(v.Queues, queue("q", 5))
			v.Asked["q"] = &nornv1.WorkersReply{LastAsked: ago(5 * time.Second)}
		},
		"paused by somebody":     schedule(func(s *nornv1.Schedule) { s.Spec.Paused, s.Spec.Note = true, "holidays" }),
		"failed once, then not":  schedule(func(s *nornv1.Schedule) { s.Failed, s.Last.Status = 1, nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING }),
		"no schedule, no master": func(v *View) { v.Cron, v.Schedules = &nornv1.CronStatus{}, nil },
		"a new server":           func(v *View) { v.Queues, v.Workers, v.Schedules, v.Cron = nil, nil, nil, nil },
	} {
		v := well()
		change(v)
		if all := Concerns(v); len(all) > 0 {
			t.Errorf("%s: %v", name, all)
		}
	}
}

// TestConcernsAreBoundedAndInOrder: the worst first, 50 of a kind, and how many more.
func TestConcernsAreBoundedAndInOrder(t *testing.T) {
	v := well()
	for i := range 1000 {
		v.Queues = append(v.Queues, queue(fmt.Sprintf("q%03d", i), uint64(1+i)))
	}
	v.Status.Register.Majority, v.Status.Nodes[0].QuarantinedTasks = false, 1
	all := Concerns(v)
	if len(all) != 1+51+1 || all[0].Kind != nornv1.ConcernKind_CONCERN_KIND_NO_MAJORITY || all[len(all)-1].Kind != nornv1.ConcernKind_CONCERN_KIND_FACTS {
		t.Fatalf("%d: %v", len(all), all)
	}
	if all[1].Count != 1000 || all[51].Text != "950 more like these" || all[51].Link != "#/queues" {
		t.Errorf("%v … %v", all[1], all[51])
	}
}

// TestLookGoesOnWithoutAPart: what cannot be read is named, and the rest told; what somebody may
// not see is not mentioned.
func TestLookGoesOnWithoutAPart(t *testing.T) {
	ask := func(_ context.Context, m nornv1.Method, request gproto.Message) (gproto.Message, *proto.Error) {
		switch m {
		case nornv1.Method_METHOD_QUEUES:
			if len(request.(*nornv1.QueuesRequest).GetCursor()) == 0 {
				return &nornv1.QueuesReply{Queues: []*nornv1.Queue{queue("a", 1)}, NextCursor: []byte("a")}, nil
			}
			return &nornv1.QueuesReply{Queues: []*nornv1.Queue{queue("b", 1)}}, nil
		case nornv1.Method_METHOD_WORKERS:
			if request.(*nornv1.WorkersRequest).GetQueue() == "a" {
				return &nornv1.WorkersReply{WaitingClaims: 1}, nil
			}
			return &nornv1.WorkersReply{}, nil
		case nornv1.Method_METHOD_STATUS:
			return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "no answer")
		case nornv1.Method_METHOD_HISTORY:
			return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED, "not you")
		}
		return &nornv1.SchedulesReply{}, nil
	}
	got, err := Look(t.Context(), ask, "n1", now)
	if err != nil || len(got.GetConcerns()) != 1 || got.GetConcerns()[0].GetSubject() != "b" || got.GetNode() != "n1" {
		t.Fatalf("%v %v", got, err)
	}
	if u := got.GetUnseen(); len(u) != 1 || u[0] != "nodes and partitions: no answer" {
		t.Errorf("unseen: %q", u)
	}
	none := func(context.Context, nornv1.Method, gproto.Message) (gproto.Message, *proto.Error) {
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the node is starting")
	}
	if _, err := Look(t.Context(), none, "n1", now); err == nil || err.Message != "the node is starting" {
		t.Errorf("of a node that is starting: %v", err)
	}
}

package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/norn-dev/norn/cmd/norn/render"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func queue(name string, ready, completed, dead uint64) *nornv1.Queue {
	return &nornv1.Queue{
		Name: name, Settings: &nornv1.QueueSettings{},
		Count: &nornv1.Count{Ready: ready, Completed: completed, Dead: dead, Total: ready + completed + dead},
	}
}

func nodes(alive ...bool) *nornv1.StatusReply {
	s := &nornv1.StatusReply{Node: "n1", Register: &nornv1.RegisterStatus{Majority: true}, Partitions: []*nornv1.PartitionStatus{{Leader: "n1"}}}
	for i, a := range alive {
		s.Nodes = append(s.Nodes, &nornv1.NodeStatus{Name: fmt.Sprint("n", i+1), State: "up", Alive: a, Led: 1})
	}
	return s
}

func serves(worker string, slots uint32, running int, queues ...string) *nornv1.Worker {
	w := &nornv1.Worker{Name: worker, State: nornv1.SessionState_SESSION_STATE_HEALTHY, Slots: slots, Node: "n1"}
	for _, q := range queues {
		w.Queues = append(w.Queues, &nornv1.SessionQueue{Queue: q})
	}
	for range running {
		w.Running = append(w.Running, &nornv1.WorkerClaim{})
	}
	return w
}

// TestFrame: the whole in two lines, what needs somebody, and the queues with what changed
// between two looks.
func TestFrame(t *testing.T) {
	before := &look{at: noon, status: nodes(true, true), queues: []*nornv1.Queue{queue("mail", 100, 1000, 0)}}
	after := &look{
		at: noon.Add(10 * time.Second), status: nodes(true, true), workers: []*nornv1.Worker{serves("w1", 4, 3, "mail"), serves("w2", 2, 2, "mail", "other")},
		queues: []*nornv1.Queue{queue("mail", 90, 1200, 5), queue("new", 50, 0, 0)},
	}
	got := strings.Join(frame(before, after, view{}, 0, 0), "\n")
	want := `norn top  12:00:10  node n1  nodes 2 of 2  workers 2  alerts 2
ready 140  claimed 0  scheduled 0  waiting 0  dead 5  in 24/s  done 20/s
! tasks of queue mail die (5 dead): norn task list -q mail --state dead
! queue new has 50 ready tasks, and no worker takes them: start one, or norn task list -q new

QUEUE  STATE  READY  CLAIMED  SCHED.  WAITING  DEAD  IN/S  DONE/S  DEAD/S  OLDEST  WORKERS  BUSY
mail   open   90     0        0       0        5     20    20      0.5     0s      2        5/6
new    open   50     0        0       0        0     5.0   0       0       0s      0`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	first := strings.Join(frame(nil, after, view{}, 0, 0), "\n")
	if strings.Contains(first, "/s 2") || strings.Contains(first, "die") || strings.Contains(first, "in ") {
		t.Errorf("the first look has rates:\n%s", first)
	}
}

// TestAlerts: each thing that needs somebody is told with what to do, and what needs nobody is
// not.
func TestAlerts(t *testing.T) {
	paused := queue("p", 3, 0, 0)
	paused.Settings = &nornv1.QueueSettings{Paused: true, Note: "deploy\x1b[2J"}
	old := queue("old", 3, 0, 0)
	old.OldestReadySeconds = 3600
	pulled := queue("pulled", 3, 0, 0)
	pulled.WaitingClaims = 1
	s := nodes(true, false, true, true)
	s.Nodes[2].ClockFault, s.Nodes[3].State, s.Nodes[3].Alive = "ahead by 3 s", "removed", false
	s.Register.Majority, s.Movement = false, &nornv1.MovementStatus{Stuck: 2}
	s.Partitions = append(s.Partitions, &nornv1.PartitionStatus{})
	bad, lost, rests := serves("bad", 1, 0), serves("lost", 1, 0), serves("rests", 1, 0)
	bad.Trouble, lost.State, rests.RestingSeconds = "no room", nornv1.SessionState_SESSION_STATE_MUST_DIE, 3
	l := &look{at: noon, status: s, queues: []*nornv1.Queue{paused, old, pulled, queue("idle", 0, 5, 5)}, workers: []*nornv1.Worker{serves("w", 1, 1, "old"), bad, lost, rests}}
	rows, _ := rowsOf(nil, l)
	got := strings.Join(alertsOf(l, rows), "\n")
	for _, want := range []string{
		"register has no majority", "1 of 2 partitions have no leader", "2 partitions cannot move", "node n2 is out of reach", "clock of node n3 is wrong: ahead",
		`queue p is paused ("deploy\x1b[2J") with 3 ready tasks: norn queue resume p`, "queue old has a task that is ready for 1h",
		"worker bad cannot begin tasks: no room", "worker lost is lost", "worker rests refuses tasks",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 10 {
		t.Errorf("%d alerts:\n%s", n, got)
	}
}

// TestAFrameFitsItsScreen, whatever names and notes there are, in each table and order, and how
// ever far somebody scrolls.
func TestAFrameFitsItsScreen(t *testing.T) {
	l := &look{at: noon, status: nodes(true, false)}
	for i := range 200 {
		q := queue(fmt.Sprintf("queue-%03d", i), uint64(i), 0, 1)
		q.Settings = &nornv1.QueueSettings{Paused: i%2 == 0, Note: strings.Repeat("note \x07\u202e", 50)}
		l.queues = append(l.queues, q)
		l.workers = append(l.workers, serves("worker\r\n\x1b[31m"+strings.Repeat("x", 300), 1, 1, strings.Repeat("q", 100)))
	}
	for part := range parts {
		for order := range orders {
			for _, from := range []int{0, 7, 199, 100_000} {
				for _, size := range [][2]int{{80, 24}, {20, 5}, {1, 1}, {200, 300}} {
					lines := frame(l, l, view{part: part, order: order, from: from, failed: "because\n\x1b[2J"}, size[0], size[1])
					if len(lines) > size[1] {
						t.Fatalf("%d lines on a screen of %v", len(lines), size)
					}
					for _, line := range lines {
						if n := len([]rune(line)); n > size[0] {
							t.Fatalf("%d columns on a screen of %v: %q", n, size, line)
						}
						if strings.ContainsFunc(line, unicode.IsControl) {
							t.Fatalf("control characters: %q", line)
						}
					}
				}
			}
		}
	}
}

// TestKeys: tab, s, space and arrows change what is seen, and q ends it.
func TestKeys(t *testing.T) {
	w := &watcher{}
	press := func(keys string) (goes bool) {
		for _, c := range []byte(keys) {
			goes = w.key(c)
		}
		return goes
	}
	press("\t\tsss jjk\x1b[B\x1bOB\x1b[A\x1b[C")
	if w.view.part != 2 || w.view.order != 3 || !w.view.still || w.view.from != 2 {
		t.Errorf("got %+v", w.view)
	}
	press("kkkkk\t\ts s")
	if w.view.part != 0 || w.view.order != 0 || w.view.still || w.view.from != 0 {
		t.Errorf("got %+v", w.view)
	}
	for _, end := range []string{"q", "Q", "\x03", "\x04"} {
		if press(end) {
			t.Errorf("%q does not end it", end)
		}
	}
}

// TestTheScreenStaysWhereNothingIsHeard: a look that fails is told of, with what was seen last;
// while it is held nobody is asked.
func TestTheScreenStaysWhereNothingIsHeard(t *testing.T) {
	asked := 0
	var fails error
	w := &watcher{ctx: t.Context(), timeout: time.Minute, look: func(context.Context) (*look, error) {
		asked++
		return &look{at: noon.Add(time.Duration(asked) * time.Second), status: nodes(true), queues: []*nornv1.Queue{queue("mail", 1, 0, 0)}}, fails
	}}
	fails = errors.New("no node\x1b[2J")
	if got := strings.Join(w.lines(true, 80, 24), "\n"); !strings.Contains(got, "no news") || strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
	fails = nil
	if got := strings.Join(w.lines(true, 200, 24), "\n"); !strings.Contains(got, "12:00:02") || strings.Contains(got, "no news") {
		t.Errorf("got %q", got)
	}
	fails = errors.New("gone")
	if got := strings.Join(w.lines(true, 200, 24), "\n"); !strings.Contains(got, "12:00:02") || !strings.Contains(got, "no news: gone") || !strings.Contains(got, "mail") {
		t.Errorf("got %q", got)
	}
	w.key(' ')
	if w.lines(true, 80, 24); asked != 3 {
		t.Errorf("asked %d times while it is held", asked)
	}
}

// TestLoop draws at once, with each key and with each tick, in one write each, and ends with q
// or with its context.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := make(chan byte, 3)
		var out writes
		s := &screen{out: &out, keys: keys, size: func() (int, int) { return 80, 24 }}
		var asked []bool
		keys <- 's'
		go func() {
			time.Sleep(2500 * time.Millisecond)
			keys <- 'q'
		}()
		err := s.loop(t.Context(), time.Second, func(fresh bool, columns, height int) []string {
			asked = append(asked, fresh)
			return []string{fmt.Sprint(columns, " ", height), "b"}
		}, func(c byte) bool { return c != 'q' })
		if err != nil || fmt.Sprint(asked) != "[true false true true]" || len(out) != 4 {
			t.Errorf("%v, asked %v, %d writes", err, asked, len(out))
		}
		if want := home + "80 24" + rest + "\r\nb" + rest + below; string(out[0]) != want {
			t.Errorf("%q, want %q", out[0], want)
		}
		close(keys) // the keyboard goes, and the screen stays
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		asked = nil
		if err := s.loop(ctx, time.Second, func(fresh bool, _, _ int) []string {
			asked = append(asked, fresh)
			return nil
		}, nil); err != nil || len(asked) < 4 {
			t.Errorf("%v, asked %v", err, asked)
		}
	})
}

type writes [][]byte

func (w *writes) Write(b []byte) (int, error) {
	*w = append(*w, bytes.Clone(b))
	return len(b), nil
}

// TestOnceForPrograms: one document, with what is for people and what is for programs.
func TestOnceForPrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := uint64(0)
		w := &watcher{ctx: t.Context(), timeout: time.Minute, look: func(context.Context) (*look, error) {
			n += 10
			return &look{at: time.Now(), status: nodes(true), queues: []*nornv1.Queue{queue("mail", 1, n, 0)}, workers: []*nornv1.Worker{serves("w", 1, 0, "mail")}}, nil
		}}
		var out strings.Builder
		if err := w.once(render.New(&out, render.JSON, false), 2*time.Second); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"alerts": []`, `"name": "mail"`, `"finished": 5`, `"workers": "1"`, `"cluster_id"`} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s is missing in\n%s", want, out.String())
			}
		}
		out.Reset()
		if err := w.once(render.New(&out, render.Table, false), time.Second); err != nil || strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "mail ") {
			t.Errorf("%v\n%s", err, out.String())
		}
	})
}

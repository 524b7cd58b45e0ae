package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// tooOld is the age of a ready task from which on somebody should look.
const tooOld = 5 * time.Minute

// alertsOf lists what needs somebody, the weightiest first: the cluster, then nodes, queues
// and workers. Each says what to do.
func alertsOf(l *look, rows []row) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	clusterAlerts(l.status, add)
	for _, r := range rows {
		q, n := r.q, r.q.GetCount()
		name := q.GetName()
		age := proto.Seconds(q.GetOldestReadySeconds())
		switch s := q.GetSettings(); {
		case s.GetPaused() && n.GetReady() > 0:
			note := ""
			if s.GetNote() != "" {
				note = " (" + render.Text([]byte(s.GetNote()), 40) + ")"
			}
			add("queue %s is paused%s with %s ready tasks: norn queue resume %s", name, note, render.Number(n.GetReady()), name)
		case n.GetReady() > 0 && r.workers == 0 && q.GetWaitingClaims() == 0 && n.GetClaimed() == 0:
			add("queue %s has %s ready tasks, and no worker takes them: start one, or norn task list -q %s", name, render.Number(n.GetReady()), name)
		case n.GetReady() > 0 && age >= tooOld:
			add("queue %s has a task that is ready for %s: more workers, or norn task explain it", name, render.Duration(age.Round(time.Second)))
		}
		if r.rates.dead > 0 {
			add("tasks of queue %s die (%s dead): norn task list -q %s --state dead", name, render.Number(n.GetDead()), name)
		}
	}
	for _, w := range l.workers {
		name := render.Text([]byte(w.GetName()), 60)
		switch {
		case w.GetTrouble() != "":
			add("worker %s cannot begin tasks: %s", name, render.Text([]byte(w.GetTrouble()), 80))
		case w.GetRestingSeconds() > 0:
			add("worker %s refuses tasks: look at its log", name)
		case w.GetState() == nornv1.SessionState_SESSION_STATE_MUST_DIE:
			add("worker %s is lost, and what it ran runs elsewhere: look at its machine, %s", name, render.Text([]byte(w.GetMachine()), 40))
		}
	}
	return all
}

func clusterAlerts(s *nornv1.StatusReply, add func(format string, args ...any)) {
	if r := s.GetRegister(); r != nil && !r.GetMajority() {
		add("the register has no majority: leaders, settings and members cannot change; norn cluster status")
	}
	unled := 0
	for _, p := range s.GetPartitions() {
		if p.GetLeader() == "" {
			unled++
		}
	}
	if unled > 0 {
		add("%d of %d partitions have no leader: nothing is handed out from them; norn cluster status", unled, len(s.GetPartitions()))
	}
	if n := s.GetMovement().GetStuck(); n > 0 {
		add("%d partitions cannot move, as too few of their holders are left: norn cluster status", n)
	}
	for _, n := range s.GetNodes() {
		switch {
		case n.GetForgot() != "":
			add("node %s has lost data of its disk: %s", n.GetName(), n.GetForgot())
		case n.GetClockFault() != "":
			add("the clock of node %s is wrong: %s", n.GetName(), n.GetClockFault())
		case n.GetState() != "removed" && !n.GetAlive():
			add("node %s is out of reach: start it, or norn cluster remove %s", n.GetName(), n.GetName())
		}
	}
}

// queuesOf names the queues of a worker.
func queuesOf(w *nornv1.Worker) string {
	var names []string
	for _, q := range w.GetQueues() {
		names = append(names, q.GetQueue())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/jepsen/sim/clients"
	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
)

// collected: everything is collected in its time but what is needed, and what is to be kept
// by now.
func (k *crowd) collected(done func()) {
	k.until(check.Collected, func() string {
		n := k.leader()
		if n == nil {
			return "nobody leads"
		}
		left := 0
		n.WalkPartition(k.of, func(d *vnode.Detail) bool {
			if i := d.Task.ID; d.Task.Enqueued != nil && !k.stays[i] && !(k.kept && k.ruled[i]) {
				left++
			}
			return true
		})
		if left > 0 {
			return fmt.Sprintf("%d tasks are not collected", left)
		}
		return ""
	}, done)
}

// archives sees an archive: the first one of some tasks is written while their retention is
// changed, so that they stay.
func (k *crowd) archives(tasks []*nornv1.Task, then func()) {
	if k.kept || !slices.ContainsFunc(tasks, func(t *nornv1.Task) bool { return k.ruled[convert.Parse(t.GetId())] }) {
		then()
		return
	}
	k.kept = true
	k.sure(&nornv1.SetQueueRequest{Name: "ruled", Fields: []string{"retention"}, Settings: &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_KEEP}}, func(*clients.Answer) {
		k.After(time.Second, then) // by then all have heard of it
	})
}

// keep has most keys taken once more, by tasks that are not finished before the end.
func (k *crowd) keep(done func()) {
	if k.kept {
		for _, n := range k.f.Alive() {
			for task := range k.ruled { // Any order: each is looked at for itself.
				if t, err := vnode.LoadTask(n.Disk.Mem, k.of, task); err != nil || t.Collected() {
					k.S.Violation(check.Collected, "task %s was collected at %s by a retention that had been changed before it was archived (%v)", task, n.Self.Node, err)
				}
			}
		}
	}
	k.live = map[id.ID]bool{}
	var again []*nornv1.TaskSpec
	for i, t := range k.keyed {
		if i%3 > 0 && t.GetKeyWindowSeconds() == 0 {
			again = append(again, t)
		}
	}
	var next func()
	next = func() {
		if len(again) == 0 {
			done()
			return
		}
		t := gproto.CloneOf(again[0])
		k.sure(&nornv1.KeyRequest{Queue: t.Queue, Key: t.Key}, func(a *clients.Answer) {
			t.Id = a.End.Items[0].Task.Bytes()
			k.Do(&nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{gproto.CloneOf(t)}}, 10*time.Second, func(a *clients.Answer) {
				if a.Fine() && a.End.Items[0].Error == "" {
					k.live[convert.IDOf(t.Id)] = true
					again = again[1:]
				}
				k.After(time.Millisecond, next)
			})
		})
	}
	next()
}

// forgotten: in the end nothing is left of them, but of the keys whose windows are not over:
// those are taken still. Of the others only those are on record that have a task.
func (k *crowd) forgotten(done func()) {
	k.f.Witness = nil // it remembers
	stay := map[id.ID]bool{}
	var again []*nornv1.TaskSpec
	for _, t := range k.keyed {
		if t.GetKeyWindowSeconds() > 0 {
			stay[convert.IDOf(t.GetId())] = true
			again = append(again, t)
		}
	}
	left := func(n *nodes.Node) (tombs, keys int) {
		for _, task := range k.all {
			kept := stay[task] || k.stays[task] || k.kept && k.ruled[task]
			if !kept && vnode.Known(n.Disk.Mem, ring.Of(task, k.S.Plan.Partitions), task) {
				tombs++
			}
		}
		for _, key := range vnode.Keys(n.Disk.Mem, k.of, id.ID{}, 10_000) {
			if !k.live[key.Current] {
				keys++
			}
		}
		return tombs, keys
	}
	k.After(k.S.Plan.Grace, func() {
		k.until(check.Collected, func() string {
			for _, n := range k.f.Alive() {
				if tombs, keys := left(n); tombs+keys > 0 {
					return fmt.Sprintf("%s has something of %d tasks and %d keys that were to be forgotten", n.Self.Node, tombs, keys)
				}
			}
			return ""
		}, func() { k.taken(again, done) })
	})
}

// taken: keys whose windows are not over name tasks that were there.
func (k *crowd) taken(again []*nornv1.TaskSpec, done func()) {
	k.sure(&nornv1.EnqueueRequest{Tasks: again}, func(a *clients.Answer) {
		for i, r := range a.End.Items {
			if r.Error == "" && !r.Existed {
				k.S.Violation(check.UniqueKey, "key %s is given away a second time in its window of %v", again[i].GetKey(), crowdWindow)
				return
			}
		}
		done()
	})
}

// calm tells what did not happen that would have had to.
func (k *crowd) calm() string {
	if k.S.Found == nil && !k.S.Ended {
		return "it was given up"
	}
	return ""
}

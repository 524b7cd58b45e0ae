package scope

import (
	"fmt"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// Known is what this node knows of tasks: it says of which queue one is.
type Known struct {
	// Policy is the zero one but in the hunt.
	Policy Policy
	View   store.View
	Vnodes *partitions.Set
	// Partitions is how many there are in the cluster.
	Partitions int
}

// queueOf gives the queue of a task; empty: the task is not known here. Of tasks under a claim it is in
// memory.
func (k Known) queueOf(task id.ID) (string, error) {
	p := ring.Of(task, k.Partitions)
	if e := vnode.EntryOf(k.Vnodes.See(p), task); e != nil && e.Known() {
		return e.Brief.Queue, nil
	}
	return storedQueue(k.View, p, task)
}

// storedQueue reads the queue of a task, and one key for it. vnode.ErrDamaged: what is there cannot be
// read.
func storedQueue(view store.View, p ring.Partition, task id.ID) (queue string, err error) {
	f, ok := vnode.FactOf(view, p, task, crdt.Key{Kind: crdt.KindEnqueued})
	if !ok {
		return "", nil
	}
	if err = f.Intact(); err == nil {
		queue, err = crdt.QueueOf(f.Body)
	}
	if err != nil {
		return "", fmt.Errorf("%w: task %s: %w", vnode.ErrDamaged, task, err)
	}
	return queue, nil
}

// Judge looks at the tasks that a request names, by what this node knows of them: which items
// are refused, and which of them are left; both are nil where none is refused.
func Judge(known Known, r *message.Request) (refused []*proto.Error, left []int, err error) {
	verb, _ := guard.Verb(nornv1.Method(r.From.Method))
	ids := guard.Tasks(r.Body)
	for i, b := range ids {
		if len(b) != id.Size {
			continue // refused for that
		}
		bad, err := outside(known, r, verb, id.ID(b))
		if err != nil {
			return nil, nil, err
		}
		if bad != nil && refused == nil {
			refused = make([]*proto.Error, len(ids))
		}
		if bad != nil {
			refused[i] = bad
		}
	}
	for i, bad := range refused {
		if bad == nil {
			left = append(left, i)
		}
	}
	return refused, left, nil
}

// outside says why the sender of a request does not get to a task; nil: it does.
func outside(known Known, r *message.Request, verb guard.Verbs, task id.ID) (*proto.Error, error) {
	queue, err := known.queueOf(task)
	if err != nil {
		return nil, err
	}
	if queue == "" {
		return refusal.NoTaskUnless(task, r.Unsure), nil
	}
	_, log := r.Body.(*nornv1.LogRequest)
	switch {
	case !r.Scope.May(verb, queue) && known.Policy.ScopeText:
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "task %s may not be seen", task), nil
	case !r.Scope.May(verb, queue):
		return refusal.NoTaskUnless(task, r.Unsure), nil
	case log && !r.Scope.May(guard.Read, queue):
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED, "%s may see queue %s, and not read what is in its tasks: a log takes the verb read", r.Scope.Name, queue)
		e.Lasting = true
		return e, nil
	}
	return nil, nil
}

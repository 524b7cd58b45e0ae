package scope

import (
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// Judge looks at the tasks that a request names, by what this node knows of them: which items
// are refused, and which are left. refused is nil where all are left.
func Judge(view store.View, partitions int, r *message.Request) (refused []*proto.Error, left []int, err error) {
	verb, _ := guard.Verb(nornv1.Method(r.From.Method))
	ids := guard.Tasks(r.Body)
	refused = make([]*proto.Error, len(ids))
	for i, b := range ids {
		if len(b) != id.Size {
			left = append(left, i) // refused for that
			continue
		}
		if refused[i], err = outside(view, partitions, r, verb, id.ID(b)); err != nil {
			return nil, nil, err
		}
		if refused[i] == nil {
			left = append(left, i)
		}
	}
	if len(left) == len(ids) {
		return nil, left, nil
	}
	return refused, left, nil
}

// outside says why the sender of a request does not get to a task; nil: it does.
func outside(view store.View, partitions int, r *message.Request, verb guard.Verbs, task id.ID) (*proto.Error, error) {
	d, err := vnode.ReadTask(view, ring.Of(task, partitions), task, vnode.ReadOptions{NoClaims: true, NoLog: true})
	if err != nil {
		return nil, err
	}
	if d.Task.Enqueued == nil {
		return refusal.NoTaskUnless(task, r.Unsure), nil
	}
	_, log := r.Body.(*nornv1.LogRequest)
	switch queue := d.Task.Enqueued.Queue; {
	case !r.Scope.May(verb, queue) && mutant.ScopeText.On():
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

package queues

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A queue that is deleted leaves the register, and with it everything that was set. Where it
// has tasks, all of them finished, an entry stays for as long as somebody could bring them
// back: by it they are collected without regard to their retention, and no node lists the
// queue until it is used again.

// mostLeftovers bounds the entries of deleted queues that go along with another change.
const mostLeftovers = 100

// bare is what was set for a queue, without when it was deleted.
func bare(set *nornv1.QueueSettings) *nornv1.QueueSettings {
	if set.GetDeleted() == nil {
		return set
	}
	set = gproto.CloneOf(set)
	set.Deleted = nil
	return set
}

// remove deletes a queue, the settings of which are at a version, if those who keep its
// tasks say that none of them is unfinished.
func (q *Machine) remove(from message.Origin, m *nornv1.SetQueueRequest, version uint64) (gproto.Message, *proto.Error) {
	name := m.GetName()
	join := q.Join(&nornv1.QueuesRequest{Names: []string{name}})
	asked, err := q.ask(from, name, join, func(*router.Scatter) {
		reply, err := join.Answer()
		if err != nil {
			q.Round.Refuse(from, err)
			return
		}
		m, err := q.removeIf(from, m, version, reply.(*nornv1.QueuesReply).GetQueues()[0])
		q.Round.Done(from, m, err)
	})
	switch {
	case err != nil:
		return nil, err
	case !asked && !q.Knows(name):
		return nil, refusal.NoQueue(name)
	case !asked:
		return q.removeIf(from, m, version, q.wire(q.Round.Now, name, query.About(q.View, q.Partitions, &message.Request{})))
	}
	return nil, nil
}

func (q *Machine) removeIf(from message.Origin, m *nornv1.SetQueueRequest, version uint64, w *nornv1.Queue) (gproto.Message, *proto.Error) {
	n, set := w.GetCount(), &nornv1.QueueSettings{}
	if left := n.GetTotal() - n.GetCompleted() - n.GetDead() - n.GetCancelled(); left > 0 {
		return nil, refusal.Conflict("queue %s has %d tasks that are not finished, %d of them are running; "+
			"cancel those that are not running with `norn queue purge %s --yes`, wait for the others, then delete it",
			w.GetName(), left, n.GetClaimed(), w.GetName())
	}
	if n.GetTotal() > 0 {
		set.Deleted = timestamppb.New(time.Unix(0, q.Standing.Clocks.Wall(q.Round.Now)))
	} else if version == 0 {
		return &nornv1.QueuesReply{Queues: []*nornv1.Queue{w}}, nil // there is nothing of it
	}
	return q.write(from, m, version, set)
}

// hide gives the name of a queue back that was deleted, unless it has been used since.
func (q *Machine) hide(name string) {
	for _, v := range q.Partitions.Each() {
		if n := v.Count(name); n != nil && unfinished(n) > 0 {
			return
		}
	}
	q.Unuse(name)
}

// DeletedAt is when a queue was deleted, wall ns; 0: it was not.
func (q *Machine) DeletedAt(name string) int64 {
	if at := q.Settings(name).GetDeleted(); at != nil {
		return at.AsTime().UnixNano()
	}
	return 0
}

// over tells whether a queue was deleted so long ago that nobody can bring its tasks back:
// who was away for longer than gc-grace begins anew.
func (q *Machine) over(set *nornv1.QueueSettings) bool {
	at := set.GetDeleted()
	return at != nil && q.Round.Now.Wall-at.AsTime().UnixNano() > int64(q.GCGrace+q.Eta)
}

// leftovers takes entries of deleted queues out of the register that are of no use any more,
// along with the change of another one.
func (q *Machine) leftovers(but string) (all []register.QueueChange) {
	for _, name := range slices.Sorted(maps.Keys(q.sets)) {
		if s := q.sets[name]; name != but && !s.own && q.over(s.set) {
			all = append(all, register.QueueChange{Name: name, Old: s.version})
		}
		if len(all) == mostLeftovers {
			break
		}
	}
	return all
}

package check

import (
	"fmt"
	"slices"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// Forbidden is the invariant of [Rights]: somebody did, saw or was told what it has no right to.
const Forbidden = "forbidden"

// Rights holds what principals try to the reference: who may do things on some queues only does
// and sees nothing of others, and is told of their tasks what it is told of those that are not
// there; and nobody fails, releases or renews the claim of another principal. The rest of a
// history tells which queue a task is of and who has claimed it.
type Rights struct {
	queues map[id.ID]string
	holder map[held]string
	asked  map[uint64]*history.Event
	found  *Violation
	// Judged is how many ends of what was tried could be judged, and Barred how many of them were
	// rightly refused.
	Judged, Barred int
}

type held struct {
	task  id.ID
	token uint64
}

// NewRights makes a checker of one history.
func NewRights() *Rights {
	return &Rights{queues: make(map[id.ID]string), holder: make(map[held]string), asked: make(map[uint64]*history.Event)}
}

// Event takes in the next event and gives the first violation so far, or nil.
func (r *Rights) Event(e *history.Event) *Violation {
	switch {
	case e.Phase == history.Note:
	case e.Phase == history.Invoke && (e.Func == history.Enqueue || e.Func == history.Claim || e.Func == history.Try):
		for i := range e.Items {
			if spec := e.Items[i].Spec; spec != nil && e.Func == history.Enqueue {
				r.queues[e.Items[i].Task] = spec.Queue
			}
		}
		r.asked[e.Op] = e
	case r.asked[e.Op] != nil:
		asked := r.asked[e.Op]
		delete(r.asked, e.Op)
		r.end(asked, e)
	}
	return r.found
}

func (r *Rights) end(asked, e *history.Event) {
	switch {
	case asked.Func == history.Claim && e.Phase == history.OK && asked.By != "":
		for i := range e.Items {
			r.holder[held{e.Items[i].Task, e.Items[i].Token}] = asked.By
		}
	case asked.Func != history.Try || e.Phase == history.Info:
	case e.Phase == history.Fail:
		for _, i := range asked.Items {
			i.Error = e.Error
			r.judge(asked, e, asked.Items, &i)
		}
	default:
		for i := range e.Items {
			r.judge(asked, e, asked.Items, &e.Items[i])
		}
		for _, t := range e.Tallies {
			if asked.Queues != nil && t.Queue != "" && !slices.Contains(asked.Queues, t.Queue) && t.Total > 0 { // without a name it is the sum of all
				r.breach(e, id.ID{}, "%s, who may see %v, was shown a count of queue %s", asked.By, asked.Queues, t.Queue)
			}
		}
	}
}

// judge judges what came of one task.
func (r *Rights) judge(asked, e *history.Event, of []history.Item, i *history.Item) {
	queue, known := r.queues[i.Task]
	if i.Spec != nil {
		queue, known = i.Spec.Queue, true
	}
	hidden := known && asked.Queues != nil && !slices.Contains(asked.Queues, queue)
	other := ""
	if len(of) == 1 && slices.Contains([]string{string(history.FailTask), string(history.Release), string(history.Renew)}, asked.Text) {
		other = r.holder[held{i.Task, of[0].Token}]
	}
	if hidden || other != "" && other != asked.By {
		r.Judged++
	}
	switch {
	case hidden && i.Error == "" && i.State != history.Absent:
		r.breach(e, i.Task, "%s of %s, who may work on %v, was carried out on a task of queue %s", asked.Text, asked.By, asked.Queues, queue)
	case hidden && i.Error != "" && !silent(i.Error):
		r.breach(e, i.Task, "%s of %s, who may work on %v, is refused as %s, which tells of a task of queue %s", asked.Text, asked.By, asked.Queues, i.Error, queue)
	case other != "" && other != asked.By && i.Error == "" && !i.Existed:
		r.breach(e, i.Task, "%s of %s was carried out on claim %d, which is %s's", asked.Text, asked.By, of[0].Token, other)
	case hidden || other != "" && other != asked.By:
		r.Barred++
	}
}

// silent tells whether a refusal is one that a task gets that is not there.
func silent(kind string) bool {
	return slices.Contains([]string{"NOT_FOUND", "UNAVAILABLE", "OVERLOADED", "DEADLINE_EXCEEDED", "CANCELLED"}, kind)
}

func (r *Rights) breach(e *history.Event, task id.ID, format string, args ...any) {
	if r.found == nil {
		r.found = &Violation{Invariant: Forbidden, At: e.At, Task: task, Text: fmt.Sprintf(format, args...)}
	}
}

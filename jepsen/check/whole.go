package check

import (
	"slices"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// whole judges what is said of many tasks at once.
type whole struct{ *Checker }

// list takes in one page.
func (c whole) list(asked, e *history.Event) {
	queue := ""
	if len(asked.Queues) > 0 {
		queue = asked.Queues[0]
	}
	from := cursor(asked.Cursor)
	last := from
	shown := make(map[id.ID]bool, len(e.Items))
	for i := range e.Items {
		got := &e.Items[i]
		if got.Task.Compare(last) <= 0 {
			c.fail(Counting, c.task(got.Task), "the page lists it after %s", last)
		}
		last = got.Task
		shown[got.Task] = true
		t := c.task(got.Task)
		c.observe(asked, got)
		if queue != "" && t.spec != nil && t.spec.Queue != queue {
			c.fail(Counting, t, "it is of queue %s and listed in %s", t.spec.Queue, queue)
		}
		if len(asked.Only) > 0 && got.State != "" && !slices.Contains(asked.Only, got.State) {
			c.fail(Counting, t, "it is %s and listed under %v", got.State, asked.Only)
		}
	}
	if e.More {
		last = cursor(e.Cursor)
	}
	for _, t := range c.order {
		in := t.id.Compare(from) > 0 && (!e.More || t.id.Compare(last) <= 0)
		if in && !shown[t.id] && c.belongs(asked, t, queue) {
			c.fail(Counting, t, "it is not in a list that it belongs into")
		}
	}
	c.wholeList(asked, e, queue, shown)
}

// cursor reads the hexadecimal form of an ID; the zero ID for none.
func cursor(s string) (i id.ID) {
	const digits = "0123456789abcdef"
	for n := 0; n+1 < len(s) && n/2 < len(i); n += 2 {
		hi, lo := slices.Index([]byte(digits), s[n]), slices.Index([]byte(digits), s[n+1])
		i[n/2] = byte(hi<<4 | lo)
	}
	return i
}

// belongs tells whether a list surely has to show the task.
func (c whole) belongs(asked *history.Event, t *task, queue string) bool {
	if !t.enqueued.before(asked.At) || queue != "" && t.queue() != queue || c.forgettable(t, false) || t.collected != never {
		return false
	}
	return len(asked.Only) == 0 || t.completed.before(asked.At) && slices.Contains(asked.Only, history.Completed)
}

// wholeList gathers the pages of a list of everything after settling.
func (c whole) wholeList(asked, e *history.Event, queue string, shown map[id.ID]bool) {
	if asked.At < c.settled || queue != "" || len(asked.Only) > 0 {
		return
	}
	if asked.Cursor == "" {
		c.listing = make(map[id.ID]bool)
	}
	if c.listing == nil {
		return
	}
	for i := range shown {
		c.listing[i] = true
	}
	if !e.More {
		c.listed, c.listing = c.listing, nil
	}
}

// count takes in the counters: no fewer than are surely there, no more than
// were asked for.
func (c whole) count(asked, e *history.Event) {
	for _, got := range e.Tallies {
		queue := got.Queue
		if queue == "" && len(asked.Queues) > 0 {
			queue = asked.Queues[0] // the total of a question about one queue
		}
		sum := uint64(0)
		for _, n := range got.Counts {
			sum += n
		}
		if sum != got.Total {
			c.fail(Counting, nil, "queue %q: the states add up to %d, the total is %d", got.Queue, sum, got.Total)
		}
		least, most := uint64(0), uint64(0)
		for _, t := range c.order {
			if queue != "" && t.queue() != queue {
				continue
			}
			if t.enqueued.before(asked.At) && !c.forgettable(t, false) && t.collected == never {
				least++
			}
			if t.enqueued.possible() {
				most++
			}
		}
		if got.Total < least || got.Total > most {
			c.fail(Counting, nil, "queue %q: %d tasks are counted, %d to %d are there", queue, got.Total, least, most)
		}
	}
	if asked.At >= c.settled && len(asked.Queues) == 0 {
		c.counted = e
	}
}

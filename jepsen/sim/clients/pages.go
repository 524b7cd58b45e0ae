package clients

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/jepsen/sim/run"
)

// Paged is one kind of answer that comes in pages.
type Paged struct {
	what  string
	most  uint32   // the largest page there is; 0: as many as fit
	sizes []uint32 // of the pages that are compared with it
	least int      // items there have to be
	// ask makes a request for a page; read gives what is on one, a text for each item, and
	// where the next one begins, nil: there is none.
	ask  func(limit uint32, after []byte) gproto.Message
	read func(m gproto.Message) (items []string, after []byte)
}

// Pager reads them, and holds all sizes against each other while nothing changes.
type Pager struct{ *Caller }

// unequal is how often an answer may change while it is read.
const unequal = 10

// Compare reads one kind after the other.
func (r Pager) Compare(all []*Paged, done func()) {
	if len(all) == 0 {
		done()
		return
	}
	r.one(all[0], unequal, func() { r.Compare(all[1:], done) })
}

// one reads the whole, then all sizes, then the whole again: where that is another one
// something has changed, and it begins anew.
func (r Pager) one(g *Paged, tries int, done func()) {
	r.whole(g, g.most, func(before []string) {
		var got [][]string
		var next func()
		next = func() {
			if len(got) < len(g.sizes) {
				r.whole(g, g.sizes[len(got)], func(items []string) {
					got = append(got, items)
					next()
				})
				return
			}
			r.whole(g, g.most, func(after []string) {
				if !slices.Equal(before, after) && tries > 0 {
					r.After(500*time.Millisecond, func() { r.one(g, tries-1, done) })
					return
				}
				r.judge(g, before, got)
				done()
			})
		}
		next()
	})
}

func (r Pager) judge(g *Paged, whole []string, got [][]string) {
	if len(whole) < g.least {
		r.S.Violation(run.Pages, "%s: there are %d, not %d", g.what, len(whole), g.least)
	}
	for i, items := range got {
		if slices.Equal(items, whole) {
			continue
		}
		at := 0
		for at < min(len(items), len(whole)) && items[at] == whole[at] {
			at++
		}
		r.S.Violation(run.Pages, "%s: in pages of %d there are %d, in the largest ones %d; the first difference is item %d", g.what, g.sizes[i], len(items), len(whole), at+1)
	}
}

// whole reads all pages of a size.
func (r Pager) whole(g *Paged, size uint32, done func([]string)) {
	var all []string
	var next func(after []byte, pages int)
	next = func(after []byte, pages int) {
		r.insist(func() gproto.Message { return g.ask(size, after) }, func(m gproto.Message) {
			items, more := g.read(m)
			if size > 0 && len(items) > int(size) {
				r.S.Violation(run.Pages, "%s: a page of at most %d has %d", g.what, size, len(items))
			}
			all = append(all, items...)
			switch {
			case len(more) == 0:
				done(all)
			case slices.Equal(more, after) || pages > 10_000:
				r.S.Violation(run.Pages, "%s: in pages of %d there is no end to it, after %d items", g.what, size, len(all))
			default:
				next(more, pages+1)
			}
		})
	}
	next(nil, 0)
}

// insist asks until there is an answer.
func (r Pager) insist(ask func() gproto.Message, done func(gproto.Message)) {
	r.roam()
	r.Send(ask(), nil, 10*time.Second, func(a *Answer) {
		if !a.Fine() {
			r.After(200*time.Millisecond, func() { r.insist(ask, done) })
			return
		}
		done(a.Message)
	})
}

// textOf is an item as a text; two that are alike have the same.
func textOf(m gproto.Message) string {
	b, err := gproto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func texts[M gproto.Message](all []M) (items []string) {
	for _, m := range all {
		items = append(items, textOf(m))
	}
	return items
}

// TasksPaged are lists of tasks.
func TasksPaged(what string, m *nornv1.ListRequest, least int, sizes ...uint32) *Paged {
	return &Paged{
		what: what, most: proto.MaxListPage, sizes: sizes, least: least,
		ask: func(limit uint32, after []byte) gproto.Message {
			page := gproto.CloneOf(m)
			page.Limit, page.Cursor = limit, after
			return page
		},
		read: func(m gproto.Message) ([]string, []byte) {
			page := m.(*nornv1.ListReply)
			return texts(page.GetTasks()), page.GetNextCursor()
		},
	}
}

// QueuesPaged are the queues, but for what changes with time.
func QueuesPaged(least int, sizes ...uint32) *Paged {
	return &Paged{
		what: "queues", sizes: sizes, least: least,
		ask: func(limit uint32, after []byte) gproto.Message {
			return &nornv1.QueuesRequest{Limit: limit, Cursor: after}
		},
		read: func(m gproto.Message) (items []string, after []byte) {
			page := m.(*nornv1.QueuesReply)
			for _, q := range page.GetQueues() {
				items = append(items, fmt.Sprint(q.GetName(), " ", textOf(q.GetCount())))
			}
			return items, page.GetNextCursor()
		},
	}
}

// WorkersPaged are the workers with a session.
func WorkersPaged(least int, sizes ...uint32) *Paged {
	return &Paged{
		what: "workers", sizes: sizes, least: least,
		ask: func(limit uint32, after []byte) gproto.Message {
			return &nornv1.WorkersRequest{Limit: limit, Cursor: after}
		},
		read: func(m gproto.Message) (items []string, after []byte) {
			page := m.(*nornv1.WorkersReply)
			for _, w := range page.GetWorkers() {
				items = append(items, fmt.Sprintf("%s/%x", w.GetName(), w.GetInstance()))
			}
			return items, page.GetNextCursor()
		},
	}
}

// SchedulesPaged are the schedules.
func SchedulesPaged(least int, sizes ...uint32) *Paged {
	return &Paged{
		what: "schedules", most: 1000, sizes: sizes, least: least,
		ask: func(limit uint32, after []byte) gproto.Message {
			return &nornv1.SchedulesRequest{Limit: limit, After: string(after)}
		},
		read: func(m gproto.Message) (items []string, after []byte) {
			page := m.(*nornv1.SchedulesReply)
			for _, s := range page.GetSchedules() {
				items = append(items, s.GetName())
			}
			if page.GetMore() {
				after = []byte(items[len(items)-1])
			}
			return items, after
		},
	}
}

// UpdatesPaged is the log of a task.
func UpdatesPaged(task []byte, least int, sizes ...uint32) *Paged {
	return &Paged{
		what: "updates", most: 1000, sizes: sizes, least: least,
		ask: func(limit uint32, after []byte) gproto.Message {
			m := &nornv1.LogRequest{Id: slices.Clone(task), Limit: limit}
			if len(after) == 16 {
				m.After, m.AfterToken, m.AfterSeq = true, binary.BigEndian.Uint64(after), binary.BigEndian.Uint64(after[8:])
			}
			return m
		},
		read: func(m gproto.Message) (items []string, after []byte) {
			page := m.(*nornv1.LogReply)
			for _, u := range page.GetUpdates() {
				items = append(items, textOf(u))
				after = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, u.GetToken()), u.GetSeq())
			}
			if !page.GetMore() {
				after = nil
			}
			return items, after
		},
	}
}

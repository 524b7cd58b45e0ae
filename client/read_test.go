package client

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func taskList(from, to int) []*nornv1.Task {
	var out []*nornv1.Task
	for i := from; i < to; i++ {
		out = append(out, &nornv1.Task{Id: id.ID{byte(i)}.String()})
	}
	return out
}

func TestListPages(t *testing.T) {
	n := fakenode.New(t, only(nornv1.Method_METHOD_LIST, func(r fakenode.Request) fakenode.Answer {
		switch m := r.Message.(*nornv1.ListRequest); string(m.GetCursor()) {
		case "":
			return fakenode.Answer{Message: &nornv1.ListReply{Tasks: taskList(0, 3), NextCursor: []byte("b")}}
		case "b":
			return fakenode.Answer{Message: &nornv1.ListReply{NextCursor: []byte("c")}} // empty, and not the end
		case "c":
			return fakenode.Answer{Message: &nornv1.ListReply{Tasks: taskList(3, 5)}}
		}
		return fakenode.Answer{Err: proto.Invalid("cursor")}
	}))
	c := open(t, n)
	list := func(f Filter) (ids []string) {
		for task, err := range c.List(t.Context(), f) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, task.GetId())
		}
		return ids
	}
	var want []string
	for _, task := range taskList(0, 5) {
		want = append(want, task.GetId())
	}
	if got := list(Filter{Queue: "q", States: []nornv1.State{nornv1.State_STATE_DEAD}}); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	first := n.Seen(nornv1.Method_METHOD_LIST)[0].Message.(*nornv1.ListRequest)
	if first.GetQueue() != "q" || len(first.GetStates()) != 1 || first.GetLimit() != 0 {
		t.Errorf("asked %v", first)
	}
	if got := list(Filter{Limit: 4}); !slices.Equal(got, want[:4]) {
		t.Errorf("got %v", got)
	}
	before := len(n.Seen(nornv1.Method_METHOD_LIST))
	if got := list(Filter{Limit: 2}); !slices.Equal(got, want[:2]) {
		t.Errorf("got %v", got)
	}
	if asked := len(n.Seen(nornv1.Method_METHOD_LIST)) - before; asked != 1 {
		t.Errorf("asked for %d pages", asked)
	}
}

func TestFollowAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := func(state nornv1.State, more bool, u ...*nornv1.Update) fakenode.Script {
			return func(fakenode.Request) fakenode.Answer {
				time.Sleep(time.Second)
				return fakenode.Answer{Message: &nornv1.LogReply{State: state, More: more, Updates: u}}
			}
		}
		const claimed, done = nornv1.State_STATE_CLAIMED, nornv1.State_STATE_COMPLETED
		script := func() fakenode.Script {
			logs := steps(
				log(claimed, false, &nornv1.Update{Token: 5, Seq: 0}), log(claimed, false), hangUp,
				log(done, false), log(done, true, &nornv1.Update{Token: 5, Seq: 1}), log(done, false, &nornv1.Update{Token: 6, Seq: 0}), log(done, false))
			return func(r fakenode.Request) fakenode.Answer {
				switch r.Method {
				case nornv1.Method_METHOD_LOG:
					return logs(r)
				case nornv1.Method_METHOD_GET:
					return fakenode.Answer{Message: &nornv1.GetReply{Task: &nornv1.Task{State: done}}}
				}
				return fakenode.Answer{}
			}
		}
		n := fakenode.New(t, script())
		var got []uint64
		for u, err := range open(t, n).Follow(t.Context(), id.ID{1}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, u.GetToken()*10+u.GetSeq())
		}
		if !slices.Equal(got, []uint64{50, 51, 60}) {
			t.Errorf("got %v", got)
		}
		// The first one does not wait, nor do those after the end: then a majority is asked.
		asked := n.Seen(nornv1.Method_METHOD_LOG)
		var waits []float64
		for _, r := range asked {
			waits = append(waits, r.Message.(*nornv1.LogRequest).GetWaitSeconds())
		}
		if !slices.Equal(waits, []float64{0, 20, 20, 20, 0, 0, 0}) {
			t.Errorf("the requests waited for %v", waits)
		}
		want := &nornv1.LogRequest{Id: id.ID{1}.Bytes(), After: true, AfterToken: 6, AfterSeq: 0}
		if last := asked[len(asked)-1].Message; !protobuf.Equal(last, want) {
			t.Errorf("asked %v", last)
		}
		task, err := open(t, fakenode.New(t, script())).Wait(t.Context(), id.ID{1})
		if err != nil || task.GetState() != done {
			t.Errorf("%v, %v", task, err)
		}
	})
}

// TestWaitIsOverWhenTheTaskIsFinished: what one replica says of that others may be yet to
// hear, and a task may be retried before it is read.
func TestWaitIsOverWhenTheTaskIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := func(fakenode.Request) fakenode.Answer {
			return fakenode.Answer{Message: &nornv1.LogReply{State: nornv1.State_STATE_COMPLETED}}
		}
		get := func(s nornv1.State) fakenode.Script {
			return func(fakenode.Request) fakenode.Answer {
				return fakenode.Answer{Message: &nornv1.GetReply{Task: &nornv1.Task{State: s}}}
			}
		}
		gets := steps(get(nornv1.State_STATE_CLAIMED), get(nornv1.State_STATE_READY), get(nornv1.State_STATE_COMPLETED))
		n := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
			switch r.Method {
			case nornv1.Method_METHOD_LOG:
				return logs(r)
			case nornv1.Method_METHOD_GET:
				return gets(r)
			}
			return fakenode.Answer{}
		})
		task, err := open(t, n).Wait(t.Context(), id.ID{1})
		if err != nil || task.GetState() != nornv1.State_STATE_COMPLETED {
			t.Errorf("%v, %v", task, err)
		}
	})
}

// TestWaitReadsNoLog: it was sent every line of it, of which there may be 256 MiB.
func TestWaitReadsNoLog(t *testing.T) {
	n := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
		switch m := r.Message.(type) {
		case *nornv1.LogRequest:
			reply := &nornv1.LogReply{State: nornv1.State_STATE_COMPLETED}
			if m.GetAfterToken() < math.MaxUint64 || m.GetAfterSeq() < math.MaxUint64 {
				reply.Updates = []*nornv1.Update{{Data: []byte("a line")}}
			}
			return fakenode.Answer{Message: reply}
		case *nornv1.GetRequest:
			return fakenode.Answer{Message: &nornv1.GetReply{Task: &nornv1.Task{State: nornv1.State_STATE_COMPLETED}}}
		}
		return fakenode.Answer{}
	})
	if _, err := open(t, n).Wait(t.Context(), id.ID{1}); err != nil {
		t.Fatal(err)
	}
	for _, r := range n.Seen(nornv1.Method_METHOD_LOG) {
		if m := r.Message.(*nornv1.LogRequest); !m.GetAfter() || m.GetAfterToken() != math.MaxUint64 || m.GetAfterSeq() != math.MaxUint64 {
			t.Errorf("asked for %v", m)
		}
	}
}

func TestNotFound(t *testing.T) {
	missing := refuse(proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "task is not known here"))
	c := open(t, fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
		if r.Method == nornv1.Method_METHOD_HELLO {
			return fakenode.Answer{}
		}
		return missing(r)
	}))
	_, err := c.Get(t.Context(), id.ID{1})
	wantIs(t, err, ErrNotFound)
	if err.Error() != "get: task is not known here" {
		t.Errorf("text %q", err)
	}
	_, err = c.Wait(t.Context(), id.ID{1})
	wantIs(t, err, ErrNotFound)
	_, err = c.Count(t.Context(), "")
	wantIs(t, err, ErrNotFound)
	_, err = c.Status(t.Context())
	wantIs(t, err, ErrNotFound)
	for _, err := range c.List(t.Context(), Filter{}) {
		wantIs(t, err, ErrNotFound)
	}
}

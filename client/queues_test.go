package client

import (
	"slices"
	"testing"
	"testing/synctest"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestQueues(t *testing.T) {
	mail := &nornv1.Queue{Name: "mail", Version: 3, Settings: &nornv1.QueueSettings{LeaseSeconds: 60}}
	n := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
		switch m := r.Message.(type) {
		case *nornv1.QueuesRequest:
			if len(m.GetNames()) == 0 || m.GetNames()[0] == "mail" {
				return fakenode.Answer{Message: &nornv1.QueuesReply{Queues: []*nornv1.Queue{mail}}}
			}
			return fakenode.Answer{Message: &nornv1.QueuesReply{}}
		case *nornv1.SetQueueRequest:
			switch {
			case m.GetIfVersion() == 2:
				return fakenode.Answer{Err: proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "version 3")}
			case m.GetName() == "none":
				return fakenode.Answer{Message: &nornv1.QueuesReply{}}
			}
			return fakenode.Answer{Message: &nornv1.QueuesReply{Queues: []*nornv1.Queue{mail}}}
		}
		return fakenode.Answer{}
	})
	q := open(t, n).Queues()
	if all, err := q.List(t.Context()); err != nil || len(all) != 1 || !protobuf.Equal(all[0], mail) {
		t.Errorf("list: %v, %v", all, err)
	}
	if got, err := q.Get(t.Context(), "mail"); err != nil || !protobuf.Equal(got, mail) {
		t.Errorf("get: %v, %v", got, err)
	}
	_, err := q.Get(t.Context(), "never")
	wantIs(t, err, ErrNotFound)
	changes := []func() (*nornv1.Queue, error){
		func() (*nornv1.Queue, error) { return q.Pause(t.Context(), "mail", "") },
		func() (*nornv1.Queue, error) { return q.Drain(t.Context(), "mail", "moving") },
		func() (*nornv1.Queue, error) { return q.Resume(t.Context(), "mail") },
		func() (*nornv1.Queue, error) {
			return q.Set(t.Context(), "mail", QueueChange{Settings: mail.GetSettings(), Fields: []string{"lease_seconds"}, IfVersion: 3})
		},
	}
	for i, want := range []*nornv1.SetQueueRequest{
		{Name: "mail", Settings: &nornv1.QueueSettings{Paused: true, PausedBy: whoami()}, Fields: []string{"paused"}},
		{Name: "mail", Settings: &nornv1.QueueSettings{Draining: true, Note: "moving"}, Fields: []string{"draining", "note"}},
		{Name: "mail", Settings: &nornv1.QueueSettings{}, Fields: []string{"paused", "draining", "note"}},
		{Name: "mail", Settings: mail.GetSettings(), Fields: []string{"lease_seconds"}, IfVersion: 3},
	} {
		got, err := changes[i]()
		if err != nil || !protobuf.Equal(got, mail) {
			t.Errorf("change %d: %v, %v", i, got, err)
		}
		if sent := n.Seen(nornv1.Method_METHOD_SET_QUEUE)[i].Message; !protobuf.Equal(sent, want) {
			t.Errorf("sent %v, want %v", sent, want)
		}
	}
	_, err = q.Set(t.Context(), "mail", QueueChange{IfVersion: 2})
	wantIs(t, err, ErrConflict)
	wantIsNot(t, err, ErrUnknown)
	_, err = q.Pause(t.Context(), "none", "")
	wantIs(t, err, ErrInternal, ErrUnknown)
}

// A repeated change that hits its own version may have been made.
func TestSetQueueAfterLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moved := refuse(proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "version 4"))
		n := fakenode.New(t, only(nornv1.Method_METHOD_SET_QUEUE, steps(hangUp, moved)))
		_, err := open(t, n).Queues().Set(t.Context(), "q", QueueChange{IfVersion: 3, Fields: []string{"note"}})
		wantIs(t, err, ErrConflict, ErrUnknown)
	})
}

func TestPurge(t *testing.T) {
	n := fakenode.New(t, many(ends(nil, &nornv1.WriteResult{Receipt: &nornv1.Receipt{}}), 3))
	q := open(t, n).Queues()
	got, err := q.Purge(t.Context(), "mail", BulkOptions{})
	if err != nil || got != (Bulk{Matched: 3, Done: 3}) {
		t.Errorf("got %+v, %v", got, err)
	}
	states := []nornv1.State{waiting, scheduled, ready}
	if m := n.Seen(nornv1.Method_METHOD_CANCEL)[0].Message.(*nornv1.CancelRequest); !slices.Equal(m.GetOnlyStates(), states) {
		t.Errorf("sent %v", m.GetOnlyStates())
	}
	if m := n.Seen(nornv1.Method_METHOD_LIST)[0].Message.(*nornv1.ListRequest); m.GetQueue() != "mail" {
		t.Errorf("asked %v", m)
	}
	_, err = q.Purge(t.Context(), "", BulkOptions{})
	wantIs(t, err, ErrInvalid)
	if len(n.Seen(nornv1.Method_METHOD_LIST)) != 1 {
		t.Error("no queue is all queues")
	}
}

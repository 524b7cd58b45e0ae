package client

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// A kill whose answer was lost is for the worker that had the name, not for the one that
// has it when the kill is repeated.
func TestAKillIsForOneWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := &nornv1.Worker{Name: "w", Instance: bytes.Repeat([]byte{1}, 16), Named: true, State: nornv1.SessionState_SESSION_STATE_MUST_DIE}
		meant := &nornv1.Worker{Name: "w", Instance: bytes.Repeat([]byte{2}, 16), Named: true}
		waits := &nornv1.Worker{Name: "w", Instance: bytes.Repeat([]byte{3}, 16)}
		kill := steps(hangUp, refuse(proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "it has left")))
		n := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
			switch r.Method {
			case nornv1.Method_METHOD_WORKERS:
				return fakenode.Answer{Message: &nornv1.WorkersReply{Workers: []*nornv1.Worker{lost, meant, waits}}}
			case nornv1.Method_METHOD_SET_WORKER:
				return kill(r)
			}
			return fakenode.Answer{}
		})
		_, err := open(t, n).Workers().Kill(t.Context(), "w", "")
		wantIs(t, err, ErrNotFound, ErrUnknown)
		asked := n.Seen(nornv1.Method_METHOD_SET_WORKER)
		for _, r := range asked {
			if got := r.Message.(*nornv1.SetWorkerRequest).GetInstance(); !bytes.Equal(got, meant.Instance) {
				t.Errorf("instance %x was to be killed", got)
			}
		}
		if len(asked) != 2 {
			t.Errorf("asked %d times", len(asked))
		}
	})
}

// That a schedule is there already, when an answer was lost, may be our own doing.
func TestAScheduleThatMayBeOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exists := proto.Refused(nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS, "there is one").Proto()
		answer := func(fakenode.Request) fakenode.Answer {
			return fakenode.Answer{Message: &nornv1.ChangeSchedulesReply{Results: []*nornv1.ScheduleResult{{Error: exists}}}}
		}
		n := fakenode.New(t, only(nornv1.Method_METHOD_CHANGE_SCHEDULES, steps(hangUp, answer)))
		c := open(t, n)
		_, err := c.Schedules().Put(t.Context(), "s", &nornv1.ScheduleSpec{}, PutOptions{Create: true})
		wantIs(t, err, ErrAlreadyExists, ErrUnknown)
		_, err = c.Schedules().Put(t.Context(), "s", &nornv1.ScheduleSpec{}, PutOptions{Create: true})
		wantIs(t, err, ErrAlreadyExists)
		wantIsNot(t, err, ErrUnknown)
	})
}

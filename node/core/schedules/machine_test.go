package schedules

import (
	"math/rand/v2"
	"testing"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestEachLaunchHasItsOwnError: the whole request's, its own, or that it was not answered.
func TestEachLaunchHasItsOwnError(t *testing.T) {
	whole := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "nobody is there")
	for _, e := range enqueueErrors(2, nil, whole) {
		if e != whole {
			t.Errorf("of a request that failed a task has %v", e)
		}
	}
	own := proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "it drains").Proto()
	all := enqueueErrors(3, &nornv1.EnqueueReply{Results: []*nornv1.EnqueueResult{{}, {Error: own}}}, nil)
	if all[0] != nil || all[1] == nil || all[1].Kind != nornv1.ErrorKind_ERROR_KIND_CONFLICT || all[2] == nil || all[2].Kind != nornv1.ErrorKind_ERROR_KIND_INTERNAL {
		t.Errorf("three tasks, two answers, one of them an error: %v", all)
	}
}

// TestAPartOfLaunchesKeepsTheirTimes: each goes with when it was begun and until when it may be enqueued.
func TestAPartOfLaunchesKeepsTheirTimes(t *testing.T) {
	task := func(n byte) *nornv1.TaskSpec { return &nornv1.TaskSpec{Id: []byte{n}} }
	m := &nornv1.LaunchRequest{Tasks: []*nornv1.TaskSpec{task(1), task(2), task(3)}, Begun: []int64{10, 20, 30}, Until: []int64{11, 21, 31}}
	some := LaunchItems(m).Some([]int{2, 0}).(*nornv1.LaunchRequest)
	if len(some.Tasks) != 2 || some.Tasks[0].Id[0] != 3 || some.Begun[0] != 30 || some.Until[0] != 31 || some.Begun[1] != 10 || some.Until[1] != 11 {
		t.Errorf("the third and the first are %v", some)
	}
	m.Until = nil
	if some := LaunchItems(m).Some([]int{1}).(*nornv1.LaunchRequest); some.Until != nil || some.Begun[0] != 20 {
		t.Errorf("without bounds the second is %v", some)
	}
}

// TestRequestsOfTheMasterDiffer: each has its number, on a connection that is no client's, and one
// that has launched nothing is due never.
func TestRequestsOfTheMasterDiffer(t *testing.T) {
	k := New(Env{Ground: &ground.Ground{Rand: rand.New(rand.NewPCG(1, 2))}})
	a, b := k.Origin(nornv1.Method_METHOD_ENQUEUE), k.Origin(nornv1.Method_METHOD_ENQUEUE)
	if message.NumberOf(a) == message.NumberOf(b) || !a.Internal() || a.Conn != Conn {
		t.Errorf("two requests are %v and %v", a, b)
	}
	if wall, mono := k.Due(); wall != clock.Never || mono != clock.Never {
		t.Errorf("it is due at %d and %d", wall, mono)
	}
}

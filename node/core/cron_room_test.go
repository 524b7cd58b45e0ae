package core

import (
	"strings"
	"testing"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// TestARegisterWithoutRoomSaysSo at once: nobody else has changed the schedule, so to ask
// again does not help.
func TestARegisterWithoutRoomSaysSo(t *testing.T) {
	r := newRig(t)
	r.change(put("there", everySecond("q")))
	r.manual = true
	asked := 0
	from := r.send(1, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{put("more", everySecond("q")), put("there", everySecond("r"))}})
	for range 100 {
		r.turn()
		if _, answered := r.replies[from]; answered {
			break
		}
		waiting := r.waiting
		r.waiting = nil
		for _, req := range waiting {
			n := len(req.Schedules)
			if n > 0 {
				asked++
				req = register.Request{Tag: req.Tag}
			}
			r.register.Do(req, func(res register.Result) {
				if n > 0 {
					res.SchedulesWon = make([]bool, n)
				}
				r.step(message.Registered{Result: res})
			})
		}
	}
	reply, ok := r.replies[from].Message.(*nornv1.ChangeSchedulesReply)
	if !ok || asked != 1 || len(reply.GetResults()) != 2 {
		t.Fatalf("asked the register %d times: %v", asked, r.replies[from])
	}
	for _, res := range reply.GetResults() {
		e := res.GetError()
		if e.GetKind() != nornv1.ErrorKind_ERROR_KIND_OVERLOADED || !e.GetLasting() || e.GetEffect() != nornv1.Effect_EFFECT_NONE || !strings.Contains(e.GetMessage(), "no room") {
			t.Errorf("%v", e)
		}
	}
}

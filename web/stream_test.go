package web

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestStreamsTakeRoom: a page of a log stays in memory for as long as its reader takes,
// like any large answer. Those of streams were not counted, so that thousands of slow
// readers could take any amount.
func TestStreamsTakeRoom(t *testing.T) {
	large := &nornv1.LogReply{State: nornv1.State_STATE_COMPLETED, Updates: []*nornv1.Update{{Token: 7, Seq: 1, Data: make([]byte, smallAnswer)}}}
	end := &nornv1.LogReply{State: nornv1.State_STATE_COMPLETED}
	small := &nornv1.LogReply{State: nornv1.State_STATE_CLAIMED, Updates: []*nornv1.Update{{Token: 7, Data: []byte("x")}}}
	var log route
	for _, rt := range routes() {
		if rt.streams {
			log = rt
		}
	}
	follow := func(taken int64, pages ...*nornv1.LogReply) *httptest.ResponseRecorder {
		at := 0
		a := &api{guard: newGuard(Options{}, newMetrics(), nil), room: &room{limit: 1 << 20}, waits: newWaits(8)}
		during := int64(0)
		a.b = &backend{call: func(context.Context, nornv1.Method, gproto.Message) (gproto.Message, *proto.Error, func()) {
			during = a.room.taken.Load()
			at++
			return pages[at-1], nil, func() {}
		}}
		a.room.taken.Store(taken)
		r := localRequest("GET", "/api/v1/tasks/37dGamhT6KhgeCdJ3yaFwZAimIC/log", nil)
		r.SetPathValue("name", "37dGamhT6KhgeCdJ3yaFwZAimIC")
		r.Header.Set("Accept", "text/event-stream")
		w := httptest.NewRecorder()
		a.run(w, r, &log)
		if now := a.room.taken.Load(); now != taken || during != taken {
			t.Errorf("%d bytes are taken afterwards, %d between two pages, %d before", now, during, taken)
		}
		return w
	}
	if h := follow(0, small, end, end).Header(); h.Get("X-Accel-Buffering") != "no" || h.Get("Cache-Control") != "no-store, no-transform" {
		t.Errorf("a proxy may hold the events back: %v", h)
	}
	if w := follow(0, small, large, end); w.Code != 200 || !strings.Contains(w.Body.String(), "id: 7:1\n") || !strings.Contains(w.Body.String(), "event: end") {
		t.Errorf("with room: %d, %.300s", w.Code, w.Body)
	}
	if w := follow(1<<20, large); w.Code != 429 || w.Header().Get("Retry-After") == "" {
		t.Errorf("at its begin: %d, %.300s", w.Code, w.Body)
	}
	w := follow(1<<20, small, large)
	if text := w.Body.String(); w.Code != 200 || !strings.Contains(text, "id: 7:0\n") || strings.Contains(text, "id: 7:1\n") || !strings.Contains(text, `event: error
data: {"error":{"kind":"overloaded"`) {
		t.Errorf("in its middle: %d, %.300s", w.Code, text)
	}
}

// TestAStreamEndsOnceAMajorityHasNoMore: whoever waits is told of the end by one replica,
// which may be yet to hear the last updates, so that the stream ended without them.
func TestAStreamEndsOnceAMajorityHasNoMore(t *testing.T) {
	var log route
	for _, rt := range routes() {
		if rt.streams {
			log = rt
		}
	}
	var asked []*nornv1.LogRequest
	update := func(seq uint64) []*nornv1.Update { return []*nornv1.Update{{Token: 7, Seq: seq}} }
	pages := []*nornv1.LogReply{
		{State: nornv1.State_STATE_CLAIMED, Updates: update(0)},
		{State: nornv1.State_STATE_COMPLETED}, // to who waits
		{State: nornv1.State_STATE_COMPLETED, Updates: update(1)},
		{State: nornv1.State_STATE_COMPLETED},
	}
	a := &api{guard: newGuard(Options{}, newMetrics(), nil), room: &room{limit: 1 << 20}, waits: newWaits(8)}
	a.b = &backend{call: func(_ context.Context, _ nornv1.Method, m gproto.Message) (gproto.Message, *proto.Error, func()) {
		asked = append(asked, gproto.CloneOf(m.(*nornv1.LogRequest)))
		return pages[len(asked)-1], nil, func() {}
	}}
	r := localRequest("GET", "/api/v1/tasks/37dGamhT6KhgeCdJ3yaFwZAimIC/log", nil)
	r.SetPathValue("name", "37dGamhT6KhgeCdJ3yaFwZAimIC")
	r.Header.Set("Accept", "text/event-stream")
	w := httptest.NewRecorder()
	a.run(w, r, &log)
	if text := w.Body.String(); !strings.Contains(text, "id: 7:1\n") || strings.Count(text, "event: end") != 1 {
		t.Errorf("%s", text)
	}
	for i, want := range []float64{0, followWait, 0, 0} {
		if got := asked[i].GetWaitSeconds(); got != want {
			t.Errorf("request %d waits for %v s, not %v", i, got, want)
		}
	}
}

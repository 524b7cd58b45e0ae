package check

import (
	"strings"
	"testing"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// TestForbidden: what the reference forbids is found, and nothing else is.
func TestForbidden(t *testing.T) {
	mail, bill := id.ID{1}, id.ID{2}
	own := []string{"mail"}
	for name, c := range map[string]struct {
		asked, end history.Event
		want       string
	}{
		"sees its own":          {history.Event{Text: "get", Queues: own}, history.Event{Phase: history.OK, Items: []history.Item{{Task: mail, State: history.Ready}}}, ""},
		"sees another's":        {history.Event{Text: "get", Queues: own}, history.Event{Phase: history.OK, Items: []history.Item{{Task: bill, State: history.Ready}}}, "carried out"},
		"lists another's":       {history.Event{Text: "list", Queues: own}, history.Event{Phase: history.OK, Items: []history.Item{{Task: mail}, {Task: bill}}}, "carried out"},
		"finds nothing":         {history.Event{Text: "get", Queues: own}, history.Event{Phase: history.OK, Items: []history.Item{{Task: bill, State: history.Absent}}}, ""},
		"is told nothing":       {history.Event{Text: "cancel", Queues: own, Items: []history.Item{{Task: bill}}}, history.Event{Phase: history.OK, Items: []history.Item{{Task: bill, Error: "NOT_FOUND"}}}, ""},
		"is told something":     {history.Event{Text: "cancel", Queues: own, Items: []history.Item{{Task: bill}}}, history.Event{Phase: history.OK, Items: []history.Item{{Task: bill, Error: "CONFLICT"}}}, "tells of a task"},
		"is told by a refusal":  {history.Event{Text: "log", Queues: own, Items: []history.Item{{Task: bill}}}, history.Event{Phase: history.Fail, Error: "PERMISSION_DENIED"}, "tells of a task"},
		"counts its own":        {history.Event{Text: "count", Queues: own}, history.Event{Phase: history.OK, Tallies: []history.Tally{{Queue: "mail", Total: 3}}}, ""},
		"counts another's":      {history.Event{Text: "count", Queues: own}, history.Event{Phase: history.OK, Tallies: []history.Tally{{Queue: "bill", Total: 3}}}, "a count of queue bill"},
		"ends its own claim":    {history.Event{Text: "fail", By: "w1", Items: []history.Item{{Task: bill, Token: 7}}}, history.Event{Phase: history.OK, Items: []history.Item{{Task: bill}}}, ""},
		"ends another's claim":  {history.Event{Text: "fail", By: "w2", Items: []history.Item{{Task: bill, Token: 7}}}, history.Event{Phase: history.OK, Items: []history.Item{{Task: bill}}}, "which is w1's"},
		"is refused that":       {history.Event{Text: "fail", By: "w2", Items: []history.Item{{Task: bill, Token: 7}}}, history.Event{Phase: history.OK, Items: []history.Item{{Task: bill, Error: "CLAIM_LOST"}}}, ""},
		"completes another's":   {history.Event{Text: "complete", By: "w2", Items: []history.Item{{Task: bill, Token: 7}}}, history.Event{Phase: history.OK, Items: []history.Item{{Task: bill}}}, ""},
		"has an unknown answer": {history.Event{Text: "cancel", Queues: own, Items: []history.Item{{Task: bill}}}, history.Event{Phase: history.Info}, ""},
	} {
		r := NewRights()
		for _, e := range []*history.Event{
			{Op: 1, Phase: history.Invoke, Func: history.Enqueue, Items: []history.Item{{Task: mail, Spec: &history.Spec{Queue: "mail"}}, {Task: bill, Spec: &history.Spec{Queue: "bill"}}}},
			{Op: 2, Phase: history.Invoke, Func: history.Claim, By: "w1"},
			{Op: 2, Phase: history.OK, Func: history.Claim, Items: []history.Item{{Task: bill, Token: 7}}},
		} {
			r.Event(e)
		}
		c.asked.Op, c.asked.Phase, c.asked.Func, c.end.Op, c.end.Func = 3, history.Invoke, history.Try, 3, history.Try
		r.Event(&c.asked)
		v := r.Event(&c.end)
		if (v != nil) != (c.want != "") || v != nil && (v.Invariant != Forbidden || !strings.Contains(v.Text, c.want)) {
			t.Errorf("%s: %v, want %q", name, v, c.want)
		}
	}
}

package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/jepsen/hunt/policies"
	"github.com/norn-dev/norn/node/core/query"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestQueuesComeInPages: queues with long notes would fit no frame, and nobody could list
// them any more. However they are cut, all come once, in order, and a page has a bound.
func TestQueuesComeInPages(t *testing.T) {
	r := newRig(t)
	var want []string
	for n := range 30 {
		name := fmt.Sprintf("q%02d", n)
		r.set(name, &nornv1.QueueSettings{Note: strings.Repeat("x", 1000)}, "note")
		want = append(want, name)
	}
	for _, limit := range []uint32{0, 1, 7, 30, 31} {
		var got []string
		for cursor := []byte(nil); ; {
			m := must[*nornv1.QueuesReply](r, &nornv1.QueuesRequest{Limit: limit, Cursor: cursor})
			if n := len(m.GetQueues()); n == 0 || limit > 0 && n > int(limit) {
				t.Fatalf("a page of %d has %d queues", limit, n)
			}
			for _, q := range m.GetQueues() {
				got = append(got, q.GetName())
			}
			if cursor = m.GetNextCursor(); len(cursor) == 0 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %v", limit, got)
		}
	}
	if reply := r.ask(&nornv1.QueuesRequest{Names: make([]string, 1001)}); reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Errorf("too many names: %v", reply)
	}
}

// TestPagesOfSeveralNodesJoin: what a part has not shown may come before what others have,
// and a page of large entries ends before it fits no frame.
func TestPagesOfSeveralNodesJoin(t *testing.T) {
	queue := func(name string, bytes int) *nornv1.Queue {
		return &nornv1.Queue{Name: name, Count: &nornv1.Count{Ready: 1}, Settings: &nornv1.QueueSettings{Note: strings.Repeat("x", bytes)}}
	}
	cut := query.QueueCursor.Seal([]byte("c"))
	for what, c := range map[string]struct {
		pages []*nornv1.QueuesReply
		want  string
		next  string
	}{
		"whole":               {[]*nornv1.QueuesReply{{Queues: []*nornv1.Queue{queue("a", 0), queue("c", 0)}}, {Queues: []*nornv1.Queue{queue("b", 0), queue("c", 0)}}}, "abc", ""},
		"one has more":        {[]*nornv1.QueuesReply{{Queues: []*nornv1.Queue{queue("a", 0), queue("c", 0)}, NextCursor: cut}, {Queues: []*nornv1.Queue{queue("b", 0), queue("d", 0)}}}, "abc", "c"},
		"it has no more here": {[]*nornv1.QueuesReply{{Queues: []*nornv1.Queue{queue("c", 0)}, NextCursor: cut}, {Queues: []*nornv1.Queue{queue("a", 0)}}}, "ac", "c"},
		"too large":           {[]*nornv1.QueuesReply{{Queues: []*nornv1.Queue{queue("a", 3<<20)}}, {Queues: []*nornv1.Queue{queue("b", 3<<20)}}}, "a", "a"},
	} {
		l := &query.Queues{Policy: policies.Chosen().Query, Asked: &nornv1.QueuesRequest{}}
		for _, p := range c.pages {
			l.Take(nil, p)
		}
		m, err := l.Answer()
		got := ""
		for _, q := range m.(*nornv1.QueuesReply).GetQueues() {
			got += q.GetName()
		}
		last, _ := query.QueueCursor.Open(m.(*nornv1.QueuesReply).GetNextCursor())
		if next := string(last); err != nil || got != c.want || next != c.next {
			t.Errorf("%s: %s, then after %q: %v", what, got, next, err)
		}
	}
}

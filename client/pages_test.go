package client

import (
	"strings"
	"testing"

	"github.com/norn-dev/norn/client/internal/fakenode"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestQueuesAndWorkersAreReadPageByPage: a list that does not end with its first page is
// read to its end.
func TestQueuesAndWorkersAreReadPageByPage(t *testing.T) {
	const all = "abcde"
	next := func(cursor []byte) (name string, after []byte) {
		at := strings.Index(all, string(cursor)) + len(cursor)
		if name = all[at : at+1]; at+1 < len(all) {
			after = []byte(name)
		}
		return name, after
	}
	n := fakenode.New(t, func(q fakenode.Request) fakenode.Answer {
		switch m := q.Message.(type) {
		case *nornv1.QueuesRequest:
			name, after := next(m.GetCursor())
			return fakenode.Answer{Message: &nornv1.QueuesReply{Queues: []*nornv1.Queue{{Name: name}}, NextCursor: after}}
		case *nornv1.WorkersRequest:
			name, after := next(m.GetCursor())
			return fakenode.Answer{Message: &nornv1.WorkersReply{Workers: []*nornv1.Worker{{Name: name}}, NextCursor: after}}
		}
		return fakenode.Answer{}
	})
	c := open(t, n)
	got := ""
	queues, err := c.Queues().List(t.Context())
	for _, q := range queues {
		got += q.GetName()
	}
	if err != nil || got != all {
		t.Errorf("queues are %s, %v", got, err)
	}
	got = ""
	workers, err := c.Workers().List(t.Context())
	for _, w := range workers {
		got += w.GetName()
	}
	if err != nil || got != all {
		t.Errorf("workers are %s, %v", got, err)
	}
}

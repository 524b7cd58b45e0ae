package tasks

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/intake"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestLostBatchIsNamed checks what is said of a batch whose outcome is unknown.
func TestLostBatchIsNamed(t *testing.T) {
	a := commands{}
	list := render.NewList(render.New(io.Discard, render.JSON, false), func(*nornv1.Receipt) jsonform.Value { return jsonform.Value{} },
		render.Column[*nornv1.Receipt]{Cell: (*nornv1.Receipt).GetId})
	lost := &client.Error{Op: "enqueue", Unknown: true, Err: errors.New("connection lost")}
	bad := []*intake.Error{{Line: 4, Err: errors.New("bad")}, {Line: 9, Err: errors.New("worse")}}
	known, _ := id.Parse("37dGamhT6KhgeCdJ3yaFwZAimIC")
	batch := &intake.Batch{Tasks: []client.Task{{ID: known}, {Key: "k"}, {ID: known}}, Lines: []int{3, 5, 7}, Bad: bad, Err: lost}
	got := a.refusals(batch, list)
	if len(got) != 5 || !strings.HasPrefix(got[1].Error(), "lines 3 to 7, and what follows: enqueue: outcome unknown") || cli.ExitCode(got[0]) != 2 || cli.ExitCode(got[1]) != 4 {
		t.Errorf("got %v", got)
	}
	for i, want := range []string{"line 3: outcome unknown; its ID is " + known.String(), `line 5: outcome unknown; its key is "k"`, "line 7: outcome unknown; its ID is " + known.String()} {
		if got[2+i].Error() != want {
			t.Errorf("got %q, want %q", got[2+i], want)
		}
	}
	batch.Err = &client.Error{Op: "enqueue", Err: errors.New("no connection")}
	if got = a.refusals(batch, list); len(got) != 2 {
		t.Errorf("what was surely not sent: %v", got)
	}
	got = a.refusals(&intake.Batch{Tasks: make([]client.Task, 1), Lines: []int{0}, Err: lost}, list)
	if len(got) != 1 || !strings.HasSuffix(got[0].Error(), "; its ID is 000000000000000000000000000") || list.Len() != 0 {
		t.Errorf("got %v", got)
	}
}

package norntest_test

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/norntest"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// What is over the limits of one request goes in several, whatever is large in it.
func TestBatchesOverTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, c := t.Context(), norntest.Start(t).Client(t)
		const waiting = proto.MaxBatchDependencies/proto.MaxDependencies + 2
		tasks := make([]client.Task, waiting)
		for i := range tasks {
			tasks[i] = client.Task{Queue: "waiting", Dependencies: c.NewIDs(proto.MaxDependencies)}
		}
		results, err := c.EnqueueMany(ctx, tasks)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if r.Err != nil {
				t.Errorf("task %d: %v", i, r.Err)
			}
		}

		const done = proto.MaxFrame/proto.MaxUpdateBytes + 1
		if _, err := c.EnqueueMany(ctx, slices.Repeat([]client.Task{{Queue: "done"}}, done)); err != nil {
			t.Fatal(err)
		}
		claims, err := c.Claim(ctx, client.ClaimRequest{Queues: []string{"done"}, Max: done, Wait: time.Second})
		if err != nil || len(claims) != done {
			t.Fatalf("%d claims, %v", len(claims), err)
		}
		var completions []*nornv1.Completion
		for i, claim := range claims {
			completions = append(completions, &nornv1.Completion{
				Id: claim.ID.Bytes(), Token: claim.Token, Result: bytes.Repeat([]byte{byte(i)}, proto.MaxUpdateBytes),
			})
		}
		results, err = c.CompleteMany(ctx, completions)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if r.Err != nil {
				t.Errorf("completion %d: %v", i, r.Err)
			}
		}
	})
}

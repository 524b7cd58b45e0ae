package job_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/norntest"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/objects"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// put enqueues a task and gives its ID.
func put(t *testing.T, c *client.Client, task client.Task) id.ID {
	t.Helper()
	r, err := c.EnqueueMany(t.Context(), []client.Task{task})
	if err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	return r[0].ID
}

// told is what a restore has said.
type told struct {
	now map[id.ID]id.ID
	why map[id.ID]string
}

func into(t *testing.T, c *client.Client, from objects.Store, m *backup.Manifest, change func(*job.IntoOptions)) (*job.IntoReport, told) {
	t.Helper()
	heard := told{make(map[id.ID]id.ID), make(map[id.ID]string)}
	o := job.IntoOptions{From: from, Manifest: m, To: c, Grace: 168 * time.Hour, Now: time.Now, Told: func(old, now id.ID, why string) {
		heard.now[old], heard.why[old] = now, why
	}}
	change(&o)
	r, err := job.Into(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r, heard
}

// TestIntoAClusterInUse: with a prefix all tasks get new IDs, in the same order, and what
// depends on them does on those; without one IDs stay, what is there is left alone, and a key
// names the task that it names there. The same again enqueues nothing.
func TestIntoAClusterInUse(t *testing.T) {
	a, b, dir := norntest.Start(t).Client(t), norntest.Start(t).Client(t), place(t, t.TempDir())
	first := put(t, a, client.Task{Queue: "mail", Kind: "send", Tags: []string{"x"}, Payload: []byte("one"), Priority: 7, Headers: map[string]string{"h": "v"}})
	keyed := put(t, a, client.Task{Queue: "mail", Key: "k", Payload: []byte("two")})
	last := put(t, a, client.Task{Queue: "late", Dependencies: []id.ID{first, keyed}})
	put(t, a, client.Task{Queue: "done"})
	grants, err := a.Claim(t.Context(), client.ClaimRequest{Queues: []string{"done"}, Max: 1})
	if err != nil || len(grants) != 1 {
		t.Fatal(err)
	}
	if _, err := a.Complete(t.Context(), grants[0].ID, grants[0].Token, client.CompleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m := take(t, options(a, dir), nil)
	there := put(t, b, client.Task{Queue: "mail", Key: "k", Payload: []byte("two")})

	dry, _ := into(t, b, dir, m, func(o *job.IntoOptions) { o.Prefix, o.DryRun = "old/", true })
	if *dry != (job.IntoReport{Tasks: 4, Finished: 1, Enqueued: 3}) {
		t.Errorf("dry run: %+v", dry)
	}
	r, heard := into(t, b, dir, m, func(o *job.IntoOptions) { o.Prefix = "old/" })
	if *r != (job.IntoReport{Tasks: 4, Finished: 1, Enqueued: 3}) {
		t.Errorf("with a prefix: %+v", r)
	}
	task, err := b.Get(t.Context(), heard.now[first])
	if err != nil || task.GetQueue() != "old/mail" || task.GetKind() != "send" || task.GetPriority() != 7 || string(task.GetPayload()) != "one" || task.GetHeaders()["h"] != "v" || !slices.Equal(task.GetTags(), []string{"x"}) {
		t.Errorf("the first is %+v: %v", task, err)
	}
	task, err = b.Get(t.Context(), heard.now[last])
	want := slices.Sorted(slices.Values([]string{heard.now[first].String(), heard.now[keyed].String()}))
	if err != nil || !slices.Equal(slices.Sorted(slices.Values(task.GetDependencies())), want) || task.GetState() != nornv1.State_STATE_WAITING {
		t.Errorf("the last depends on %v in state %v, not on %v: %v", task.GetDependencies(), task.GetState(), want, err)
	}
	if heard.now[first] == first || heard.now[last] == last || heard.now[first].Compare(heard.now[last]) >= 0 {
		t.Errorf("new IDs %v", heard.now)
	}
	again, same := into(t, b, dir, m, func(o *job.IntoOptions) { o.Prefix = "old/" })
	if *again != (job.IntoReport{Tasks: 4, Finished: 1, Existed: 3}) || !maps.Equal(same.now, heard.now) {
		t.Errorf("again: %+v, %v", again, same.now)
	}

	other := *m // servers of norntest are of one cluster
	other.Cluster = "00000000-0000-0000-0000-000000000000"
	r, heard = into(t, b, dir, &other, func(*job.IntoOptions) {})
	if *r != (job.IntoReport{Tasks: 4, Finished: 1, Enqueued: 2, Existed: 1}) || heard.now[first] != first || heard.now[last] != last || heard.now[keyed] != there {
		t.Errorf("without: %+v, %v", r, heard.now)
	}
	r, heard = into(t, b, dir, &other, func(o *job.IntoOptions) { o.Now = func() time.Time { return time.Now().Add(200 * time.Hour) } })
	if *r != (job.IntoReport{Tasks: 4, Finished: 1, LeftOut: 3}) || !strings.Contains(heard.why[keyed], "older than gc-grace") {
		t.Errorf("from a backup older than gc-grace: %+v, %v", r, heard.why)
	}
	if _, err := job.Into(t.Context(), job.IntoOptions{From: dir, Manifest: m, To: a, Now: time.Now, Grace: time.Hour}); err == nil || !strings.Contains(err.Error(), "the cluster that the backup is of") {
		t.Errorf("into its own cluster: %v", err)
	}
}

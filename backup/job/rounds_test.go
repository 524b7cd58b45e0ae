package job_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/client"
)

// TestRounds: a backup is taken when it is time for one, a full one after so many incremental
// ones; those that stay can be restored, and of the others nothing is left. One that was
// interrupted is gone on with.
func TestRounds(t *testing.T) {
	c, dir := filled(t, 30), place(t, t.TempDir())
	now := time.Now().Add(-1000 * time.Hour).Truncate(time.Second)
	r := job.Rounds{Options: options(c, dir), Every: time.Hour, Keep: 2, Incrementals: 2}
	r.Now = func() time.Time { return now }
	var depths []int
	for i := range 6 {
		if _, err := c.EnqueueMany(t.Context(), []client.Task{{Queue: "mail"}}); err != nil {
			t.Fatal(err)
		}
		newest, m, err := r.Round(t.Context())
		if err != nil || m == nil || !newest.Equal(m.Began) {
			t.Fatalf("round %d: %v, %+v, %v", i, newest, m, err)
		}
		depths = append(depths, m.Depth)
		now = now.Add(time.Hour - time.Second)
		if newest, m, err := r.Round(t.Context()); err != nil || m != nil || newest.IsZero() {
			t.Fatalf("before it is time: %v, %+v, %v", newest, m, err)
		}
		now = now.Add(2 * time.Second)
	}
	for i, want := range []int{0, 1, 2, 0, 1, 2} {
		if depths[i] != want {
			t.Fatalf("depths %v", depths)
		}
	}
	all, bad, err := job.List(t.Context(), dir)
	if err != nil || len(bad) > 0 || len(all) != 3 { // two, and the full one that they build on
		t.Fatalf("%d backups, %v, %v", len(all), bad, err)
	}
	for _, m := range all {
		verified(t, dir, m)
	}
	infos, err := dir.List(t.Context(), "norn-")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		kept := strings.HasSuffix(i.Name, ".snapshot")
		for _, m := range all {
			kept = kept || strings.HasPrefix(i.Name, m.Name+".")
		}
		if !kept {
			t.Errorf("%s is left", i.Name)
		}
	}
	now = now.Add(time.Hour)
	r.Place = &failing{Store: dir, left: 1}
	if _, _, err := r.Round(t.Context()); !errors.Is(err, errPlace) {
		t.Fatal(err)
	}
	r.Place = dir
	began := now
	now = now.Add(10 * time.Minute)
	_, m, err := r.Round(t.Context())
	if err != nil || !m.Began.Equal(began.UTC()) {
		t.Fatalf("gone on with: %+v, %v", m, err)
	}
	verified(t, dir, m)
}

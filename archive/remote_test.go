package archive

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/internal/objects/objectstest"
)

// gate is a store that gives nothing before so many ask at once.
type gate struct {
	objects.Store
	missing atomic.Int32
	open    chan struct{}
}

func (g *gate) Get(ctx context.Context, name string) ([]byte, error) {
	if g.missing.Add(-1) == 0 {
		close(g.open)
	}
	select {
	case <-g.open:
		return g.Store.Get(ctx, name)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestManifestsAreReadBesideEachOther: one after the other, those of a year would take an
// hour where the store is far. They are in order all the same, and so are those that
// cannot be read.
func TestManifestsAreReadBesideEachOther(t *testing.T) {
	objectstest.Login(t)
	w, err := Open(objectstest.Serve(t).Address("archives"), Options{Cluster: "0f9e8d7c-6b5a-4938-8776-655443322110", Node: "127.0.0.1:7712"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	var want, bad []string
	for i := range 8 {
		m, err := w.Write(t.Context(), now.Add(time.Duration(i)*time.Second), finished(1))
		if err != nil {
			t.Fatal(err)
		}
		if i%4 < 3 {
			want = append(want, m.File)
			continue
		}
		name := strings.TrimSuffix(m.File, dataExt) + manifestExt
		bad = append(bad, name)
		if err := w.fs.(remote).store.Put(t.Context(), name, []byte("half")); err != nil {
			t.Fatal(err)
		}
	}
	g := &gate{Store: w.fs.(remote).store, open: make(chan struct{})}
	g.missing.Store(8)
	c, err := readContents(remote{store: g, until: t.Context()}, "")
	if err != nil {
		t.Fatal(err)
	}
	var got, failed []string
	for _, m := range c.manifests {
		got = append(got, m.File)
	}
	for _, p := range c.problems {
		failed = append(failed, p.File)
	}
	if !slices.Equal(got, want) || !slices.Equal(failed, bad) {
		t.Errorf("read %v, want %v; failed %v, want %v", got, want, failed, bad)
	}
}

// TestArchivesInAStore: what is written to S3 reads as it was written, verifies, and
// what an interrupted write has left there is swept by the next one.
func TestArchivesInAStore(t *testing.T) {
	objectstest.Login(t)
	address := objectstest.Serve(t).Address("archives")
	w, err := Open(address, Options{Cluster: "0f9e8d7c-6b5a-4938-8776-655443322110", Node: "127.0.0.1:7712"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	tasks := finished(3)
	left, err := w.fs.Create("x/" + name{owner: w.owner, at: now, seq: 1}.stem() + dataExt)
	if err == nil {
		_, err = left.Write([]byte("half"))
	}
	if err == nil {
		err = left.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(t.Context(), now, tasks); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(t.Context(), now.Add(time.Second), tasks[:1]); err != nil {
		t.Fatal(err)
	}
	all, err := Manifests(address)
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	var ids []string
	for _, m := range all {
		for task, err := range Read(address, m) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, task.GetId())
		}
	}
	want := []string{tasks[0].GetId(), tasks[1].GetId(), tasks[2].GetId(), tasks[0].GetId()}
	if !slices.Equal(ids, want) {
		t.Errorf("read %v, wrote %v", ids, want)
	}
	r, err := Verify(t.Context(), address, nil)
	if err != nil || r.Archives != 2 || r.Tasks != 4 || len(r.Problems)+len(r.Unfinished) != 0 {
		t.Errorf("verified %+v, %v", r, err)
	}
}

// TestAWriteEndsWithItsContext: a store that takes a request and never answers keeps
// nobody who is about to end.
func TestAWriteEndsWithItsContext(t *testing.T) {
	objectstest.Login(t)
	ctx, cancel := context.WithCancel(t.Context())
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	w, err := Open("s3://backups/archives?region=us-east-1&endpoint="+silent.URL, Options{Cluster: cluster, Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(ctx, noon, finished(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestAWriteDoesNotLookThroughAllArchives: there are more of them with each Write, so
// that in a store of objects listing them takes longer each time, in the end for ever.
func TestAWriteDoesNotLookThroughAllArchives(t *testing.T) {
	fs := littered(t)
	var lists int
	w := writerOn(t, faulty{fs, func(op, _ string) (bool, error) {
		if op == "list" {
			lists++
		}
		return false, nil
	}}, "n1")
	for i := range 3 {
		if _, err := w.Write(t.Context(), noon, finished(1)); err != nil || lists != 1 {
			t.Fatalf("%d lists of the directory after %d writes, %v", lists, i+1, err)
		}
	}
	if c := sound(t, fs, "in the end"); len(c.manifests) != 4 || strings.Contains(strings.Join(c.unfinished, " "), "-n1-") {
		t.Errorf("%d archives, unfinished %q", len(c.manifests), c.unfinished)
	}
}

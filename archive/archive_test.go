package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/objects"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const cluster = "0f9e8d7c-6b5a-4938-8776-655443322110"

var noon = time.Date(2026, 12, 1, 12, 0, 0, 5, time.UTC)

// finished makes n finished tasks with IDs that follow each other.
func finished(n int) []*nornv1.Task {
	g := id.NewGenerator(1, func() uint64 { return 1 })
	out := make([]*nornv1.Task, n)
	for i := range out {
		at := noon.Add(time.Duration(i-n) * time.Second)
		out[i] = &nornv1.Task{
			Id: g.Next(at.UnixNano()).String(), Queue: "mail", Payload: []byte(fmt.Sprintf("payload %d", i)), State: nornv1.State_STATE_COMPLETED,
			CreatedAt: timestamppb.New(at), FinishedAt: timestamppb.New(at.Add(time.Second)), Headers: map[string]string{"a": "1", "b": "2"},
			Claims: []*nornv1.Claim{{Token: 1 << 32, Worker: "w", Start: timestamppb.New(at), Outcome: nornv1.ClaimOutcome_CLAIM_OUTCOME_COMPLETED}},
		}
	}
	return out
}

func open(t testing.TB, dir, node string) *Writer {
	t.Helper()
	w, err := Open(dir, Options{Cluster: cluster, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t testing.TB, w *Writer, now time.Time, tasks []*nornv1.Task) Manifest {
	t.Helper()
	m, err := w.Write(t.Context(), now, tasks)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// collect reads an archive to its end.
func collect(dir string, m Manifest) (out []*nornv1.Task, err error) {
	for task, err := range Read(dir, m) {
		if err != nil {
			return out, err
		}
		out = append(out, task)
	}
	return out, nil
}

func same(a, b []*nornv1.Task) bool {
	return slices.EqualFunc(a, b, func(x, y *nornv1.Task) bool { return proto.Equal(x, y) })
}

func TestWriteAndRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b") // missing, with its parent
	tasks := finished(1000)
	m := write(t, open(t, dir, "n1"), noon, tasks)
	if m.Tasks != 1000 || m.FirstID != tasks[0].GetId() || m.LastID != tasks[999].GetId() || !m.CreatedAt.Equal(noon) || m.Cluster != cluster || m.Node != "n1" {
		t.Errorf("manifest %+v", m)
	}
	if !m.MinFinishedAt.Equal(noon.Add(-999*time.Second)) || !m.MaxFinishedAt.Equal(noon) {
		t.Errorf("finished from %s to %s", m.MinFinishedAt, m.MaxFinishedAt)
	}
	if want := "norn-0f9e8d7c6b5a49388776655443322110-n1-20261201T120000.000000005-0001.zst"; m.File != want {
		t.Errorf("file %s, want %s", m.File, want)
	}
	if info, err := os.Stat(filepath.Join(dir, m.File)); err != nil || info.Size() != int64(m.Bytes) || m.Bytes >= m.RecordsBytes {
		t.Errorf("%d bytes for %d of records: %v, %v", m.Bytes, m.RecordsBytes, info, err)
	}
	all, err := Manifests(dir)
	if err != nil || len(all) != 1 || all[0] != m {
		t.Fatalf("manifests %+v, %v; want %+v", all, err, m)
	}
	if got, err := collect(dir, all[0]); err != nil || !same(got, tasks) {
		t.Errorf("%d tasks come back, %v", len(got), err)
	}
	var steps [][2]int
	r, err := Verify(t.Context(), dir, func(done, total int) { steps = append(steps, [2]int{done, total}) })
	if err != nil || len(r.Problems)+len(r.Unfinished) != 0 || r.Archives != 1 || r.Tasks != 1000 || r.Bytes != m.Bytes || r.RecordsBytes != m.RecordsBytes {
		t.Errorf("report %+v, %v", r, err)
	}
	if len(steps) != 3 || steps[0] != [2]int{256, 1000} {
		t.Errorf("progress %v", steps)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 2 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// anyTask draws a task with any content that a wire message can have.
func anyTask(g *id.Generator) *rapid.Generator[*nornv1.Task] {
	return rapid.Custom(func(t *rapid.T) *nornv1.Task {
		text, data := rapid.StringN(0, 20, -1), rapid.SliceOfN(rapid.Byte(), 0, 300)
		stamp := rapid.Ptr(rapid.Custom(func(t *rapid.T) instant {
			return instant{rapid.Int64().Draw(t, "seconds"), rapid.Int32().Draw(t, "nanos")}
		}), true)
		out := &nornv1.Task{
			Id: g.Next(noon.UnixNano()).String(), Queue: text.Draw(t, "queue"), Payload: data.Draw(t, "payload"),
			State:      rapid.SampledFrom([]nornv1.State{nornv1.State_STATE_COMPLETED, nornv1.State_STATE_DEAD, nornv1.State_STATE_CANCELLED}).Draw(t, "state"),
			Headers:    rapid.MapOfN(text, text, 0, 5).Draw(t, "headers"),
			Error:      text.Draw(t, "error"),
			Result:     data.Draw(t, "result"),
			FinishedAt: stamp.Draw(t, "finished").stamp(), CompletedAt: stamp.Draw(t, "completed").stamp(),
		}
		for range rapid.IntRange(0, 5).Draw(t, "claims") {
			out.Claims = append(out.Claims, &nornv1.Claim{Token: rapid.Uint64().Draw(t, "token"), Worker: text.Draw(t, "worker"), Start: stamp.Draw(t, "start").stamp()})
			out.Updates = append(out.Updates, &nornv1.Update{Seq: rapid.Uint64().Draw(t, "seq"), Data: data.Draw(t, "data")})
		}
		return out
	})
}

type instant struct {
	seconds int64
	nanos   int32
}

func (v *instant) stamp() *timestamppb.Timestamp {
	if v == nil {
		return nil
	}
	return &timestamppb.Timestamp{Seconds: v.seconds, Nanos: v.nanos}
}

// TestAnyTasksComeBack writes tasks of any content, several times, from several
// nodes with any names, at any times, into one directory.
func TestAnyTasksComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		fs := newMemory(t)
		tasks := rapid.SliceOfN(anyTask(id.NewGenerator(1, func() uint64 { return 1 })), 1, 6)
		want := map[string][]*nornv1.Task{}
		for range rapid.IntRange(1, 3).Draw(r, "writes") {
			w, err := newWriter(fs, memDir, Options{
				Cluster: cluster, Level: rapid.SampledFrom([]int{1, 1, 1, 1, 0, 7}).Draw(r, "level"),
				Node: rapid.OneOf(rapid.SampledFrom([]string{"n1", "n1-n1", "N1", "127.0.0.1:7712"}), rapid.StringN(1, 60, 255)).Draw(r, "node"),
			})
			if err != nil {
				r.Fatal(err)
			}
			now := noon.Add(time.Duration(rapid.Int64Range(0, 3).Draw(r, "now")))
			batch := tasks.Draw(r, "tasks")
			m, err := w.Write(context.Background(), now, batch)
			if err != nil {
				r.Fatal(err)
			}
			if want[m.File] != nil {
				r.Fatalf("%s was written twice", m.File)
			}
			want[m.File] = batch
		}
		c, err := readContents(fs, memDir)
		if err != nil || len(c.manifests) != len(want) || len(c.unfinished)+len(c.problems) > 0 {
			r.Fatalf("%+v of %d, %v", c, len(want), err)
		}
		for _, m := range c.manifests {
			var got []*nornv1.Task
			err := readFile(fs, memDir, &m, func(task *nornv1.Task) bool { got = append(got, task); return true })
			if err != nil || !same(got, want[m.File]) {
				r.Errorf("%s: %d tasks come back, %v", m.File, len(got), err)
			}
		}
	})
}

func TestReadingCanStop(t *testing.T) {
	dir := t.TempDir()
	m := write(t, open(t, dir, "n1"), noon, finished(10))
	n := 0
	for task, err := range Read(dir, m) {
		if err != nil || task == nil {
			t.Fatalf("%v, %v", task, err)
		}
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d tasks before the end", n)
	}
}

func TestManifestsAreOrderedByTime(t *testing.T) {
	dir := t.TempDir()
	for i, node := range []string{"n3", "n1", "n2"} {
		write(t, open(t, dir, node), noon.Add(time.Duration(i)*time.Hour), finished(1))
	}
	all, err := Manifests(dir)
	if err != nil || len(all) != 3 || all[0].Node != "n3" || all[2].Node != "n2" {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := Manifests(filepath.Join(dir, "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// TestADirectoryMayBeAURL: file:///DIR is the directory that it is for snapshots, and none of
// that name below the one where the server runs.
func TestADirectoryMayBeAURL(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "there")
	url := "file://" + filepath.ToSlash(dir)
	t.Chdir(t.TempDir())
	w, err := Open(url, Options{Cluster: cluster, Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(t.Context(), time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC), finished(1)); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir, url} {
		all, err := Manifests(at)
		if err != nil || len(all) != 1 {
			t.Errorf("%s: %d archives, %v", at, len(all), err)
			continue
		}
		for _, err := range Read(at, all[0]) {
			if err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
		if r, err := Verify(t.Context(), at, nil); err != nil || r.Archives != 1 {
			t.Errorf("%s: %+v, %v", at, r, err)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("beside it: %v, %v", left, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := Options{Cluster: cluster, Node: "n1"}
	for name, tc := range map[string]struct {
		dir    string
		change func(*Options)
	}{
		"no directory":     {"", func(*Options) {}},
		"no address":       {"ftp://x/y", func(*Options) {}},
		"on another host":  {"file://x/y", func(*Options) {}},
		"a file":           {file, func(*Options) {}},
		"no cluster":       {t.TempDir(), func(o *Options) { o.Cluster = "" }},
		"cluster no UUID":  {t.TempDir(), func(o *Options) { o.Cluster = strings.Repeat("a", 36) }},
		"upper case":       {t.TempDir(), func(o *Options) { o.Cluster = strings.ToUpper(cluster) }},
		"no node":          {t.TempDir(), func(o *Options) { o.Node = "" }},
		"node not text":    {t.TempDir(), func(o *Options) { o.Node = "\xff" }},
		"node of 256":      {t.TempDir(), func(o *Options) { o.Node = strings.Repeat("n", 256) }},
		"level over 22":    {t.TempDir(), func(o *Options) { o.Level = 23 }},
		"level under zero": {t.TempDir(), func(o *Options) { o.Level = -1 }},
	} {
		o := good
		tc.change(&o)
		if _, err := Open(tc.dir, o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, "n1")
	change := func(do func(*nornv1.Task)) []*nornv1.Task {
		tasks := finished(3)
		do(tasks[2])
		return tasks
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx   context.Context
		now   time.Time
		tasks []*nornv1.Task
		want  error
	}{
		"nothing":       {t.Context(), noon, nil, ErrInvalid},
		"too many":      {t.Context(), noon, make([]*nornv1.Task, MaxTasks+1), ErrTooLarge},
		"nil":           {t.Context(), noon, []*nornv1.Task{nil}, ErrInvalid},
		"not finished":  {t.Context(), noon, change(func(t *nornv1.Task) { t.State = nornv1.State_STATE_READY }), ErrInvalid},
		"no state":      {t.Context(), noon, change(func(t *nornv1.Task) { t.State = 0 }), ErrInvalid},
		"bad ID":        {t.Context(), noon, change(func(t *nornv1.Task) { t.Id = "x" }), ErrInvalid},
		"bad text":      {t.Context(), noon, change(func(t *nornv1.Task) { t.Error = "\xff" }), ErrInvalid},
		"record":        {t.Context(), noon, change(func(t *nornv1.Task) { t.Payload = make([]byte, MaxRecord) }), ErrTooLarge},
		"claims":        {t.Context(), noon, change(func(t *nornv1.Task) { t.Claims = make([]*nornv1.Claim, MaxFields+1) }), ErrTooLarge},
		"before 1970":   {t.Context(), time.Unix(-1, 0), finished(1), ErrInvalid},
		"year of 10000": {t.Context(), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), finished(1), ErrInvalid},
		"cancelled":     {cancelled, noon, finished(1), context.Canceled},
	} {
		if _, err := w.Write(tc.ctx, tc.now, tc.tasks); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
	// One file cannot hold more than its limit: the task that is over it is named.
	tasks := finished(17)
	w.most = 0
	for _, task := range tasks[:16] {
		record, err := appendRecord(nil, task)
		if err != nil {
			t.Fatal(err)
		}
		w.most += uint64(len(record))
	}
	if _, err := w.Write(t.Context(), noon, tasks); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "at "+tasks[16].GetId()) {
		t.Errorf("over the limit of a file: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if m := write(t, w, noon, tasks[:16]); m.RecordsBytes != w.most {
		t.Errorf("%d bytes of records, want %d", m.RecordsBytes, w.most)
	}
}

// TestLevels reads what every level writes.
func TestLevels(t *testing.T) {
	dir, tasks, size := t.TempDir(), finished(200), uint64(1<<63)
	for _, level := range []int{1, 3, 6, 22} {
		w, err := Open(dir, Options{Cluster: cluster, Node: "n1", Level: level})
		if err != nil {
			t.Fatal(err)
		}
		m := write(t, w, noon, tasks)
		if got, err := collect(dir, m); err != nil || !same(got, tasks) || level == 22 && m.Bytes >= size {
			t.Errorf("level %d: %d tasks come back from %d bytes, %v", level, len(got), m.Bytes, err)
		}
		size = min(size, m.Bytes)
	}
}

// TestLargeTaskComesBack has a payload of the highest limit that a server takes.
func TestLargeTaskComesBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tasks := finished(2)
	tasks[0].Payload, tasks[0].Result = bytes.Repeat([]byte("abcdefgh"), 2<<20), make([]byte, 8<<20)
	m := write(t, open(t, dir, "n1"), noon, tasks)
	if got, err := collect(dir, m); err != nil || !same(got, tasks) {
		t.Errorf("%d come back, %v", len(got), err)
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("ü", 100)
	for node, part := range map[string]string{
		"n1": "n1", "a-b_c.D": "a-b_c.D", "127.0.0.1:7712": "127.0.0.1%3A7712", "a/../b": "a%2F..%2Fb", "~%": "%7E%25",
		long: strings.Repeat("%C3%BC", 14)[:80] + "~",
	} {
		got := nodePart(node)
		if got != part && (node != long || !strings.HasPrefix(got, part) || len(got) != 97) {
			t.Errorf("%q gives %q, want %q", node, got, part)
		}
		own, err := owner(cluster, node)
		if err != nil {
			t.Errorf("%q: %v", node, err)
		}
		n := name{owner: own, at: noon, seq: 42}
		for _, ext := range []string{dataExt, manifestExt, partialExt} {
			back, stem, e, ok := parseName(n.stem() + ext)
			if !ok || back.owner != own || !back.at.Equal(noon) || back.seq != 42 || stem != n.stem() || e != ext || len(stem+ext) > 255 {
				t.Errorf("%s is read as %+v, %s, %s, %t", n.stem()+ext, back, stem, e, ok)
			}
		}
	}
	base := "norn-0f9e8d7c6b5a49388776655443322110-n1-20261201T120000.000000005-0001"
	if _, _, _, ok := parseName(base + ".zst"); !ok {
		t.Fatal("the base is no name")
	}
	for _, bad := range []string{
		"", ".zst", "norn-.zst", base, base + ".zst.old", base + ".tmp", "x" + base + ".zst", strings.ToUpper(base) + ".zst",
		strings.Replace(base, "-n1-", "-", 1) + ".zst", strings.Replace(base, "n1", "n/1", 1) + ".zst", strings.Replace(base, "0f9e", "0g9e", 1) + ".json",
		strings.Replace(base, "0001", "0000", 1) + ".zst", strings.Replace(base, "0001", "+001", 1) + ".zst", strings.Replace(base, "1201", "1301", 1) + ".zst",
		strings.Replace(base, "000005", "00005", 1) + ".zst", strings.Replace(base, "-0001", "-00001", 1) + ".zst",
	} {
		if n, _, _, ok := parseName(bad); ok {
			t.Errorf("%q is read as %+v", bad, n)
		}
	}
}

// TestNamesSort shows that names of one node sort by time.
func TestNamesSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string) name {
			return name{owner: "norn-x", at: time.Unix(rapid.Int64Range(0, 253402300799).Draw(t, what), rapid.Int64Range(0, 999999999).Draw(t, what)), seq: rapid.IntRange(1, maxSeq).Draw(t, what)}
		}
		a, b := draw("a"), draw("b")
		if order := a.at.Compare(b.at); order != 0 && order != strings.Compare(a.stem(), b.stem()) {
			t.Errorf("%s and %s", a.stem(), b.stem())
		}
	})
}

// TestADirectoryThatDoesNotAnswer, as one over a network may not for ever: whoever stops does
// not wait for it, and what is written at last is an archive all the same.
func TestADirectoryThatDoesNotAnswer(t *testing.T) {
	answers := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	w := writerOn(t, faulty{newMemory(t), func(op, _ string) (bool, error) {
		if op == "sync" {
			stop()
			<-answers
		}
		return false, nil
	}}, "n1")
	if _, err := w.Write(ctx, noon, finished(1)); !errors.Is(err, objects.ErrNoAnswer) || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want that it does not answer", err)
	}
	if _, err := w.Write(t.Context(), noon, finished(1)); !errors.Is(err, objects.ErrNoAnswer) {
		t.Fatalf("another one: %v", err)
	}
	close(answers)
	for began := time.Now(); ; runtime.Gosched() {
		if m, err := w.Write(t.Context(), noon, finished(1)); err == nil && m.Tasks == 1 {
			return
		} else if time.Since(began) > 10*time.Second {
			t.Fatalf("when it answers again: %v", err)
		}
	}
}

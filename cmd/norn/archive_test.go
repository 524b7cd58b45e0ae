package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/archive"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

const archiveCluster = "0f9e8d7c-6b5a-4938-8776-655443322110"

// archives writes one archive per batch of queues; tasks finish a second apart.
func archives(t *testing.T, batches ...[]string) (dir string, all []archive.Manifest, ids []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "archive")
	w, err := archive.Open(dir, archive.Options{Cluster: archiveCluster, Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	g := id.NewGenerator(1, func() uint64 { return 1 })
	for _, queues := range batches {
		var tasks []*nornv1.Task
		for _, q := range queues {
			at = at.Add(time.Second)
			ids = append(ids, g.Next(at.UnixNano()).String())
			tasks = append(tasks, &nornv1.Task{
				Id: ids[len(ids)-1], Queue: q, State: nornv1.State_STATE_COMPLETED, Payload: []byte("p" + q),
				CreatedAt: timestamppb.New(at), FinishedAt: timestamppb.New(at),
			})
		}
		m, err := w.Write(t.Context(), at.Add(time.Hour), tasks)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return dir, all, ids
}

type manifestJSON struct {
	Format, Tasks       int
	Cluster, Node, File string
	Bytes               string
	FirstID             string    `json:"first_id"`
	MaxFinishedAt       time.Time `json:"max_finished_at"`
}

type reportJSON struct {
	Archives   int
	Tasks      string
	Unfinished []string
	Problems   []struct{ File, Error string }
}

func TestArchiveList(t *testing.T) {
	dir, all, ids := archives(t, []string{"a", "b"}, []string{"a"})
	got := decode[[]manifestJSON](t, "archive", "list", dir)
	if len(got) != 2 || got[0].File != all[0].File || got[0].Tasks != 2 || got[0].FirstID != ids[0] || got[0].Format != 1 ||
		got[1].Bytes != fmt.Sprint(all[1].Bytes) || got[1].Node != "n1" || got[1].Cluster != archiveCluster || !got[1].MaxFinishedAt.Equal(all[1].MaxFinishedAt) {
		t.Errorf("got %+v", got)
	}
	table := ok(t, "archive", "list", dir)
	if lines := strings.Split(strings.TrimSpace(table), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "CREATED ") ||
		!strings.Contains(lines[1], "2026-12-01T12:00:01Z  2026-12-01T12:00:02Z  "+all[0].File) {
		t.Errorf("got %s", table)
	}
	if out := ok(t, "archive", "list", t.TempDir(), "-o", "json"); out != "[]\n" {
		t.Errorf("an empty directory: %q", out)
	}
}

func TestArchiveShow(t *testing.T) {
	dir, _, ids := archives(t, []string{"a", "b"}, []string{"a", "c", "a"})
	shown := func(args ...string) (out []string) {
		for _, task := range decode[[]taskJSON](t, append([]string{"archive", "show", dir}, args...)...) {
			if task.State != "completed" || string(task.Payload) != "p"+task.Queue {
				t.Errorf("%q: %+v", args, task)
			}
			out = append(out, task.ID)
		}
		return out
	}
	for _, tc := range []struct {
		args, want []string
	}{
		{nil, ids},
		{[]string{"-q", "a"}, []string{ids[0], ids[2], ids[4]}},
		{[]string{"-q", "nothing"}, nil},
		{[]string{"--id", ids[3]}, ids[3:4]},
		{[]string{"--id", ids[3], "-q", "c"}, ids[3:4]},
	} {
		if got := shown(tc.args...); !slices.Equal(got, tc.want) {
			t.Errorf("%q: %v, want %v", tc.args, got, tc.want)
		}
	}
	for format, want := range map[string]int{"table": 6, "jsonl": 5} {
		if out := ok(t, "archive", "show", dir, "-o", format); strings.Count(out, "\n") != want || !strings.Contains(out, ids[4]) {
			t.Errorf("%s: %s", format, out)
		}
	}
	if out := ok(t, "archive", "show", dir, "--id", ids[1], "-o", "yaml"); !strings.HasPrefix(out, "- id: "+ids[1]+"\n") {
		t.Errorf("yaml: %s", out)
	}
	refused(t, 3, "holds task 3ZyfAz4TTlNLdMEJYWbpzCDKw1p", "archive", "show", dir, "--id", "3ZyfAz4TTlNLdMEJYWbpzCDKw1p")
	refused(t, 3, "holds task "+ids[3], "archive", "show", dir, "--id", ids[3], "-q", "a")
	refused(t, 2, "ID", "archive", "show", dir, "--id", "x")
}

func TestArchiveVerify(t *testing.T) {
	dir, all, ids := archives(t, []string{"a", "b"}, []string{"a"}, []string{"a"})
	if r := decode[reportJSON](t, "archive", "verify", dir); r.Archives != 3 || r.Tasks != "4" || r.Unfinished == nil || r.Problems == nil || len(r.Unfinished)+len(r.Problems) != 0 {
		t.Errorf("got %+v", r)
	}
	if out := ok(t, "archive", "verify", dir); !strings.HasPrefix(out, "archives  3 as they were written\ntasks     4\n") {
		t.Errorf("got %s", out)
	}
	unfinished := strings.Replace(all[0].File, "-n1-", "-n2-", 1)
	if err := os.WriteFile(filepath.Join(dir, unfinished), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := ok(t, "archive", "verify", dir); !strings.Contains(out, "unfinished  "+unfinished) {
		t.Errorf("got %s", out)
	}

	// One flipped bit in a data file and one in a manifest.
	flip(t, filepath.Join(dir, all[0].File))
	broken := strings.TrimSuffix(all[1].File, ".zst") + ".json"
	flip(t, filepath.Join(dir, broken))
	for _, format := range []string{"table", "json"} {
		r := refused(t, 1, "2 of 3 archives cannot be read", "archive", "verify", dir, "-o", format)
		if !strings.Contains(r.out, all[0].File) || !strings.Contains(r.out, broken) || strings.Contains(r.out, all[2].File) {
			t.Errorf("%s: %s", format, r.out)
		}
	}
	refused(t, 1, broken, "archive", "list", dir)
	r := norn(t, "archive", "show", dir, "-o", "jsonl")
	if r.code != 1 || !strings.Contains(r.out, ids[3]) || !strings.Contains(r.err, broken) || !strings.Contains(r.err, all[0].File) {
		t.Errorf("show: %+v", r)
	}
	for line := range strings.Lines(r.err) {
		if !strings.HasPrefix(line, "norn: ") {
			t.Errorf("show says %q", line)
		}
	}
	if out := ok(t, "archive", "show", dir, "--id", ids[3], "-o", "jsonl"); strings.Count(out, "\n") != 1 {
		t.Errorf("what is whole is not found: %s", out)
	}
}

// flip changes one bit in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		b[len(b)/2] ^= 4
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestArchiveMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"list", "show", "verify"} {
		refused(t, 2, "there is no directory", "archive", command, file+"-gone")
		refused(t, 2, "is not a directory", "archive", command, file)
		refused(t, 2, "there is no directory "+file+"-gone", "archive", command, "file://"+file+"-gone")
		refused(t, 2, "not an address", "archive", command, "ftp://x")
		refused(t, 2, "accepts 1 arg", "archive", command)
	}
}

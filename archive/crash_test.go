package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/internal/objects"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func writerOn(t testing.TB, fs fileSystem, node string) *Writer {
	t.Helper()
	w, err := newWriter(fs, memDir, Options{Cluster: cluster, Node: node, Level: 1})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// sound checks that every archive that counts is whole, and gives them.
func sound(t *testing.T, fs fileSystem, when string) contents {
	t.Helper()
	r, err := verify(context.Background(), fs, memDir, nil)
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("%s: %+v, %v", when, r.Problems, err)
	}
	c, err := readContents(fs, memDir)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	return c
}

func holds(c contents, file string) bool {
	return slices.ContainsFunc(c.manifests, func(m Manifest) bool { return m.File == file })
}

// large is big enough for several writes of the encoder.
func large() []*nornv1.Task {
	tasks := finished(18)
	for i, task := range tasks {
		task.Payload = make([]byte, 8_000)
		x := uint32(i + 1)
		for j := range task.Payload {
			x = x*1664525 + 1013904223
			task.Payload[j] = byte(x >> 24)
		}
	}
	return tasks
}

// steps counts the operations of a Write that finds something to sweep.
func steps(t *testing.T) []string {
	t.Helper()
	var ops []string
	fs := littered(t)
	_, err := writerOn(t, faulty{fs, func(op, name string) (bool, error) { ops = append(ops, op+" "+name); return false, nil }}, "n1").Write(t.Context(), noon, large())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"write", "sync", "syncdir", "rename", "remove", "read"} {
		if !slices.ContainsFunc(ops, func(op string) bool { return strings.HasPrefix(op, want+" ") }) {
			t.Fatalf("no %s in %q", want, ops)
		}
	}
	return ops
}

// littered has one archive of n1, and what interrupted writes of n1 and n2 left.
func littered(t *testing.T) memory {
	t.Helper()
	fs := newMemory(t)
	if _, err := writerOn(t, fs, "n1").Write(t.Context(), noon.Add(-time.Hour), finished(3)); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"n1", "n2"} {
		w := writerOn(t, fs, node)
		n := name{owner: w.owner, at: noon.Add(-time.Minute), seq: 1}
		for _, ext := range []string{dataExt, partialExt} {
			f, err := fs.Create(w.path(n.stem() + ext))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte("half a fi")); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		}
	}
	return fs
}

// TestEveryFailure lets every operation of a Write fail once, with and without
// having happened: an error means no archive, no error means a whole one, and
// the next Write works and cleans up.
func TestEveryFailure(t *testing.T) {
	t.Parallel()
	ops := steps(t)
	for at, op := range ops {
		for _, done := range []bool{false, true} {
			when := fmt.Sprintf("step %d, %s, done %t", at, op, done)
			fs, step := littered(t), -1
			w := writerOn(t, faulty{fs, func(string, string) (bool, error) {
				if step++; step == at {
					return done, syscall.ENOSPC
				}
				return false, nil
			}}, "n1")
			m, err := w.Write(t.Context(), noon, large())
			c := sound(t, fs, when)
			switch {
			case err == nil && !strings.HasPrefix(op, "close "): // closing what was read in full cannot do harm
				t.Errorf("%s: no error", when)
			case err == nil && !holds(c, m.File):
				t.Errorf("%s: no error and no archive", when)
			case err != nil && (len(c.manifests) != 1 || m != Manifest{}):
				t.Errorf("%s: %v, and yet %d archives, %+v", when, err, len(c.manifests), m)
			case err != nil && (!errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrDamaged)): // what cannot be read is not known to be damaged
				t.Errorf("%s: %v", when, err)
			}
			before := len(c.manifests)
			if _, err := w.Write(t.Context(), noon.Add(time.Second), finished(2)); err != nil {
				t.Errorf("%s, and then: %v", when, err)
			}
			if c := sound(t, fs, when); len(c.manifests) != before+1 || len(c.unfinished) != 2 || !strings.Contains(c.unfinished[0], "-n2-") {
				t.Errorf("%s, and then %d archives of %d, unfinished %v", when, len(c.manifests), before+1, c.unfinished)
			}
		}
	}
}

// TestDeathAtEveryStep ends the process before every operation of a Write: an
// archive that counts is whole, and the next process cleans up.
func TestDeathAtEveryStep(t *testing.T) {
	t.Parallel()
	died := errors.New("dead")
	ops := steps(t)
	for at := range ops {
		when := fmt.Sprintf("step %d, %s", at, ops[at])
		fs, step := littered(t), -1
		w := writerOn(t, faulty{fs, func(string, string) (bool, error) {
			if step++; step >= at {
				return step == at, died // the last write is torn
			}
			return false, nil
		}}, "n1")
		if _, err := w.Write(t.Context(), noon, large()); err == nil {
			t.Fatalf("%s: no error", when)
		}
		before := sound(t, fs, when)
		if _, err := writerOn(t, fs, "n1").Write(t.Context(), noon, large()); err != nil {
			t.Errorf("%s, and then: %v", when, err)
		}
		c := sound(t, fs, when)
		if len(c.manifests) != len(before.manifests)+1 || len(c.unfinished) != 2 {
			t.Errorf("%s: %d archives after %d, unfinished %v", when, len(c.manifests), len(before.manifests), c.unfinished)
		}
	}
}

// looker has steps looked at on the test's own goroutine: they happen on others, which are
// waited for no longer than a disk may take, and where no test may end.
type looker struct {
	before chan string
	looked chan struct{}
}

// wait returns when a step was looked at, or the test has failed.
func (l looker) wait(ctx context.Context, when string) error {
	select {
	case l.before <- when:
		<-l.looked
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// during does something, and looks at each of its steps.
func (l looker) during(check func(when string), do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	for {
		select {
		case when := <-l.before:
			func() {
				defer func() { l.looked <- struct{}{} }() // also when the test ends here
				check(when)
			}()
		case err := <-done:
			return err
		}
	}
}

// TestPowerFailureAtEveryStep takes the power away before every operation of
// three writes, of which the second is told at its very end that the directory
// could not be synced. Whatever part of what was not synced survives: an archive
// that counts is whole, and one that was promised is there.
func TestPowerFailureAtEveryStep(t *testing.T) {
	t.Parallel()
	fs := newMemory(t)
	var promised []string
	check := func(when string) {
		for i, percent := range []int{0, 50, 50, 50, 100} {
			after := fs.crash(t, percent, uint64(i))
			c := sound(t, after, fmt.Sprintf("%s, %d %% survive", when, percent))
			for _, p := range promised {
				if !holds(c, p) {
					t.Fatalf("%s, %d %% survive: %s was promised", when, percent, p)
				}
			}
			if i != 1 {
				continue
			}
			w := writerOn(t, after, "n1")
			m, err := w.Write(context.Background(), noon.Add(time.Hour), finished(1))
			if err != nil {
				t.Fatalf("%s, and then: %v", when, err)
			}
			if c := sound(t, after.crash(t, 0, 0), when); !holds(c, m.File) {
				t.Fatalf("%s, and then the next is not durable", when)
			}
		}
	}
	seen, renamed, failed := 0, 0, 0
	look := looker{make(chan string), make(chan struct{})}
	w := writerOn(t, faulty{fs, func(op, name string) (bool, error) {
		if err := look.wait(t.Context(), fmt.Sprintf("before step %d, %s %s", seen, op, name)); err != nil {
			return false, err
		}
		seen++
		if op == "rename" {
			renamed++
		}
		if op == "syncdir" && renamed == 2 && failed == 0 {
			failed++
			return true, syscall.EIO // the worst: it did happen
		}
		return false, nil
	}}, "n1")
	for i := range 3 {
		var m Manifest
		err := look.during(check, func() (err error) {
			m, err = w.Write(t.Context(), noon.Add(time.Duration(i)), large())
			return err
		})
		if (err != nil) != (i == 1) {
			t.Fatalf("write %d: %v", i, err)
		}
		if err == nil {
			promised = append(promised, m.File)
		}
		check(fmt.Sprintf("after write %d", i))
	}
	if failed != 1 || seen < 60 {
		t.Errorf("%d steps, %d failures", seen, failed)
	}
}

// lying changes one byte of what is written to files of one kind.
type lying struct {
	fileSystem
	ext string
	at  int
}

type lyingFile struct {
	file
	left int
}

func (l lying) Create(name string) (file, error) {
	f, err := l.fileSystem.Create(name)
	if err != nil || !strings.HasSuffix(name, l.ext) {
		return f, err
	}
	return &lyingFile{f, l.at}, nil
}

func (f *lyingFile) Write(p []byte) (int, error) {
	q := slices.Clone(p)
	if f.left >= 0 && f.left < len(q) {
		q[f.left] ^= 0x10
	}
	f.left -= len(q)
	return f.file.Write(q)
}

// TestLyingDisk says that all is well while it stores something else.
func TestLyingDisk(t *testing.T) {
	t.Parallel()
	for _, ext := range []string{dataExt, partialExt} {
		for at := 0; at < 300; at += 3 {
			fs := newMemory(t)
			m, err := writerOn(t, lying{fs, ext, at}, "n1").Write(t.Context(), noon, finished(20))
			if c := sound(t, fs, "afterwards"); err == nil || len(c.manifests)+len(c.unfinished) > 0 {
				t.Fatalf("byte %d of %s: %v, %+v, %+v", at, ext, err, m, c)
			}
			if ext == dataExt && !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d: %v", at, err)
			}
		}
	}
}

// TestNodesShareADirectory has one node write while another is at any step of
// a write: neither touches what is the other's.
func TestNodesShareADirectory(t *testing.T) {
	t.Parallel()
	total := len(steps(t))
	for _, nodes := range [][2]string{{"n1", "n2"}, {"n", "n-1"}, {"n-1", "n"}, {"n1", "N1"}, {"a:b", "a%3Ab"}} {
		for at := range total {
			fs, step := newMemory(t), -1
			other := writerOn(t, fs, nodes[1])
			w := writerOn(t, faulty{fs, func(string, string) (bool, error) {
				if step++; step == at {
					if _, err := other.Write(context.Background(), noon, finished(2)); err != nil {
						t.Errorf("%q at step %d: %v", nodes, at, err)
					}
				}
				return false, nil
			}}, nodes[0])
			if _, err := w.Write(t.Context(), noon, finished(3)); err != nil {
				t.Fatalf("%q at step %d: %v", nodes, at, err)
			}
			want := 2
			if step < at {
				want = 1
			}
			if c := sound(t, fs, "afterwards"); len(c.manifests) != want || len(c.unfinished) > 0 {
				t.Fatalf("%q at step %d: %d archives, unfinished %v", nodes, at, len(c.manifests), c.unfinished)
			}
		}
	}
	// Another cluster may have a node of the same name.
	fs := littered(t)
	w, err := newWriter(fs, memDir, Options{Cluster: strings.Replace(cluster, "0f", "1f", 1), Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(t.Context(), noon, finished(1)); err != nil {
		t.Fatal(err)
	}
	if c := sound(t, fs, "afterwards"); len(c.manifests) != 2 || len(c.unfinished) != 4 {
		t.Errorf("%d archives, unfinished %v", len(c.manifests), c.unfinished)
	}
}

// TestWritersTakeTurns uses one Writer from several goroutines at one instant.
func TestWritersTakeTurns(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, "n1")
	errs := make(chan error)
	for range 8 {
		go func() {
			_, err := w.Write(t.Context(), noon, finished(5))
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if r, err := Verify(t.Context(), dir, nil); err != nil || r.Archives != 8 || len(r.Unfinished) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCancelledAtAnyTime cancels the context at every operation.
func TestCancelledAtAnyTime(t *testing.T) {
	t.Parallel()
	tasks := finished(600) // over two looks at the context
	for at := range 24 {
		ctx, cancel := context.WithCancel(t.Context())
		fs, step := newMemory(t), -1
		m, err := writerOn(t, faulty{fs, func(string, string) (bool, error) {
			if step++; step == at {
				cancel()
			}
			return false, nil
		}}, "n1").Write(ctx, noon, tasks)
		c := sound(t, fs, "afterwards")
		if errors.Is(err, objects.ErrNoAnswer) {
			c.unfinished = nil // on a machine that is busy for a second what is under way is left behind
		}
		if err != nil && (!errors.Is(err, context.Canceled) || len(c.manifests)+len(c.unfinished) > 0) || err == nil && !holds(c, m.File) {
			t.Errorf("at step %d: %v, %+v", at, err, c)
		}
		if at == 0 && err == nil {
			t.Error("cancelled before it began, it ran to its end")
		}
		cancel()
	}
}

// TestCancelledWhileItIsReadBack: what was not read back does not count.
func TestCancelledWhileItIsReadBack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fs := newMemory(t)
	m, err := writerOn(t, faulty{fs, func(what, name string) (bool, error) {
		if what == "open" && strings.HasSuffix(name, dataExt) {
			cancel()
		}
		return false, nil
	}}, "n1").Write(ctx, noon, finished(600))
	if c := sound(t, fs, "afterwards"); !errors.Is(err, context.Canceled) || len(c.manifests) > 0 {
		t.Errorf("%+v, %v; %d archives", m, err, len(c.manifests))
	}
}

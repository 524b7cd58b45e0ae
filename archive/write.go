package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/internal/objects"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Options are the settings of a Writer.
type Options struct {
	// Cluster is the cluster's UUID as text: 36 characters, lower case.
	Cluster string
	// Node is the name of the node that writes, unique in its cluster.
	Node string
	// Level is the zstd level, 1 (fast) to 22 (small); 0 takes 3. Above 3 files
	// get some percent smaller for several times the processor time; from 10 on
	// a Write takes 40 MB of memory, below that a few.
	Level int
}

// Writer writes the archives of one node into one directory. Any number of
// goroutines may use it; they write one after the other.
type Writer struct {
	fs    fileSystem
	dir   string
	o     Options
	owner string
	most  uint64 // uncompressed bytes of a file; MaxBytes but in tests
	calls objects.Calls

	mu    sync.Mutex // held while writing, so that no Write removes another's file
	swept bool       // what writers before this one have left is gone
	left  string     // the name, without its extension, of a Write that is under way or has failed; "": none
}

// Open makes the directory when it is missing, and a Writer for it. dir may also be
// an address of package objects; so may it be for all that reads. It
// returns ErrInvalid for options that cannot be, or when dir is not a directory.
func Open(dir string, o Options) (*Writer, error) {
	fs, path, err := at(dir)
	if err != nil {
		return nil, err
	}
	if _, far := fs.(remote); far {
		return newWriter(fs, "archive", o) // where it is, the store knows
	}
	w, err := newWriter(fs, path, o)
	if err != nil {
		return nil, err
	}
	if err := makeDir(path); err != nil {
		return nil, err
	}
	return w, nil
}

func newWriter(fs fileSystem, dir string, o Options) (*Writer, error) {
	own, err := owner(o.Cluster, o.Node)
	if err != nil {
		return nil, err
	}
	if o.Level < 0 || o.Level > 22 {
		return nil, fmt.Errorf("%w: zstd level %d is not 0 to 22", ErrInvalid, o.Level)
	}
	if o.Level == 0 {
		o.Level = 3
	}
	if dir == "" {
		return nil, fmt.Errorf("%w: no directory", ErrInvalid)
	}
	return &Writer{fs: fs, dir: dir, o: o, owner: own, most: MaxBytes}, nil
}

// Write writes finished tasks into one data file, in their order. When it
// returns nil they are durable and were read back; when it returns an error
// they are to be taken as not archived (doc.go, Contract). now is for the names
// and the manifest only. It does not change the tasks.
//
// Errors: ErrInvalid (no tasks, one that is not finished), ErrTooLarge (limits;
// split the call, or name the task to a person), the context's, with
// objects.ErrNoAnswer where the file system had to be given up (then the archive may
// come to be all the same), ErrDamaged
// when the file that was read back differs, and those of the file system as they
// are (errors.Is(err, syscall.ENOSPC) for a full disk).
func (w *Writer) Write(ctx context.Context, now time.Time, tasks []*nornv1.Task) (Manifest, error) {
	var m Manifest
	err := w.calls.Until(ctx, func() (err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		m, err = w.write(ctx, now, tasks)
		return err
	})
	switch {
	case errors.Is(err, objects.ErrNoAnswer):
		return Manifest{}, fmt.Errorf("archive: %s: %w", w.dir, err)
	case err != nil:
		return Manifest{}, err
	}
	return m, nil
}

// write is Write of one that has its turn.
func (w *Writer) write(ctx context.Context, now time.Time, tasks []*nornv1.Task) (Manifest, error) {
	if err := checkTasks(tasks); err != nil {
		return Manifest{}, err
	}
	always := w.fs
	w.fs = during(ctx, always)
	defer func() { w.fs = always }()
	if err := w.sweep(); err != nil {
		return Manifest{}, fmt.Errorf("archive: remove what an interrupted write left: %w", err)
	}
	n, f, err := w.create(now)
	if err != nil {
		return Manifest{}, err
	}
	m := Manifest{Format: Format, Cluster: w.o.Cluster, Node: w.o.Node, File: n.stem() + dataExt, CreatedAt: n.at}
	if err := w.data(ctx, f, &m, tasks); err != nil {
		if !errors.Is(err, objects.ErrExists) { // it may be the file of another archive
			w.discard(m.File)
		}
		return Manifest{}, err
	}
	if err := w.manifest(n.stem(), &m); err != nil {
		return Manifest{}, err
	}
	w.left = ""
	return m, nil
}

// checkTasks refuses what must not be archived: the caller is going to delete
// what is written, so a task that could still run has no place here.
func checkTasks(tasks []*nornv1.Task) error {
	if len(tasks) == 0 {
		return fmt.Errorf("%w: no tasks", ErrInvalid)
	}
	if len(tasks) > MaxTasks {
		return fmt.Errorf("%w: %d tasks in one file, over %d", ErrTooLarge, len(tasks), MaxTasks)
	}
	for _, t := range tasks {
		switch t.GetState() {
		case nornv1.State_STATE_COMPLETED, nornv1.State_STATE_DEAD, nornv1.State_STATE_CANCELLED:
		default:
			return fmt.Errorf("%w: task %s is not finished: %s", ErrInvalid, t.GetId(), t.GetState())
		}
		if _, err := id.Parse(t.GetId()); err != nil {
			return fmt.Errorf("%w: task %q: %w", ErrInvalid, t.GetId(), err)
		}
	}
	return nil
}

func (w *Writer) path(name string) string { return filepath.Join(w.dir, name) }

// sweep removes what interrupted writes of this node left: the first time those of
// the processes before this one, afterwards one that has failed. All files are looked
// through only once, because there are more of them with each Write.
func (w *Writer) sweep() error {
	begin := w.owner + "-"
	switch {
	case w.swept && w.left == "":
		return nil
	case w.swept:
		begin = w.left + "."
	}
	files, err := w.fs.List(w.dir, begin)
	if err != nil {
		return err
	}
	slices.Sort(files)
	synced := false
	for _, f := range files {
		n, stem, ext, ok := parseName(f)
		if !ok || n.owner != w.owner || ext == manifestExt || ext == dataExt && hasManifest(files, stem) {
			continue
		}
		// That the manifest is not there must be durable first: a manifest that
		// was taken back (see manifest) could return after a power failure and
		// find its data gone.
		if !synced {
			if err := w.fs.SyncDir(w.dir); err != nil {
				return err
			}
			synced = true
		}
		if err := w.fs.Remove(w.path(f)); err != nil {
			return err
		}
	}
	w.swept, w.left = true, ""
	return nil
}

// create makes a data file under a name that nobody has used.
func (w *Writer) create(now time.Time) (n name, f file, err error) {
	n = name{owner: w.owner, at: now.Round(0).UTC(), seq: 1}
	if y := n.at.Year(); y < 1970 || y > 9999 {
		return n, nil, fmt.Errorf("%w: time %s", ErrInvalid, now)
	}
	for ; n.seq <= maxSeq; n.seq++ {
		w.left = n.stem()
		if f, err = w.fs.Create(w.path(n.stem() + dataExt)); !errors.Is(err, fs.ErrExist) {
			return n, f, wrap(err)
		}
	}
	return n, nil, fmt.Errorf("%w: %d files of the same time", ErrInvalid, maxSeq)
}

// data writes the data file, makes it durable, reads it back and fills in the
// manifest.
func (w *Writer) data(ctx context.Context, f file, m *Manifest, tasks []*nornv1.Task) error {
	err := w.encode(ctx, f, m, tasks)
	if err == nil && !mutant.ArchiveUnsynced.On() {
		err = wrap(f.Sync())
	}
	if closed := wrap(f.Close()); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	// The file's name must be durable before that of its manifest.
	if err := w.fs.SyncDir(w.dir); err != nil && !mutant.ArchiveUnnamed.On() {
		return wrap(err)
	}
	read := 0
	var stopped error
	err = readFile(w.fs, w.dir, m, func(*nornv1.Task) bool {
		if read++; read%256 == 0 {
			stopped = ctx.Err()
		}
		return stopped == nil
	})
	if stopped == nil {
		stopped = err
	}
	if stopped != nil {
		return fmt.Errorf("reading back: %w", stopped)
	}
	return nil
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("archive: %w", err)
}

// encode writes the compressed records and counts them.
func (w *Writer) encode(ctx context.Context, f file, m *Manifest, tasks []*nornv1.Task) error {
	out := &counted{w: f, sum: sha256.New()}
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window),
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(w.o.Level)))
	if err != nil {
		return wrap(err)
	}
	all := newTally()
	var record []byte
	for i, t := range tasks {
		if i%256 == 0 && ctx.Err() != nil {
			return errors.Join(wrap(ctx.Err()), z.Close())
		}
		if record, err = appendRecord(record[:0], t); err != nil {
			return errors.Join(err, z.Close())
		}
		if all.bytes+uint64(len(record)) > w.most {
			return errors.Join(fmt.Errorf("%w: the tasks of one file have over %d bytes; the limit is reached at %s", ErrTooLarge, w.most, t.GetId()), z.Close())
		}
		all.add(record, t)
		if _, err = z.Write(record); err != nil {
			break
		}
	}
	if closed := z.Close(); err == nil {
		err = closed
	}
	all.fill(m)
	out.fill(m)
	return wrap(err)
}

// manifest writes the manifest: with its rename the archive counts.
func (w *Writer) manifest(stem string, m *Manifest) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = w.small(stem+partialExt, append(b, '\n'))
	}
	if err != nil {
		w.discard(stem+partialExt, m.File)
		return wrap(err)
	}
	if err := w.fs.Rename(w.path(stem+partialExt), w.path(stem+manifestExt)); err != nil {
		w.discard(stem+partialExt, stem+manifestExt) // it may have happened
		return wrap(err)
	}
	if err := w.fs.SyncDir(w.dir); err != nil {
		// The manifest is taken back, so that an error means no archive. Its data
		// stays for sweep to remove, which knows when that is safe.
		if !mutant.ManifestKept.On() {
			w.discard(stem + manifestExt)
		}
		return wrap(err)
	}
	return nil
}

// small writes a small file durably and reads it back.
func (w *Writer) small(name string, b []byte) error {
	f, err := w.fs.Create(w.path(name))
	if err != nil {
		return err
	}
	n, err := f.Write(b)
	if err == nil && n < len(b) {
		err = fmt.Errorf("wrote %d of %d bytes of %s", n, len(b), name)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	back, err := readSmall(w.fs, w.path(name))
	if err == nil && !bytes.Equal(back, b) {
		err = fmt.Errorf("%s reads back as something else", name)
	}
	return err
}

// discard removes files of a write that failed, as far as that works: the next
// sweep removes the rest.
func (w *Writer) discard(names ...string) {
	for _, n := range names {
		_ = w.fs.Remove(w.path(n))
	}
}

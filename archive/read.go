package archive

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Read gives the tasks of one archive in the order they were written. An error
// is the last element: ErrDamaged when the file is not what the manifest says,
// or one of the file system. Only a sequence that ended without an error was
// checked as a whole.
func Read(dir string, m Manifest) iter.Seq2[*nornv1.Task, error] {
	return func(yield func(*nornv1.Task, error) bool) {
		more := true
		fs, dir, err := at(dir)
		if err == nil {
			err = readFile(fs, dir, &m, func(t *nornv1.Task) bool {
				more = yield(t, nil)
				return more
			})
		}
		if more && err != nil {
			yield(nil, err)
		}
	}
}

// readFile reads a data file and checks all that its manifest says. When each
// returns false it stops, without an error and without a check of the rest.
func readFile(fs fileSystem, dir string, m *Manifest, each func(*nornv1.Task) bool) error {
	if err := m.valid(); err != nil {
		return err
	}
	f, err := fs.Open(filepath.Join(dir, m.File))
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	defer f.Close()
	in := &counted{r: f, sum: sha256.New()}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecodeBuffersBelow(0))
	if err != nil {
		return wrap(err)
	}
	defer z.Close()
	all := newTally()
	stopped, err := scan(z, m, all, each)
	switch {
	case stopped:
		return nil
	case in.err != nil: // the disk would not give it: nothing is known of the file
		return fmt.Errorf("archive: read %s: %w", m.File, in.err)
	case err != nil:
		return fmt.Errorf("%w: %s, after %d of %d tasks: %w", ErrDamaged, m.File, all.tasks, m.Tasks, err)
	}
	var found Manifest
	all.fill(&found)
	in.fill(&found)
	if d := m.difference(&found); d != "" {
		return fmt.Errorf("%w: %s: %s", ErrDamaged, m.File, d)
	}
	return nil
}

// scan reads uncompressed records to their end, but no more than the manifest
// promises: what is longer is damaged, and need not be unpacked to know it.
func scan(z io.Reader, m *Manifest, all *tally, each func(*nornv1.Task) bool) (stopped bool, err error) {
	r := records{in: bufio.NewReaderSize(io.LimitReader(z, int64(m.RecordsBytes)+1), 64<<10)}
	for {
		record, message, err := r.next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		t, err := parseRecord(message)
		switch {
		case err != nil:
			return false, err
		case all.tasks == m.Tasks:
			return false, errors.New("there are more tasks than the manifest says")
		}
		all.add(record, t)
		if !each(t) {
			return true, nil
		}
	}
}

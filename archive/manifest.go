package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Format is the version of the format that this build writes, and the highest
// it reads.
const Format = 1

// Manifest says what a data file holds: see doc.go, Format 1.
type Manifest struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"` // UUID text
	Node    string `json:"node"`
	// File is the name of the data file in the directory of the manifest.
	File  string `json:"file"`
	Tasks int    `json:"tasks"`
	// FirstID and LastID are the smallest and the largest ID, text form.
	FirstID string `json:"first_id"`
	LastID  string `json:"last_id"`
	// MinFinishedAt and MaxFinishedAt are zero when no task says when it was
	// finished.
	MinFinishedAt time.Time `json:"min_finished_at,omitzero"`
	MaxFinishedAt time.Time `json:"max_finished_at,omitzero"`
	// Bytes is the size of the data file, RecordsBytes that of its uncompressed
	// records.
	Bytes        uint64 `json:"bytes"`
	RecordsBytes uint64 `json:"records_bytes"`
	// SHA256 is of the data file, RecordsSHA256 of its uncompressed records;
	// hexadecimal.
	SHA256        string    `json:"sha256"`
	RecordsSHA256 string    `json:"records_sha256"`
	CreatedAt     time.Time `json:"created_at"`
}

// valid says what in a manifest cannot be, whatever the data file holds.
func (m *Manifest) valid() error {
	if m.Format > Format {
		return fmt.Errorf("%w: %s is of format %d, this build reads up to %d", ErrVersion, m.File, m.Format, Format)
	}
	n, _, ext, ok := parseName(m.File)
	if !ok || ext != dataExt {
		return fmt.Errorf("%w: %q is not the name of a data file", ErrDamaged, m.File)
	}
	own, err := owner(m.Cluster, m.Node)
	switch {
	case m.Format < 1:
		return fmt.Errorf("%w: %s: format %d", ErrDamaged, m.File, m.Format)
	case err != nil || own != n.owner:
		return fmt.Errorf("%w: %s is not of cluster %q, node %q", ErrDamaged, m.File, m.Cluster, m.Node)
	case !m.CreatedAt.Equal(n.at):
		return fmt.Errorf("%w: %s was not created at %s", ErrDamaged, m.File, m.CreatedAt.Format(time.RFC3339Nano))
	case m.Tasks < 1 || m.Tasks > MaxTasks:
		return fmt.Errorf("%w: %s: %d tasks, not 1 to %d", ErrDamaged, m.File, m.Tasks, MaxTasks)
	case m.RecordsBytes > MaxBytes:
		return fmt.Errorf("%w: %s: %d bytes of records, over %d", ErrDamaged, m.File, m.RecordsBytes, MaxBytes)
	}
	return nil
}

// difference names the first figure in which the data file is not what the
// manifest says; "" when there is none.
func (m *Manifest) difference(found *Manifest) string {
	stamp := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	for _, f := range []struct {
		what       string
		says, held any
	}{
		{"tasks", m.Tasks, found.Tasks},
		{"bytes", m.Bytes, found.Bytes},
		{"sha256", m.SHA256, found.SHA256},
		{"records_bytes", m.RecordsBytes, found.RecordsBytes},
		{"records_sha256", m.RecordsSHA256, found.RecordsSHA256},
		{"first_id", m.FirstID, found.FirstID},
		{"last_id", m.LastID, found.LastID},
		{"min_finished_at", stamp(m.MinFinishedAt), stamp(found.MinFinishedAt)},
		{"max_finished_at", stamp(m.MaxFinishedAt), stamp(found.MaxFinishedAt)},
	} {
		if f.says != f.held {
			return fmt.Sprintf("%s is %v, the manifest says %v", f.what, f.held, f.says)
		}
	}
	return ""
}

// readManifest reads the manifest of a stem.
func readManifest(fs fileSystem, dir, stem string) (m Manifest, err error) {
	b, err := readSmall(fs, filepath.Join(dir, stem+manifestExt))
	if err != nil {
		return m, wrap(err)
	}
	if m, err = parseManifest(b); err != nil {
		return m, fmt.Errorf("%w (manifest %s)", err, stem+manifestExt)
	}
	if m.File != stem+dataExt {
		return m, fmt.Errorf("%w: the manifest %s is of %q", ErrDamaged, stem+manifestExt, m.File)
	}
	return m, nil
}

// readSmall reads what is to be a manifest, to one byte over the limit.
func readSmall(fs fileSystem, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxManifest+1))
}

func parseManifest(b []byte) (m Manifest, err error) {
	if len(b) > maxManifest {
		return m, fmt.Errorf("%w: over %d bytes", ErrDamaged, maxManifest)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m, m.valid()
}

// Manifests gives the manifests in a directory, oldest first. With those that
// can be read comes an error that names the others (errors.Join): ErrDamaged or
// ErrVersion among them.
func Manifests(dir string) ([]Manifest, error) {
	fs, dir, err := at(dir)
	if err != nil {
		return nil, err
	}
	c, err := readContents(fs, dir)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, p := range c.problems {
		errs = append(errs, p.Err)
	}
	return c.manifests, errors.Join(errs...)
}

// contents is what is in a directory.
type contents struct {
	manifests  []Manifest
	problems   []Problem
	unfinished []string
}

func readContents(fs fileSystem, dir string) (c contents, err error) {
	files, err := fs.List(dir, prefix)
	if err != nil {
		return c, fmt.Errorf("archive: %w", err)
	}
	slices.Sort(files)
	var stems []string
	for _, f := range files {
		_, stem, ext, ok := parseName(f)
		switch {
		case !ok:
		case ext == manifestExt:
			stems = append(stems, stem)
		case !hasManifest(files, stem):
			c.unfinished = append(c.unfinished, f)
		}
	}
	found, errs := readManifests(fs, dir, stems)
	for i, stem := range stems {
		if errs[i] != nil {
			c.problems = append(c.problems, Problem{File: stem + manifestExt, Err: errs[i]})
			continue
		}
		c.manifests = append(c.manifests, found[i])
	}
	slices.SortFunc(c.manifests, func(a, b Manifest) int {
		if n := a.CreatedAt.Compare(b.CreatedAt); n != 0 {
			return n
		}
		return strings.Compare(a.File, b.File)
	})
	return c, nil
}

// readAtOnce is how many manifests are asked of a store at the same time. Each is a way
// there and back, of some ten milliseconds or more: one after the other, a year of them
// would take an hour.
const readAtOnce = 32

// readManifests reads those of some stems, in their order.
func readManifests(fs fileSystem, dir string, stems []string) (found []Manifest, errs []error) {
	found, errs = make([]Manifest, len(stems)), make([]error, len(stems))
	read := func(i int) { found[i], errs[i] = readManifest(fs, dir, stems[i]) }
	if _, far := fs.(remote); !far {
		for i := range stems {
			read(i)
		}
		return found, errs
	}
	var running sync.WaitGroup
	var next atomic.Int64
	for range min(readAtOnce, len(stems)) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(stems); i = int(next.Add(1)) - 1 {
				read(i)
			}
		})
	}
	running.Wait()
	return found, errs
}

// hasManifest looks into sorted names.
func hasManifest(files []string, stem string) bool {
	_, found := slices.BinarySearch(files, stem+manifestExt)
	return found
}

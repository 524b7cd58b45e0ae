package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/internal/objects"
)

// ErrNone is returned where there is no backup of tasks.
var ErrNone = errors.New("no backup of tasks")

// Split takes an address apart into a place, and the backup of tasks in it that it names by
// its manifest; "" when it names none.
func Split(address string) (place, name string) {
	if objects.Remote(address) {
		u, err := url.Parse(address)
		if err != nil || !strings.HasSuffix(u.Path, backup.ManifestEnd) {
			return address, ""
		}
		name = path.Base(u.Path)
		u.Path = path.Dir(u.Path)
		return u.String(), name
	}
	if !strings.HasSuffix(address, backup.ManifestEnd) {
		return address, ""
	}
	if rest, ok := strings.CutPrefix(address, "file://"); ok {
		return "file://" + path.Dir(rest), path.Base(rest)
	}
	return filepath.Dir(address), filepath.Base(address)
}

// List gives the backups of tasks in a place that have a manifest, the newest last. Those
// whose manifest cannot be read are in bad, each with its reason.
func List(ctx context.Context, from objects.Store) (all []*backup.Manifest, bad []error, err error) {
	infos, err := from.List(ctx, "norn-")
	if err != nil {
		return nil, nil, err
	}
	for _, o := range infos {
		if !strings.HasSuffix(o.Name, backup.ManifestEnd) {
			continue
		}
		m, err := read(ctx, from, o.Name)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		all = append(all, m)
	}
	slices.SortStableFunc(all, func(a, b *backup.Manifest) int {
		return cmp.Or(cmp.Compare(a.Generation, b.Generation), a.Began.Compare(b.Began))
	})
	return all, bad, nil
}

func read(ctx context.Context, from objects.Store, name string) (*backup.Manifest, error) {
	b, err := from.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	return backup.DecodeManifest(name, b)
}

// Find reads the manifest of a name, or the newest in a place. A newest one that cannot be
// read is an error: an older one would lose what is in it.
func Find(ctx context.Context, from objects.Store, name string) (*backup.Manifest, error) {
	if name != "" {
		return read(ctx, from, name)
	}
	all, bad, err := List(ctx, from)
	switch {
	case err != nil:
		return nil, err
	case len(bad) > 0:
		return nil, fmt.Errorf("%w; name another one to use that", errors.Join(bad...))
	case len(all) == 0:
		return nil, ErrNone
	case slices.ContainsFunc(all, func(m *backup.Manifest) bool { return m.Cluster != all[0].Cluster }):
		return nil, fmt.Errorf("there are backups of several clusters: name one of them (norn backup inspect --tasks lists them)")
	}
	return all[len(all)-1], nil
}

// each reads all parts of a backup, in order, and gives each task to do.
func each(ctx context.Context, from objects.Store, m *backup.Manifest, open backup.Seal, tell func(Progress), do func(*backup.Part, *backup.Task) error) error {
	progress := Progress{Total: len(m.Parts)}
	for i := range m.Parts {
		p := &m.Parts[i]
		b, err := from.Get(ctx, p.Name)
		if errors.Is(err, objects.ErrNotFound) {
			return fmt.Errorf("%w: %s: it is missing", backup.ErrDamaged, p.Name)
		}
		if err != nil {
			return err
		}
		tasks, err := backup.OpenPart(m.Name, p, b, open)
		if err != nil {
			return err
		}
		if err := backup.ReadPart(p, tasks, func(t *backup.Task) error { return do(p, t) }); err != nil {
			return err
		}
		progress.Done++
		progress.Tasks, progress.Bytes = progress.Tasks+p.Tasks, progress.Bytes+uint64(p.Bytes)
		if tell != nil {
			tell(progress)
		}
	}
	return nil
}

// Verify reads all of a backup and compares it with its manifest. Beside errors of the place
// it returns backup.ErrDamaged with the place, backup.ErrNewer, backup.ErrSealed.
func Verify(ctx context.Context, from objects.Store, m *backup.Manifest, open backup.Seal, tell func(Progress)) error {
	var all backup.Summary
	parts := make([]backup.Summary, m.Partitions)
	last := ""
	err := each(ctx, from, m, open, tell, func(p *backup.Part, t *backup.Task) error {
		if p.Number > 0 && t.ID.String() <= last {
			return fmt.Errorf("%w: %s: task %s after %s", backup.ErrDamaged, p.Name, t.ID, last)
		}
		last = t.ID.String()
		if err := parts[p.Partition].Add(t, m.Began); err != nil {
			return err
		}
		return all.Add(t, m.Began)
	})
	if err != nil {
		return err
	}
	for i := range parts {
		if want := &m.Each[i]; parts[i].Tasks != want.Tasks || parts[i].Tasks > 0 && parts[i].Root != want.Root {
			return fmt.Errorf("%w: %s: partition %d has other facts than were written", backup.ErrDamaged, m.Name, i)
		}
	}
	if !all.Same(&m.Summary) {
		return fmt.Errorf("%w: %s: what its parts have is not what its manifest says", backup.ErrDamaged, m.Name)
	}
	return nil
}

// Age is how old a backup is.
func Age(m *backup.Manifest, now time.Time) time.Duration { return now.Sub(m.Began).Round(time.Second) }

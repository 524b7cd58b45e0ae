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
	return FindAsOf(ctx, from, name, time.Time{})
}

// FindAsOf is Find among those that began no later than a time; zero: among all.
func FindAsOf(ctx context.Context, from objects.Store, name string, asOf time.Time) (*backup.Manifest, error) {
	if name != "" {
		return read(ctx, from, name)
	}
	all, bad, err := List(ctx, from)
	if !asOf.IsZero() {
		all = slices.DeleteFunc(all, func(m *backup.Manifest) bool { return m.Began.After(asOf) })
	}
	switch {
	case err != nil:
		return nil, err
	case len(bad) > 0:
		return nil, fmt.Errorf("%w; name another one to use that", errors.Join(bad...))
	case len(all) == 0 && !asOf.IsZero():
		return nil, fmt.Errorf("%w that began at %s or before", ErrNone, asOf.Format(time.RFC3339))
	case len(all) == 0:
		return nil, ErrNone
	case slices.ContainsFunc(all, func(m *backup.Manifest) bool { return m.Cluster != all[0].Cluster }):
		return nil, fmt.Errorf("there are backups of several clusters: name one of them (norn backup inspect --tasks lists them)")
	}
	return all[len(all)-1], nil
}

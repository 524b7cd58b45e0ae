package snapshots

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/register"
)

// Save writes a snapshot, reads it back, and then deletes the oldest of the same
// cluster beyond keep. What cannot be deleted is no error of the snapshot: it is
// tried again with the next one.
func Save(ctx context.Context, to objects.Store, h Header, b []byte, keep int) error {
	name := h.Name()
	if err := to.Put(ctx, name, b); err != nil {
		return err
	}
	back, err := to.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("reading back: %w", err)
	}
	if !bytes.Equal(back, b) {
		return fmt.Errorf("%w: %s reads back as something else", ErrDamaged, name)
	}
	prune(ctx, to, h.Cluster, name, keep)
	return nil
}

func prune(ctx context.Context, to objects.Store, cluster, newest string, keep int) {
	all, err := to.List(ctx, "norn-"+cluster+"-g")
	if err != nil {
		return
	}
	all = slices.DeleteFunc(all, func(o objects.Info) bool {
		_, ok := ParseName(o.Name)
		return !ok || o.Name == newest
	})
	for len(all) > max(keep-1, 0) {
		if to.Delete(ctx, all[0].Name) != nil {
			return
		}
		all = all[1:]
	}
}

// Listed is a snapshot in a place.
type Listed struct {
	Ref
	Name string
	Size int64
}

// List gives the snapshots in a place: those of one cluster together, the newest
// last.
func List(ctx context.Context, from objects.Store) ([]Listed, error) {
	all, err := from.List(ctx, "norn-")
	if err != nil {
		return nil, err
	}
	var out []Listed
	for _, o := range all {
		if r, ok := ParseName(o.Name); ok {
			out = append(out, Listed{Ref: r, Name: o.Name, Size: o.Size})
		}
	}
	return out, nil
}

// Split takes an address apart into a place, and the snapshot in it that it
// names; "" when it names none.
func Split(address string) (place, name string) {
	if objects.Remote(address) {
		u, err := url.Parse(address)
		if err != nil || !strings.HasSuffix(u.Path, ext) {
			return address, ""
		}
		name = path.Base(u.Path)
		u.Path = path.Dir(u.Path)
		return u.String(), name
	}
	if !strings.HasSuffix(address, ext) {
		return address, ""
	}
	if rest, ok := strings.CutPrefix(address, "file://"); ok {
		return "file://" + path.Dir(rest), path.Base(rest)
	}
	return filepath.Dir(address), filepath.Base(address)
}

// Latest reads the snapshot of a name, or the newest in a place that is whole.
// passed are the newer ones that are not, each with its reason. It returns
// ErrNone, ErrSeveral, and for a name ErrDamaged, ErrVersion or
// objects.ErrNotFound.
func Latest(ctx context.Context, from objects.Store, name string) (s Snapshot, passed []error, err error) {
	if name != "" {
		s, err = read(ctx, from, name)
		return s, nil, err
	}
	all, err := List(ctx, from)
	switch {
	case err != nil:
		return s, nil, err
	case len(all) == 0:
		return s, nil, ErrNone
	case all[0].Cluster != all[len(all)-1].Cluster:
		return s, nil, fmt.Errorf("%w (%s, %s): name one of them (norn backup inspect lists them)", ErrSeveral, all[0].Cluster, all[len(all)-1].Cluster)
	}
	for _, l := range slices.Backward(all) {
		s, err = read(ctx, from, l.Name)
		if err == nil {
			return s, passed, nil
		}
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, objects.ErrNotFound) {
			return s, passed, err // it may be whole: an older one would lose what is in it
		}
		passed = append(passed, err)
	}
	return s, passed, fmt.Errorf("none of %d snapshots can be used: %w", len(all), errors.Join(passed...))
}

func read(ctx context.Context, from objects.Store, name string) (Snapshot, error) {
	b, err := from.Get(ctx, name)
	if err != nil {
		return Snapshot{}, err
	}
	s, err := Decode(b)
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// claim is what Begin writes.
type claim struct {
	Node        string    `json:"node"`
	Incarnation string    `json:"incarnation"`
	From        string    `json:"from"`
	At          time.Time `json:"at"`
	// ByHand: a directory was made and nothing started, perhaps only to see that it can be done.
	ByHand bool `json:"by_hand,omitempty"`
}

// Begun gives the last generation of a cluster that a node of this name has begun here, and
// when; 0: none. A note that cannot be read counts as nobody's, and one of a restore by hand
// once there is a snapshot of its generation: its directory was started then.
func Begun(ctx context.Context, in objects.Store, cluster, node string) (generation uint64, at time.Time, err error) {
	all, err := in.List(ctx, "norn-"+cluster+"-g")
	if err != nil {
		return 0, at, err
	}
	lived := make(map[uint64]bool)
	for _, o := range all {
		if r, ok := ParseName(o.Name); ok {
			lived[r.Generation] = true
		}
	}
	for _, o := range all {
		r, ok := parse(o.Name)
		if !ok || o.Name != takenName(cluster, r.Generation) || r.Generation <= generation {
			continue
		}
		b, err := in.Get(ctx, o.Name)
		if err != nil && !errors.Is(err, objects.ErrNotFound) {
			return 0, at, err
		}
		var c claim
		if err == nil && json.Unmarshal(b, &c) == nil && c.Node == node && (!c.ByHand || lived[r.Generation]) {
			generation, at = r.Generation, c.At
		}
	}
	return generation, at, nil
}

// Begin takes the generation in which a cluster begins anew from a snapshot: the
// first above all that the place knows of and that nobody has taken. self is for
// people who look into it, and for [Begun]; so is byHand, for a restore after which nothing
// is started. The place must be one that can be written to.
func Begin(ctx context.Context, in objects.Store, s *Header, self register.Member, byHand bool, now time.Time) (uint64, error) {
	all, err := in.List(ctx, "norn-"+s.Cluster+"-g")
	if err != nil {
		return 0, err
	}
	generation := s.Generation
	for _, o := range all {
		if r, ok := parse(o.Name); ok {
			generation = max(generation, r.Generation)
		}
	}
	b, err := json.Marshal(claim{self.Node, self.Incarnation.String(), s.Name(), now.UTC(), byHand})
	if err != nil {
		return 0, fmt.Errorf("snapshot: %w", err)
	}
	for generation < register.MaxGeneration {
		generation++
		err := in.Create(ctx, takenName(s.Cluster, generation), append(b, '\n'))
		if !errors.Is(err, objects.ErrExists) {
			return generation, err
		}
	}
	return 0, fmt.Errorf("snapshot: cluster %s was restored %d times, the limit", s.Cluster, register.MaxGeneration)
}

package job

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/internal/objects"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Rounds are backups that are taken at an interval.
type Rounds struct {
	// Options are those of every backup; Since and Resume follow from what is there.
	Options
	// Every is between the beginnings of two, Keep how many stay with those that they build on.
	Every time.Duration
	Keep  int
	// Incrementals is how many incremental ones follow a full one.
	Incrementals int
}

// abandoned is how long after a backup was begun that is not whole it is deleted, when there
// is a newer one that is.
const abandoned = 24 * time.Hour

// Round takes a backup when it is time for one, and deletes those that need not stay. It goes
// on with one that was interrupted. newest is when the newest one that is whole was
// begun, zero: there is none; taken is the one that was taken, nil: none was.
func (r *Rounds) Round(ctx context.Context) (newest time.Time, taken *backup.Manifest, err error) {
	status, err := r.From.Status(ctx)
	if err != nil {
		return newest, nil, err
	}
	all, bad, err := List(ctx, r.Place)
	if err != nil {
		return newest, nil, err
	}
	all = slices.DeleteFunc(all, func(m *backup.Manifest) bool { return m.Cluster != status.GetClusterId() })
	var last *backup.Manifest
	if len(all) > 0 {
		last = all[len(all)-1]
		newest = last.Began
	}
	now := r.Now()
	if last != nil && now.Sub(last.Began) < r.Every {
		return newest, nil, nil
	}
	o := r.Options
	// A full one where the chain is long enough, is of another life or shape of the cluster, or
	// where some manifest cannot be read.
	if last != nil && len(bad) == 0 && last.Depth < r.Incrementals && last.Generation == status.GetRegister().GetGeneration() && last.Partitions == len(status.GetPartitions()) &&
		last.Scope == scopeOf(o.Scope) && fmt.Sprint(last.Queues) == fmt.Sprint(o.Queues) {
		if _, broken := Chain(ctx, r.Place, last); broken == nil {
			o.Since = last
		}
	}
	if err := r.interrupted(ctx, &o, status, newest); err != nil {
		return newest, nil, err
	}
	m, err := Create(ctx, o)
	if err != nil {
		return newest, nil, err
	}
	return m.Began, m, r.prune(ctx, append(all, m))
}

func scopeOf(scope string) string {
	if scope == "" {
		return backup.All
	}
	return scope
}

// interrupted finds a backup to go on with: it was begun after the newest one, within the
// interval, and as one would be begun now.
func (r *Rounds) interrupted(ctx context.Context, o *Options, status *nornv1.StatusReply, newest time.Time) error {
	infos, err := r.Place.List(ctx, "norn-"+status.GetClusterId()+"-g")
	if err != nil {
		return err
	}
	since := ""
	if o.Since != nil {
		since = o.Since.Name
	}
	for _, i := range infos {
		name, is := strings.CutSuffix(i.Name, begunEnd)
		if !is {
			continue
		}
		b, err := r.Place.Get(ctx, i.Name)
		if err != nil {
			continue // it was finished meanwhile
		}
		note, err := backup.DecodeNote(i.Name, b)
		same := err == nil && note.Generation == status.GetRegister().GetGeneration() && note.Partitions == len(status.GetPartitions())
		if same && note.Began.After(newest) && r.Now().Sub(note.Began) < r.Every && note.Since == since && fmt.Sprint(note.Encrypted) == fmt.Sprint(o.Keys.To()) {
			o.Resume = name
		}
	}
	return nil
}

// prune deletes the oldest backups beyond those that stay. Of each its manifest goes first:
// without it it is none.
func (r *Rounds) prune(ctx context.Context, all []*backup.Manifest) error {
	stays := make(map[string]bool)
	byName := make(map[string]*backup.Manifest)
	for _, m := range all {
		byName[m.Name] = m
	}
	for _, m := range all[max(len(all)-max(r.Keep, 1), 0):] {
		for m != nil && !stays[m.Name] {
			stays[m.Name], stays[m.Snapshot] = true, true
			m = byName[m.Since]
		}
	}
	newest := all[len(all)-1]
	infos, err := r.Place.List(ctx, "norn-"+newest.Cluster+"-g")
	if err != nil {
		return err
	}
	for _, m := range all {
		if stays[m.Name] {
			continue
		}
		if err := r.remove(ctx, infos, m.Name, m.Snapshot, stays); err != nil {
			return err
		}
	}
	for _, i := range infos {
		name, is := strings.CutSuffix(i.Name, begunEnd)
		if !is || stays[name] || byName[name] != nil {
			continue
		}
		b, err := r.Place.Get(ctx, i.Name)
		if err != nil {
			continue // it was finished, or deleted, meanwhile
		}
		if note, err := backup.DecodeNote(i.Name, b); err == nil && newest.Began.Sub(note.Began) > abandoned {
			if err := r.remove(ctx, infos, name, note.Snapshot, stays); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes what one backup has.
func (r *Rounds) remove(ctx context.Context, infos []objects.Info, name, snapshot string, stays map[string]bool) error {
	if err := r.Place.Delete(ctx, name+backup.ManifestEnd); err != nil {
		return err
	}
	for _, i := range infos {
		if strings.HasPrefix(i.Name, name+".") && i.Name != name+backup.ManifestEnd || i.Name == snapshot && !stays[snapshot] {
			if err := r.Place.Delete(ctx, i.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

package archive

import (
	"context"
	"fmt"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Problem is a file that is not what it should be.
type Problem struct {
	// File is the name of the data file, or of the manifest that cannot be used.
	File string
	// Err says why: ErrDamaged, ErrVersion or an error of the file system.
	Err error
}

// Report is what Verify has found.
type Report struct {
	// Archives is how many were read in full and are as their manifests say;
	// Tasks, Bytes and RecordsBytes are theirs together.
	Archives     int
	Tasks        int
	Bytes        uint64
	RecordsBytes uint64
	// Unfinished are files of writes that are under way or were interrupted. They
	// are no problem: nothing was deleted on their word.
	Unfinished []string
	// Problems are archives that cannot be read as they were written.
	Problems []Problem
}

// Verify reads every archive of a directory in full and compares it with its
// manifest. Problems are in the report; the error is for a directory that cannot
// be read, or the context's. progress, if not nil, is told now and then how many
// of how many tasks were read.
//
// It cannot know of an archive of which both files are gone.
func Verify(ctx context.Context, dir string, progress func(done, total int)) (Report, error) {
	fs, dir, err := at(dir)
	if err != nil {
		return Report{}, err
	}
	return verify(ctx, during(ctx, fs), dir, progress)
}

func verify(ctx context.Context, fs fileSystem, dir string, progress func(done, total int)) (Report, error) {
	c, err := readContents(fs, dir)
	if err != nil {
		return Report{}, err
	}
	r := Report{Unfinished: c.unfinished, Problems: c.problems}
	total, done := 0, 0
	for _, m := range c.manifests {
		total += m.Tasks
	}
	for i := range c.manifests {
		m, before := &c.manifests[i], done
		var stopped error
		err := readFile(fs, dir, m, func(*nornv1.Task) bool {
			if done++; done%256 == 0 {
				stopped = ctx.Err()
				if progress != nil {
					progress(done, total)
				}
			}
			return stopped == nil
		})
		if stopped == nil {
			stopped = ctx.Err()
		}
		if stopped != nil {
			return r, fmt.Errorf("archive: %w", stopped)
		}
		done = before + m.Tasks
		if err != nil {
			r.Problems = append(r.Problems, Problem{File: m.File, Err: err})
			continue
		}
		r.Archives++
		r.Tasks += m.Tasks
		r.Bytes += m.Bytes
		r.RecordsBytes += m.RecordsBytes
	}
	return r, nil
}

package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/norn-dev/norn/internal/mutant"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A batch in bulk is one of much that lies in a row, such as a page of a copied
// partition. Written the usual way each byte of it goes to disk two to three
// times: into the log, by the flush of the memtable, by compactions. Here what
// lies in a row where nothing was before becomes tables at once, which Pebble
// takes in as they are, and only the rest of the batch goes the usual way.
//
// Both together are one write all the same:
//
//  1. A note in the log says which ranges are about to be filled. Its sync makes
//     everything durable that was applied before.
//  2. The tables are written and synced, then taken in.
//  3. The rest is applied, and takes the note back in the same batch.
//
// After a crash before (3) is durable the note is there: what lies in its ranges
// is deleted before anybody sees it, and there was nothing in them before. Nothing
// of what was applied after is there either, for that is later in the log. What is
// earlier in the log is not applied again within the ranges: it would hide the tables,
// and nothing of it was left when they were made.
const (
	// noteKey is where the note lies. It is there while its batch is being written,
	// and after a crash until the store is open.
	noteKey = "\xff\xffstore.tables.note"
	// tableLeast is how many bytes of keys and values that begin alike make a
	// table. A file and its syncs cost about as much as writing some 100 KiB more,
	// and very many small tables are a burden for good.
	tableLeast = 512 << 10
	// alike is how many first bytes of their keys make pairs one table: what begins
	// alike is taken to lie close together, and nothing else in between.
	alike = 3
	// draftName begins the name of a table that is being written.
	draftName = "bulk-"
	draftType = ".draft"
	// lowest is the level that a table is made for.
	lowest = 6
)

// run is a part of a batch that becomes a table: sets in order of their keys, of
// which each is there once.
type run []int32 // in the batch

// runs finds what of a batch becomes tables, and notes which of its writes are done
// with them.
func (p *Pebble) runs(b *Batch) (runs []run, taken []bool) {
	taken = make([]bool, len(b.ops))
	for _, r := range b.rows {
		size := 0
		for _, i := range r {
			size += int(b.ops[i].key) + int(b.ops[i].value)
		}
		if size < p.least || !p.vacant(b, r) {
			continue
		}
		runs = append(runs, r)
		for _, i := range r {
			taken[i] = true
		}
	}
	sizes := make(map[[alike]byte]int)
	for i := range b.ops {
		if s := &b.ops[i]; s.kind == kindSet && s.key >= alike && !taken[i] {
			sizes[[alike]byte(b.keyOf(i))] += int(s.key) + int(s.value)
		}
	}
	groups := make(map[[alike]byte][]int32)
	for i := range b.ops {
		if s := &b.ops[i]; s.kind != kindDropped && s.key >= alike && !taken[i] {
			if g := [alike]byte(b.keyOf(i)); sizes[g] >= p.least {
				groups[g] = append(groups[g], int32(i))
			}
		}
	}
	for _, ops := range groups { // Any order: sorted below.
		r, others := last(b, ops)
		if len(r) == 0 || !p.vacant(b, r) {
			continue
		}
		runs = append(runs, r)
		for _, i := range slices.Concat(r, others) {
			taken[i] = true
		}
	}
	slices.SortFunc(runs, func(x, y run) int { return bytes.Compare(x.first(b), y.first(b)) })
	return runs, taken
}

// last sorts writes by key and keeps the last one of each key, if that is a set.
// The others are those that it replaces.
func last(b *Batch, ops []int32) (kept, others []int32) {
	slices.SortFunc(ops, func(i, j int32) int {
		return cmp.Or(bytes.Compare(b.keyOf(int(i)), b.keyOf(int(j))), cmp.Compare(i, j))
	})
	kept = ops[:0]
	for n, i := range ops {
		switch {
		case n+1 < len(ops) && bytes.Equal(b.keyOf(int(i)), b.keyOf(int(ops[n+1]))):
			others = append(others, i)
		case b.ops[i].kind == kindSet:
			kept = append(kept, i)
		}
	}
	return kept, others
}

func (r run) first(b *Batch) []byte { return b.keyOf(int(r[0])) }
func (r run) last(b *Batch) []byte  { return b.keyOf(int(r[len(r)-1])) }

// vacant tells whether nothing is stored where a run goes.
func (p *Pebble) vacant(b *Batch, r run) bool {
	for range scan(p.db, r.first(b), append(bytes.Clone(r.last(b)), 0), false, p.fatal) {
		return false
	}
	return true
}

// commitBulk commits a batch of which some becomes tables. ok is false, and
// nothing is done, when nothing of it does.
func (p *Pebble) commitBulk(b *Batch) (wait func(), ok bool) {
	p.settle(nil, nil) // what waits is older than the tables
	runs, taken := p.runs(b)
	if len(runs) == 0 {
		return nil, false
	}
	p.whole.Lock()
	defer p.whole.Unlock()
	noted := p.note(b, runs)
	paths := make([]string, len(runs))
	for i := range runs {
		paths[i] = p.draft()
		if err := p.writeTable(paths[i], b, runs[i]); err != nil && !mutant.TableUnsure.On() {
			p.fatal(fmt.Errorf("store: table: %w", err))
		}
	}
	noted()
	unhurried := p.hurry() // it waits for a flush where the memtable has something of these ranges
	if err := p.db.Ingest(context.Background(), paths); err != nil {
		p.fatal(fmt.Errorf("store: take in tables: %w", err))
	}
	unhurried()
	p.tookIn(b, runs)
	w := p.db.NewBatch()
	for i := range b.ops {
		if b.ops[i].kind == kindDropped || taken[i] {
			continue
		}
		if op := b.op(i); op.Delete {
			_ = w.Delete(op.Key, nil) // into memory: cannot fail
		} else {
			_ = w.Set(op.Key, op.Value, nil)
		}
	}
	_ = w.Delete([]byte(noteKey), nil)
	return p.commit(w), true
}

// tookIn notes what the index has now of keys that are most often soon deleted.
func (p *Pebble) tookIn(b *Batch, runs []run) {
	p.order.Lock()
	defer p.order.Unlock()
	for _, r := range runs {
		if !p.late.short.covers(r.first(b)) {
			continue
		}
		for _, i := range r {
			p.late.short.note(b.keyOf(int(i)), false)
		}
	}
}

// note writes which ranges are about to be filled. What it gives waits until that
// is durable.
func (p *Pebble) note(b *Batch, runs []run) (durable func()) {
	var value []byte
	for i := range runs {
		for _, key := range [][]byte{runs[i].first(b), runs[i].last(b)} {
			value = append(binary.AppendUvarint(value, uint64(len(key))), key...)
		}
	}
	w := p.db.NewBatch()
	_ = w.Set([]byte(noteKey), value, nil) // into memory: cannot fail
	return p.commit(w)
}

func (p *Pebble) draft() string {
	p.drafts++
	return p.files.PathJoin(p.dir, fmt.Sprintf("%s%d%s", draftName, p.drafts, draftType))
}

// writeTable makes a table of a run, which is durable when it returns.
func (p *Pebble) writeTable(path string, b *Batch, r run) error {
	file, err := p.files.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if p.buffer == nil {
		p.buffer = aligned(tableBuffer)
	}
	t := sstable.NewWriter(&tableFile{file: file, buffer: p.buffer[:0], direct: setDirect(file, true)}, p.table)
	for _, i := range r {
		op := b.op(int(i))
		if err := t.Set(op.Key, op.Value); err != nil {
			return errors.Join(err, t.Close())
		}
	}
	return t.Close()
}

// unfinished undoes a batch in bulk that a crash has cut short, and removes the
// drafts of tables.
func (p *Pebble) unfinished() error {
	names, err := p.files.List(p.dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, draftName) && strings.HasSuffix(name, draftType) {
			if err := p.files.Remove(p.files.PathJoin(p.dir, name)); err != nil {
				return fmt.Errorf("store: draft of a table: %w", err)
			}
		}
	}
	note, found := get(p.db, []byte(noteKey), p.fatal)
	if !found {
		return nil
	}
	w := p.db.NewBatch()
	err = rangesOf(note, func(first, last []byte) {
		_ = w.DeleteRange(first, append(bytes.Clone(last), 0), nil) // into memory: cannot fail
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, p.dir)
	}
	if err = p.db.Apply(w, pebble.NoSync); err == nil {
		err = p.flush() // the log has no ranges: they are in a table before the note goes
	}
	if err != nil {
		return fmt.Errorf("store: undo: %w", err)
	}
	w = p.db.NewBatch()
	_ = w.Delete([]byte(noteKey), nil)
	p.commit(w)()
	return nil
}

// rangesOf gives the ranges of a note, each with its last key.
func rangesOf(note []byte, give func(first, last []byte)) error {
	for len(note) > 0 {
		var bounds [2][]byte
		for i := range bounds {
			n, size := binary.Uvarint(note)
			if size <= 0 || n > uint64(len(note)-size) {
				return fmt.Errorf("%w: note of tables", ErrDamaged)
			}
			bounds[i], note = note[size:size+int(n)], note[size+int(n):]
		}
		give(bounds[0], bounds[1])
	}
	return nil
}

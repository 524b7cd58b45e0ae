package store

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/norn-dev/norn/internal/mutant"
)

// maxShortLived is how many keys a store remembers, of about 70 bytes each.
const maxShortLived = 65_536

// shortLived knows which keys of some tables the index may have: what was written to it and not
// deleted since. A write that is deleted before it reached the index leaves nothing to delete
// there, so the index is not told of such a delete.
//
// Invariant: a key of these tables that the index has is in has, or more is set.
//
// Its fields are guarded by the order of [Pebble].
type shortLived struct {
	tables [256]bool           // by the first byte of a key
	has    map[string]struct{} // at most limit; nil before it was looked
	more   bool                // the index may have keys that has does not know
	limit  int
}

// newShortLived knows of nothing yet: [shortLived.scan] comes before the first write.
func newShortLived(first string) *shortLived {
	s := &shortLived{more: true, limit: maxShortLived}
	for i := range len(first) {
		s.tables[first[i]] = true
	}
	return s
}

// covers tells whether a key is one of these tables.
func (s *shortLived) covers(key []byte) bool { return len(key) > 0 && s.tables[key[0]] }

// note is told of a write to the index, and tells whether the index needs it.
func (s *shortLived) note(key []byte, deleted bool) (needed bool) {
	if !s.covers(key) {
		return true
	}
	_, has := s.has[string(key)]
	switch {
	case deleted && has:
		delete(s.has, string(key))
		return !mutant.DeleteKept.On()
	case deleted:
		return s.more
	case !has && (s.has == nil || len(s.has) >= s.limit):
		s.more = true
	case !has:
		s.has[string(key)] = struct{}{}
	}
	return true
}

// filter notes the writes that waited, and drops those that the index does not need.
func (s *shortLived) filter(b *Batch) {
	for i := range b.ops {
		if k := b.ops[i].kind; k != kindDropped && !s.note(b.keyOf(i), k == kindDelete) {
			b.drop(i)
		}
	}
}

// applied is told of a batch that goes to the index as it is.
func (s *shortLived) applied(w *pebble.Batch) {
	for r := w.Reader(); ; {
		kind, key, _, ok, err := r.Next()
		if !ok || err != nil {
			return
		}
		s.note(key, kind == pebble.InternalKeyKindDelete)
	}
}

// scan reads which keys the index has.
func (s *shortLived) scan(db *pebble.DB, fatal func(error)) {
	s.has, s.more = make(map[string]struct{}), false
	for first, is := range s.tables {
		if !is {
			continue
		}
		for key := range scan(db, []byte{byte(first)}, nil, false, fatal) {
			if key[0] != byte(first) {
				break
			}
			if s.note(key, false); s.more {
				return
			}
		}
	}
}

// outdated tells whether another [shortLived.scan] is worth it: there were too many keys, and most of those
// that are known have been deleted.
func (s *shortLived) outdated() bool { return s.more && s.has != nil && len(s.has) <= s.limit/2 }

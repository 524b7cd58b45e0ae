package register

import (
	"maps"
	"slices"

	"github.com/norn-dev/norn/register/wire"
)

// AccessChange asks for one compare-and-set of what says who may do what: Data is written
// under Key if its version is still Old (0: there is none). Without Data it goes.
type AccessChange struct {
	Key  string
	Old  uint64
	Data []byte
}

// Limits of what says who may do what.
const (
	MaxAccessKey  = 128     // bytes
	MaxAccessData = 8 << 10 // bytes
	MaxAccess     = 1 << 14 // entries
)

// SuspendedKey is there while the tokens of the register let nobody in: after a restore nobody
// knows which of them were revoked since.
const SuspendedKey = "suspended"

// setAccess decides the changes of a request. A version is the revision that wrote it, so that
// what comes later under a key is never taken for what was there before.
func (s *State) setAccess(changes []AccessChange) (won []bool, changed bool) {
	won = make([]bool, len(changes))
	if len(changes) == 0 {
		return won, false
	}
	s.Access = copied(s.Access)
	for i, c := range changes {
		old, known := s.Access[c.Key]
		switch {
		case old.Version != c.Old:
			continue
		case len(c.Data) == 0:
			delete(s.Access, c.Key)
			won[i] = known
		case c.Key == "" || len(c.Key) > MaxAccessKey || len(c.Data) > MaxAccessData || !known && len(s.Access) >= MaxAccess:
			continue
		default:
			s.Access[c.Key] = Value{Version: s.Revision + 1, Data: slices.Clone(c.Data)}
			won[i] = true
		}
		if won[i] {
			changed, s.AccessAt = true, s.Revision+1
		}
	}
	return won, changed
}

// suspendAccess has no token let anybody in.
func (s *State) suspendAccess() {
	if len(s.Access) == 0 {
		return
	}
	s.Access = maps.Clone(s.Access)
	s.Access[SuspendedKey] = Value{Version: s.Revision, Data: []byte{1}}
	s.AccessAt = s.Revision
}

func appendAccess(w *wire.Writer, s *State) {
	w.Uint(s.AccessAt)
	w.Uint(uint64(len(s.Access)))
	for _, key := range slices.Sorted(maps.Keys(s.Access)) {
		w.String(key)
		w.Uint(s.Access[key].Version)
		w.Bytes(s.Access[key].Data)
	}
}

func readAccess(r *wire.Reader, s *State) {
	s.AccessAt = r.Uint()
	n := r.Count(MaxAccess)
	if n > 0 {
		s.Access = make(map[string]Value)
	}
	for last := ""; n > 0; n-- {
		key := r.String(MaxAccessKey)
		if len(s.Access) > 0 && key <= last {
			r.Fail()
		}
		last = key
		s.Access[key] = Value{Version: r.Uint(), Data: r.Bytes(MaxAccessData)}
	}
}

func appendAccessChanges(w *wire.Writer, q *Request) {
	w.Uint(uint64(len(q.Access)))
	for _, c := range q.Access {
		w.String(c.Key)
		w.Uint(c.Old)
		w.Bytes(c.Data)
	}
}

func readAccessChanges(r *wire.Reader, q *Request) {
	for range r.Count(maxList) {
		q.Access = append(q.Access, AccessChange{Key: r.String(MaxAccessKey), Old: r.Uint(), Data: r.Bytes(MaxAccessData)})
	}
}

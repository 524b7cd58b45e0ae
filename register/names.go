package register

import (
	"maps"
	"slices"

	"github.com/norn-dev/norn/register/wire"
)

// Name is a lease on a name, exclusive in the cluster: who has it, and on what
// terms, is the holder's affair. The register only orders the writes.
type Name struct {
	// Version is the revision that wrote it. So no two writes of a name have the
	// same one, also when the name was given up in between, and a compare-and-set
	// never takes a later holder for an earlier one.
	Version uint64
	Data    []byte
}

// NameChange asks for one compare-and-set of a name: Data is written if its
// version is still Old (0: nobody has it). Without Data the name is given up.
type NameChange struct {
	Name string
	Old  uint64
	Data []byte
	// Other says that the name goes to somebody else by this, or to nobody: the set
	// of holders changes.
	Other bool
}

// Limits of names: what the workers of a cluster may make every node hold.
const (
	MaxHolder   = 256     // bytes in a name
	MaxNameData = 2 << 10 // bytes in what is kept of its holder
	MaxNames    = 1 << 16
)

// setName decides one change. s owns its Names.
func (s *State) setName(c *NameChange) bool {
	old, known := s.Names[c.Name]
	switch {
	case old.Version != c.Old:
		return false
	case len(c.Data) == 0:
		delete(s.Names, c.Name)
		return known
	case c.Name == "" || len(c.Name) > MaxHolder || len(c.Data) > MaxNameData || !known && len(s.Names) >= MaxNames:
		return false
	}
	s.Names[c.Name] = Name{Version: s.Revision + 1, Data: append([]byte(nil), c.Data...)}
	return true
}

// setNames decides the changes of a request.
func (s *State) setNames(changes []NameChange) (won []bool, changed bool) {
	won = make([]bool, len(changes))
	if len(changes) > 0 {
		s.Names = copied(s.Names)
	}
	for i := range changes {
		if won[i] = s.setName(&changes[i]); !won[i] {
			continue
		}
		changed, s.NamesAt = true, s.Revision+1
		if changes[i].Other {
			s.HoldersAt = s.Revision + 1
		}
	}
	return won, changed
}

func appendNames(w *wire.Writer, s *State) {
	w.Uint(s.NamesAt)
	w.Uint(s.HoldersAt)
	w.Uint(uint64(len(s.Names)))
	for _, name := range slices.Sorted(maps.Keys(s.Names)) {
		w.String(name)
		w.Uint(s.Names[name].Version)
		w.Bytes(s.Names[name].Data)
	}
}

func readNames(r *wire.Reader, s *State) {
	s.NamesAt, s.HoldersAt = r.Uint(), r.Uint()
	n := r.Count(MaxNames)
	if n > 0 {
		s.Names = make(map[string]Name)
	}
	for last := ""; n > 0; n-- {
		name := r.String(MaxHolder)
		if len(s.Names) > 0 && name <= last {
			r.Fail()
		}
		last = name
		s.Names[name] = Name{Version: r.Uint(), Data: r.Bytes(MaxNameData)}
	}
}

// appendNameChanges writes what a request asks of names.
func appendNameChanges(w *wire.Writer, q *Request) {
	w.Uint(uint64(len(q.Names)))
	for _, c := range q.Names {
		w.String(c.Name)
		w.Uint(c.Old)
		w.Bytes(c.Data)
		w.Bool(c.Other)
	}
}

func readNameChanges(r *wire.Reader, q *Request) {
	for range r.Count(maxList) {
		q.Names = append(q.Names, NameChange{Name: r.String(MaxHolder), Old: r.Uint(), Data: r.Bytes(MaxNameData), Other: r.Bool()})
	}
}

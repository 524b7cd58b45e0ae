package register

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/register/wire"

	"github.com/cespare/xxhash/v2"
)

// Schedule is what the register keeps of one schedule (design 10). It does not
// look into the bytes. It does not change: a change makes another.
type Schedule struct {
	Name string
	// Revision is that of the register that wrote it, so that a record that was
	// removed and made again is another one.
	Revision uint64
	// Definition is what a user wants; nil of one that is deleted, whose watermark
	// is kept for a successor of its name.
	Definition []byte
	// State is what the cron master has decided, with the history.
	State []byte
}

// ScheduleChange asks for one compare-and-set of a schedule: it is written if
// its revision is still Old (0: there is none).
type ScheduleChange struct {
	Name string
	Old  uint64
	// Definition and State take the place of those before; nil leaves them, empty
	// takes them away.
	Definition, State []byte
	// Remove forgets the schedule.
	Remove bool
}

// Mastership says who launches: one process, named by a nonce that it has drawn
// (design 10). It is zero until somebody has taken it.
type Mastership struct {
	Term   uint64 // goes up with each change
	Nonce  uint64
	Member Member
	// Zones is the release of the tz database that this master decides by.
	Zones string
}

// MasterChange asks for one compare-and-set of the mastership: it is written if
// the nonce is still Old. Term is filled in.
type MasterChange struct {
	Old uint64
	New Mastership
}

// Limits of schedules: all of them are in memory on every node, and in each
// snapshot of the register.
const (
	MaxSchedules     = 200_000
	MaxDefinition    = 192 << 10 // bytes
	MaxScheduleState = 64 << 10  // bytes
	MaxScheduleBytes = 512 << 20 // of all of them: a snapshot has to hold them
	// ScheduleReserve is the part of MaxScheduleBytes that new schedules and larger
	// definitions do not get: what is launched has to be noted, or nothing would be
	// launched any more once users have filled the register.
	ScheduleReserve = 32 << 20
	// smallEdit is how much larger a definition may become all the same: a pause with
	// its note.
	smallEdit = 2 << 10
)

// fan is how many children a node of the tree has. Two levels and a leaf hold
// 100,000 schedules with some 25 in a leaf.
const fan = 64

// Schedules is a set of schedules by name that does not change: a change shares
// with the set before all it can, and what is shared is not looked at when two
// are compared. The zero Schedules is empty.
type Schedules struct {
	root  *[fan]*[fan][]*Schedule // leaves are sorted by name
	count int
	bytes int
}

// place is where a name is in the tree: by hash, so that it needs no balancing.
func place(name string) (int, int) {
	h := xxhash.Sum64String(name)
	return int(h % fan), int(h / fan % fan)
}

// Len is the number of schedules.
func (s Schedules) Len() int { return s.count }

// Bytes is about what they take encoded.
func (s Schedules) Bytes() int { return s.bytes }

// Get gives the schedule of a name, nil when there is none.
func (s Schedules) Get(name string) *Schedule {
	a, b := place(name)
	if s.root == nil || s.root[a] == nil {
		return nil
	}
	leaf := s.root[a][b]
	if i, ok := search(leaf, name); ok {
		return leaf[i]
	}
	return nil
}

func search(leaf []*Schedule, name string) (int, bool) {
	return slices.BinarySearchFunc(leaf, name, func(x *Schedule, n string) int { return strings.Compare(x.Name, n) })
}

// All gives the schedules in an order that depends on their names only.
func (s Schedules) All() iter.Seq[*Schedule] {
	return func(yield func(*Schedule) bool) {
		if s.root == nil {
			return
		}
		for _, inner := range s.root {
			if inner == nil {
				continue
			}
			for _, leaf := range inner {
				for _, x := range leaf {
					if !yield(x) {
						return
					}
				}
			}
		}
	}
}

// Since gives the names of what differs from an older set, in the order of All.
// It costs what has changed, and not what there is.
func (s Schedules) Since(old Schedules) iter.Seq[string] {
	return func(yield func(string) bool) {
		for a := range fan {
			mine, theirs := s.inner(a), old.inner(a)
			if mine == theirs {
				continue
			}
			for b := range fan {
				if !changes(leafOf(mine, b), leafOf(theirs, b), yield) {
					return
				}
			}
		}
	}
}

func (s Schedules) inner(a int) *[fan][]*Schedule {
	if s.root == nil {
		return nil
	}
	return s.root[a]
}

func leafOf(inner *[fan][]*Schedule, b int) []*Schedule {
	if inner == nil {
		return nil
	}
	return inner[b]
}

// changes walks two sorted leaves side by side.
func changes(mine, theirs []*Schedule, yield func(string) bool) bool {
	for len(mine) > 0 || len(theirs) > 0 {
		switch {
		case len(mine) > 0 && len(theirs) > 0 && mine[0] == theirs[0]:
			mine, theirs = mine[1:], theirs[1:]
			continue
		case len(theirs) == 0 || len(mine) > 0 && mine[0].Name < theirs[0].Name:
			if !yield(mine[0].Name) {
				return false
			}
			mine = mine[1:]
		case len(mine) == 0 || theirs[0].Name < mine[0].Name:
			if !yield(theirs[0].Name) {
				return false
			}
			theirs = theirs[1:]
		default: // one name, another record
			if !yield(mine[0].Name) {
				return false
			}
			mine, theirs = mine[1:], theirs[1:]
		}
	}
	return true
}

// scheduleCost is about what a schedule takes beside its bytes.
const scheduleCost = 128

func (x *Schedule) size() int {
	return len(x.Name) + len(x.Definition) + len(x.State) + scheduleCost
}

// with is the set with one schedule in place of that of its name; nil takes it
// out.
func (s Schedules) with(name string, x *Schedule) Schedules {
	a, b := place(name)
	root, inner := new([fan]*[fan][]*Schedule), new([fan][]*Schedule)
	if s.root != nil {
		*root = *s.root
	}
	if root[a] != nil {
		*inner = *root[a]
	}
	root[a] = inner
	leaf := inner[b]
	i, found := search(leaf, name)
	if found {
		s.count, s.bytes = s.count-1, s.bytes-leaf[i].size()
	}
	switch fresh := make([]*Schedule, 0, len(leaf)+1); {
	case x != nil:
		rest := leaf[i:]
		if found {
			rest = leaf[i+1:]
		}
		inner[b] = append(append(append(fresh, leaf[:i]...), x), rest...)
		s.count, s.bytes = s.count+1, s.bytes+x.size()
	case found:
		inner[b] = append(append(fresh, leaf[:i]...), leaf[i+1:]...)
	}
	s.root = root
	return s
}

// setSchedule decides one change at a revision.
func (s *State) setSchedule(c *ScheduleChange, revision uint64) bool {
	old := s.Schedules.Get(c.Name)
	if c.Old != 0 && (old == nil || old.Revision != c.Old) || c.Old == 0 && old != nil {
		return false
	}
	if c.Remove {
		s.Schedules = s.Schedules.with(c.Name, nil)
		return old != nil
	}
	if c.Name == "" || len(c.Name) > MaxName || len(c.Definition) > MaxDefinition || len(c.State) > MaxScheduleState {
		return false
	}
	x := &Schedule{Name: c.Name, Revision: revision}
	if old != nil {
		x.Name, x.Definition, x.State = old.Name, old.Definition, old.State // one copy of the name, whoever else has it
	}
	if c.Definition != nil {
		x.Definition = slices.Clone(c.Definition)
	}
	if c.State != nil {
		x.State = slices.Clone(c.State)
	}
	if len(x.Definition) == 0 {
		x.Definition = nil // one form only: equal states give equal bytes
	}
	if len(x.State) == 0 {
		x.State = nil
	}
	next := s.Schedules.with(c.Name, x)
	grows := next.count > s.Schedules.count || next.bytes > s.Schedules.bytes
	most := MaxScheduleBytes
	if old == nil || len(x.Definition) > len(old.Definition)+smallEdit {
		most -= ScheduleReserve
	}
	if grows && (next.count > MaxSchedules || next.bytes > most) {
		return false
	}
	s.Schedules = next
	return true
}

// setMaster decides a change of the mastership.
func (s *State) setMaster(c *MasterChange) bool {
	if s.Master.Nonce != c.Old || c.New.Nonce == 0 || c.New.Nonce == c.Old || len(c.New.Zones) > MaxName {
		return false
	}
	term := s.Master.Term + 1
	s.Master = c.New
	s.Master.Term = term
	return true
}

// applySchedules decides what a request asks of schedules. What a master asks
// for that is none any more changes nothing: it is fenced off by its nonce.
func (s *State) applySchedules(r *Request, res *Result) (changed bool) {
	res.SchedulesWon = make([]bool, len(r.Schedules))
	if r.Master != nil {
		res.MasterWon = s.setMaster(r.Master)
		changed = res.MasterWon
	}
	if r.Nonce != 0 && r.Nonce != s.Master.Nonce && !mutant.MasterUnfenced.On() {
		return changed
	}
	for i := range r.Schedules {
		res.SchedulesWon[i] = s.setSchedule(&r.Schedules[i], s.Revision+1)
		changed = changed || res.SchedulesWon[i]
	}
	return changed
}

// MarshalJSON writes the schedules as a list.
func (s Schedules) MarshalJSON() ([]byte, error) {
	return json.Marshal(slices.Collect(s.All()))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Schedules) UnmarshalJSON(b []byte) error {
	var all []*Schedule
	if err := json.Unmarshal(b, &all); err != nil {
		return fmt.Errorf("register: schedules: %w", err)
	}
	*s = Schedules{}
	for _, x := range all {
		*s = s.with(x.Name, x)
	}
	return nil
}

// encoded is about what appendSchedules writes, bytes.
func (s Schedules) encoded() int {
	const lengths = 1 + 2 + 2 + 6 // of three parts, and the revision
	return s.bytes - s.count*(scheduleCost-lengths)
}

func appendSchedules(w *wire.Writer, s *State) {
	w.Uint(s.Master.Term)
	w.Uint(s.Master.Nonce)
	AppendMember(w, s.Master.Member)
	w.String(s.Master.Zones)
	w.Uint(uint64(s.Schedules.count))
	for x := range s.Schedules.All() {
		w.String(x.Name)
		w.Uint(x.Revision)
		w.Bytes(x.Definition)
		w.Bytes(x.State)
	}
}

func readSchedules(r *wire.Reader, s *State) {
	s.Master = Mastership{Term: r.Uint(), Nonce: r.Uint(), Member: ReadMember(r), Zones: r.String(MaxName)}
	var build [fan][fan][]*Schedule
	n := r.Count(MaxSchedules)
	for range n {
		x := &Schedule{Name: r.String(MaxName), Revision: r.Uint(), Definition: r.Bytes(MaxDefinition), State: r.Bytes(MaxScheduleState)}
		a, b := place(x.Name)
		leaf := build[a][b]
		if k := len(leaf); r.Failed() || x.Name == "" || k > 0 && leaf[k-1].Name >= x.Name {
			r.Fail()
			return
		}
		build[a][b] = append(leaf, x)
		s.Schedules.bytes += x.size()
	}
	if s.Schedules.count = n; n == 0 {
		return
	}
	s.Schedules.root = new([fan]*[fan][]*Schedule)
	for a := range build {
		inner := build[a]
		s.Schedules.root[a] = &inner
	}
}

// appendScheduleChanges writes what a request asks of schedules.
func appendScheduleChanges(w *wire.Writer, q *Request) {
	w.Uint(q.Nonce)
	w.Bool(q.Master != nil)
	if c := q.Master; c != nil {
		w.Uint(c.Old)
		w.Uint(c.New.Nonce)
		AppendMember(w, c.New.Member)
		w.String(c.New.Zones)
	}
	w.Uint(uint64(len(q.Schedules)))
	for i := range q.Schedules {
		c := &q.Schedules[i]
		w.String(c.Name)
		w.Uint(c.Old)
		w.Bool(c.Definition != nil)
		w.Bytes(c.Definition)
		w.Bool(c.State != nil)
		w.Bytes(c.State)
		w.Bool(c.Remove)
	}
}

func readScheduleChanges(r *wire.Reader, q *Request) {
	q.Nonce = r.Uint()
	if r.Bool() {
		q.Master = &MasterChange{Old: r.Uint(), New: Mastership{Nonce: r.Uint(), Member: ReadMember(r), Zones: r.String(MaxName)}}
	}
	some := func(limit int) []byte {
		given := r.Bool()
		b := r.Bytes(limit)
		switch {
		case !given && b != nil:
			r.Fail()
		case given && b == nil:
			b = []byte{}
		}
		return b
	}
	for range r.Count(maxList) {
		c := ScheduleChange{Name: r.String(MaxName), Old: r.Uint()}
		c.Definition, c.State = some(MaxDefinition), some(MaxScheduleState)
		c.Remove = r.Bool()
		q.Schedules = append(q.Schedules, c)
	}
}

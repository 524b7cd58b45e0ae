package backup

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// Position is the last fact that a page has: pages go on behind it. The zero value is
// before everything.
type Position struct {
	Task id.ID
	Key  crdt.Key
}

// PositionSize is the length of an encoded position in bytes.
const PositionSize = id.Size + crdt.KeySize

// IsZero tells whether nothing is before the position.
func (p Position) IsZero() bool { return p == Position{} }

// Compare is negative when p is before o.
func (p Position) Compare(o Position) int {
	if c := p.Task.Compare(o.Task); c != 0 {
		return c
	}
	return p.Key.Compare(o.Key)
}

// Encode gives [PositionSize] bytes, in the order of the positions; nothing for zero.
func (p Position) Encode() []byte {
	if p.IsZero() {
		return nil
	}
	return p.Key.Append(bytes.Clone(p.Task[:]))
}

// DecodePosition is the inverse of [Position.Encode]. ErrDamaged: it is none.
func DecodePosition(b []byte) (p Position, err error) {
	if len(b) == 0 {
		return p, nil
	}
	if len(b) != PositionSize {
		return p, fmt.Errorf("%w: a position of %d bytes", ErrDamaged, len(b))
	}
	copy(p.Task[:], b)
	if p.Key, err = crdt.DecodeKey(b[id.Size:]); err != nil {
		return p, fmt.Errorf("%w: a position: %w", ErrDamaged, err)
	}
	return p, nil
}

// Page is what one replica holds of a partition, from a position on.
type Page struct {
	Tasks []Task // ascending by ID; of the first and the last one perhaps not all
	// Next is where the page has ended; zero: there is nothing behind it.
	Next Position
}

// DecodePage reads a page as it travels. ErrDamaged: it is none.
func DecodePage(tasks, next []byte) (p Page, err error) {
	if p.Next, err = DecodePosition(next); err != nil {
		return p, err
	}
	for t, err := range Tasks(tasks) {
		if err != nil {
			return p, err
		}
		p.Tasks = append(p.Tasks, t)
	}
	return p, nil
}

// Union is what all of some replicas hold together, up to where the first of those pages
// ends that have more behind them: what that replica has behind is not known yet, and may
// belong before what the others have.
func Union(pages []Page) (out Page) {
	for i := range pages {
		if next := pages[i].Next; !next.IsZero() && (out.Next.IsZero() || next.Compare(out.Next) < 0) {
			out.Next = next
		}
	}
	for i := range pages {
		out.Tasks = union(out.Tasks, pages[i].Tasks, func(a, b *Task) int { return a.ID.Compare(b.ID) }, func(a, b Task) Task {
			a.Join(&b)
			return a
		})
	}
	if out.Next.IsZero() {
		return out
	}
	for n := len(out.Tasks); n > 0; n = len(out.Tasks) {
		last := &out.Tasks[n-1]
		if len(last.Facts) == 0 && last.ID.Compare(out.Next.Task) > 0 { // a claim alone
			out.Tasks = out.Tasks[:n-1]
			continue
		}
		behind := func(f crdt.Fact) bool { return out.Next.Compare(Position{last.ID, f.Key}) < 0 }
		if at := slices.IndexFunc(last.Facts, behind); at > 0 {
			last.Facts = slices.Clip(last.Facts[:at])
		} else if at == 0 {
			out.Tasks = out.Tasks[:n-1]
			continue
		}
		break
	}
	return out
}

// Assembler makes whole tasks of the tasks on pages that come one after the other. It
// holds one task. The zero value is ready.
type Assembler struct {
	task Task
	some bool
}

// Add takes the tasks of the next page, in the form of [Tasks], and gives each that is whole by
// now; it is valid during the call. last says that no page follows. ErrDamaged: it is no page, or
// does not follow those before.
func (a *Assembler) Add(tasks []byte, last bool, each func(*Task) error) error {
	for t, err := range Briefly(tasks) {
		if err != nil {
			return err
		}
		if a.some {
			switch order := t.ID.Compare(a.task.ID); {
			case order < 0:
				return fmt.Errorf("%w: a page has task %s behind %s", ErrDamaged, t.ID, a.task.ID)
			case order == 0:
				if n := len(a.task.Facts); n > 0 && len(t.Facts) > 0 && t.Facts[0].Key.Compare(a.task.Facts[n-1].Key) <= 0 {
					return fmt.Errorf("%w: a page repeats facts of task %s", ErrDamaged, t.ID)
				}
				a.task.Facts = append(a.task.Facts, t.Facts...)
				a.task.Join(&Task{Claims: t.Claims})
				continue
			}
			if err := each(&a.task); err != nil {
				return err
			}
		}
		a.task = Task{ID: t.ID, Facts: append(a.task.Facts[:0], t.Facts...), Claims: t.Claims}
		a.some = true
	}
	if last && a.some {
		a.some = false
		return each(&a.task)
	}
	return nil
}

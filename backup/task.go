package backup

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

var (
	// ErrDamaged is returned when bytes are not what was written: cut short, changed,
	// reordered, or of another backup.
	ErrDamaged = errors.New("backup: damaged")
	// ErrNewer is returned for a format that a newer build has written.
	ErrNewer = errors.New("backup: of a newer format")
)

// Claim is a claim that was held when a task was read.
type Claim struct {
	Token  uint64
	End    int64 // wall ns
	Worker string
}

// Task is what is known of a task, or on a page some of it.
type Task struct {
	ID     id.ID
	Facts  []crdt.Fact // ascending by key
	Claims []Claim     // ascending by token
}

// Seen is a task with what is found out of its facts, once.
type Seen struct {
	*Task
	View *crdt.Task // what they say; nil: there are none
	Sum  crdt.Sum   // over them
}

// See looks at a task. ErrDamaged: its facts are not those of a task.
func See(t *Task) (s Seen, err error) {
	s.Task = t
	if len(t.Facts) == 0 {
		return s, nil
	}
	if s.View, err = crdt.View(t.ID, slices.Values(t.Facts)); err != nil {
		return s, fmt.Errorf("%w: task %s: %w", ErrDamaged, t.ID, err)
	}
	s.Sum = SumOf(t)
	return s, nil
}

// maxWorker bounds the name in a claim, bytes.
const maxWorker = 512

// AppendTask appends the form of a task.
func AppendTask(dst []byte, t *Task) []byte {
	dst = binary.AppendUvarint(append(dst, t.ID[:]...), uint64(len(t.Facts)))
	for i := range t.Facts {
		f := &t.Facts[i]
		dst = append(dst, byte(f.Key.Kind))
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, f.Key.A), f.Key.B)
		dst = append(binary.AppendUvarint(dst, uint64(len(f.Body))), f.Body...)
		dst = binary.BigEndian.AppendUint32(dst, f.CRC)
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.Claims)))
	for _, c := range t.Claims {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, c.Token), uint64(c.End))
		dst = append(binary.AppendUvarint(dst, uint64(len(c.Worker))), c.Worker...)
	}
	return dst
}

// Size is how many bytes AppendTask appends at most.
func (t *Task) Size() int {
	n := id.Size + 2*binary.MaxVarintLen32
	for i := range t.Facts {
		n += factBytes + len(t.Facts[i].Body)
	}
	for _, c := range t.Claims {
		n += 3*binary.MaxVarintLen64 + len(c.Worker)
	}
	return n
}

// factBytes is what a fact takes at most beside its body.
const factBytes = 1 + 3*binary.MaxVarintLen64 + 4

// reader takes bytes apart and remembers the first error.
type reader struct {
	b     []byte
	at    int
	err   error
	space []crdt.Fact // that tasks take their facts from
}

// slab is how many facts are made at a time: most tasks have one.
const slab = 256

// facts gives an empty list with room for so many.
func (r *reader) facts(n int) []crdt.Fact {
	if n > slab/4 {
		return make([]crdt.Fact, 0, n)
	}
	if len(r.space) < n {
		r.space = make([]crdt.Fact, slab)
	}
	out := r.space[:0:n]
	r.space = r.space[n:]
	return out
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: byte %d: %s", ErrDamaged, r.at, fmt.Sprintf(format, args...))
	}
}

func (r *reader) take(n uint64, what string) []byte {
	if r.err != nil {
		return nil
	}
	if n > uint64(len(r.b)-r.at) {
		r.fail("%s of %d bytes, and %d are left", what, n, len(r.b)-r.at)
		return nil
	}
	out := r.b[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	return out
}

func (r *reader) uint(what string) uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 {
		r.fail("%s is no number", what)
		return 0
	}
	r.at += n
	return v
}

// count reads a number of things that take so many bytes each at least.
func (r *reader) count(least uint64, what string) int {
	n := r.uint(what)
	if r.err == nil && n > uint64(len(r.b)-r.at)/least {
		r.fail("%s: %d, in %d bytes", what, n, len(r.b)-r.at)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// task reads one task. It shares the bytes.
func (r *reader) task() (t Task) {
	copy(t.ID[:], r.take(id.Size, "an ID"))
	if n := r.count(8, "the number of facts"); n > 0 {
		t.Facts = r.facts(n)
		for range n {
			f := r.fact(t.ID)
			if i := len(t.Facts); r.err == nil && i > 0 && f.Key.Compare(t.Facts[i-1].Key) <= 0 {
				r.fail("facts of %s out of order", t.ID)
			}
			if r.err != nil {
				return t
			}
			t.Facts = append(t.Facts, f)
		}
	}
	if n := r.count(3, "the number of claims"); n > 0 {
		t.Claims = make([]Claim, 0, n)
		for range n {
			c := Claim{Token: r.uint("a token"), End: int64(r.uint("an end"))}
			c.Worker = string(r.take(min(r.uint("the length of a name"), maxWorker+1), "a name"))
			if i := len(t.Claims); i > 0 && t.Claims[i-1].Token >= c.Token || len(c.Worker) > maxWorker {
				r.fail("claims of %s", t.ID)
			}
			if r.err != nil {
				return t
			}
			t.Claims = append(t.Claims, c)
		}
	}
	return t
}

func (r *reader) fact(task id.ID) (f crdt.Fact) {
	f.Task = task
	if b := r.take(1, "a kind"); b != nil {
		f.Key.Kind = crdt.Kind(b[0])
	}
	f.Key.A, f.Key.B = r.uint("a key"), r.uint("a key")
	size := r.uint("the length of a body")
	if size > crdt.MaxBody {
		r.fail("a body of %d bytes", size)
	}
	f.Body = r.take(size, "a body")
	if b := r.take(4, "a CRC"); b != nil {
		f.CRC = binary.BigEndian.Uint32(b)
	}
	return f
}

// Tasks walks the tasks in some bytes; ErrDamaged, with the byte, ends it.
// The tasks share the bytes. Their IDs ascend.
func Tasks(b []byte) iter.Seq2[Task, error] { return tasks(b, true) }

// Unordered gives the tasks in some bytes, whatever order they are in.
func Unordered(b []byte) (all []Task, err error) {
	for t, err := range tasks(b, false) {
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func tasks(b []byte, ordered bool) iter.Seq2[Task, error] {
	return func(yield func(Task, error) bool) {
		r, last := &reader{b: b}, id.ID{}
		for r.at < len(b) {
			at := r.at
			t := r.task()
			if r.err == nil && ordered && at > 0 && t.ID.Compare(last) <= 0 {
				r.at = at
				r.fail("task %s after %s", t.ID, last)
			}
			if r.err != nil {
				yield(Task{}, r.err)
				return
			}
			if last = t.ID; !yield(t, nil) {
				return
			}
		}
	}
}

// Check returns ErrDamaged when a fact does not fit its CRC, or is none that a cluster
// writes, and crdt.ErrUnknown, wrapped, when a newer build has written it.
func (t *Task) Check() error {
	for _, f := range t.Facts {
		switch err := f.Check(); {
		case errors.Is(err, crdt.ErrUnknown):
			return fmt.Errorf("%w: task %s: %w", ErrNewer, t.ID, err)
		case err != nil:
			return fmt.Errorf("%w: task %s: %w", ErrDamaged, t.ID, err)
		}
	}
	return nil
}

// Join puts what is known of a task in another place into t: the union of the facts, of
// two under one key the one that wins everywhere, and of the claims, each with the later
// end. Both share their bodies with what they came from.
func (t *Task) Join(o *Task) {
	t.Facts = union(t.Facts, o.Facts, func(a, b *crdt.Fact) int { return a.Key.Compare(b.Key) }, func(a, b crdt.Fact) crdt.Fact {
		if crdt.Wins(b.Body, a.Body) {
			return b
		}
		return a
	})
	t.Claims = union(t.Claims, o.Claims, func(a, b *Claim) int { return cmp.Compare(a.Token, b.Token) }, func(a, b Claim) Claim {
		a.End = max(a.End, b.End)
		return a
	})
}

// union merges two sorted lists; both decides where they have the same.
func union[T any](a, b []T, order func(a, b *T) int, both func(a, b T) T) []T {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	out := make([]T, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		switch c := order(&a[0], &b[0]); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, both(a[0], b[0])), a[1:], b[1:]
		}
	}
	return slices.Concat(out, a, b)
}

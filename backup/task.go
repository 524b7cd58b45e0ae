package backup

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
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

// Clone copies a task, but for the bodies of its facts.
func (t *Task) Clone() Task {
	return Task{ID: t.ID, Facts: slices.Clone(t.Facts), Claims: slices.Clone(t.Claims)}
}

// Seen is a task with what is found out of its facts, once.
type Seen struct {
	*Task
	Sum crdt.Sum // over the facts

	view *crdt.Task  // what they say; nil: there are none, or one enqueue
	one  crdt.Glance // of that: most tasks wait, and nothing has happened to them
}

// See looks at a task. ErrDamaged: its facts are not those of a task; ErrNewer: a newer build has
// written one of them.
func See(t *Task) (s Seen, err error) {
	switch s.Task = t; {
	case len(t.Facts) == 0:
		return s, nil
	case s.waits():
		s.one, err = t.Facts[0].Glance()
	default:
		s.view, err = crdt.View(t.ID, slices.Values(t.Facts))
	}
	if err != nil {
		return s, t.wrong(err)
	}
	s.Sum = SumOf(t)
	return s, nil
}

// waits tells whether nothing is known of the task but that it was enqueued.
func (s *Seen) waits() bool {
	return len(s.Facts) == 1 && s.Facts[0].Key == crdt.Key{Kind: crdt.KindEnqueued}
}

// queue gives the queue; known is false where the enqueue is not there.
func (s *Seen) queue() (name []byte, known bool) {
	switch {
	case s.waits():
		return s.one.Queue, true
	case s.view != nil && s.view.Enqueued != nil:
		return []byte(s.view.Enqueued.Queue), true
	}
	return nil, false
}

// outcome is how the task has ended.
func (s *Seen) outcome() crdt.State {
	if s.waits() {
		return crdt.StateUnknown
	}
	return s.view.Outcome()
}

// state is that of the task at some time.
func (s *Seen) state(at time.Time) crdt.State {
	if s.waits() {
		return s.one.State(len(s.Claims) > 0, at.UnixNano())
	}
	return s.view.State(held(len(s.Claims) > 0), clock.Time{Wall: at.UnixNano()})
}

// maxWorker bounds the name in a claim, bytes.
const maxWorker = 512

// AppendTask appends the form of a task.
func AppendTask(dst []byte, t *Task) []byte {
	dst = binary.AppendUvarint(append(dst, t.ID[:]...), uint64(len(t.Facts)))
	for i := range t.Facts {
		dst = appendFact(dst, &t.Facts[i])
	}
	return appendClaims(dst, t.Claims)
}

func appendFact(dst []byte, f *crdt.Fact) []byte {
	dst = append(dst, byte(f.Key.Kind))
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, f.Key.A), f.Key.B)
	dst = append(binary.AppendUvarint(dst, uint64(len(f.Body))), f.Body...)
	return binary.BigEndian.AppendUint32(dst, f.CRC)
}

func appendClaims(dst []byte, all []Claim) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	for _, c := range all {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, c.Token), uint64(c.End))
		dst = append(binary.AppendUvarint(dst, uint64(len(c.Worker))), c.Worker...)
	}
	return dst
}

// Gatherer makes the form of tasks of facts that come one by one, ascending by task and key. The zero
// value has none.
type Gatherer struct {
	Bytes []byte // of the tasks that have ended
	Last  crdt.Key
	task  id.ID
	at    int // where the task begins that has not ended
	facts uint64
}

// Open gives the task that has not ended; false: there is none.
func (g *Gatherer) Open() (id.ID, bool) { return g.task, g.facts > 0 }

// Add adds a fact, of the task that has not ended or of a new one.
func (g *Gatherer) Add(f *crdt.Fact) {
	if g.facts == 0 {
		g.task, g.at = f.Task, len(g.Bytes)
		g.Bytes = append(append(g.Bytes, f.Task[:]...), 0) // a byte for the number of facts
	}
	g.facts++
	g.Last = f.Key
	g.Bytes = appendFact(g.Bytes, f)
}

// End ends a task, with its claims.
func (g *Gatherer) End(claims []Claim) {
	at := g.at + id.Size
	if g.facts < 0x80 {
		g.Bytes[at] = byte(g.facts)
	} else {
		g.Bytes = slices.Replace(g.Bytes, at, at+1, binary.AppendUvarint(nil, g.facts)...)
	}
	g.facts = 0
	g.Bytes = appendClaims(g.Bytes, claims)
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
	brief bool        // facts of a task are valid until the next one
}

// slab is how many facts are made at a time: most tasks have one.
const slab = 256

// facts gives an empty list with room for so many.
func (r *reader) facts(n int) []crdt.Fact {
	if r.brief {
		r.space = slices.Grow(r.space[:0], n)
		return r.space
	}
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
func Tasks(b []byte) iter.Seq2[Task, error] { return (&reader{b: b}).tasks(true) }

// Briefly is [Tasks] with tasks that are valid until the next one.
func Briefly(b []byte) iter.Seq2[Task, error] { return (&reader{b: b, brief: true}).tasks(true) }

// Unordered gives the tasks in some bytes, whatever order they are in.
func Unordered(b []byte) (all []Task, err error) {
	for t, err := range (&reader{b: b}).tasks(false) {
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func (r *reader) tasks(ordered bool) iter.Seq2[Task, error] {
	return func(yield func(Task, error) bool) {
		last := id.ID{}
		for r.at < len(r.b) {
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

// Record is a task as its form says, without its facts.
type Record struct {
	ID            id.ID
	Facts, Claims int
	Bytes         []byte // the form of it
}

// Task gives the whole of it. ErrDamaged: it is none.
func (r *Record) Task() (Task, error) {
	of := &reader{b: r.Bytes}
	t := of.task()
	return t, of.err
}

// NextRecord gives the first of the tasks in some bytes, and what is behind it. ErrDamaged: it is none.
func NextRecord(b []byte) (first Record, rest []byte, err error) {
	r := &reader{b: b}
	copy(first.ID[:], r.take(id.Size, "an ID"))
	first.Facts = r.count(8, "the number of facts")
	for range first.Facts {
		r.take(1, "a kind")
		r.uint("a key")
		r.uint("a key")
		r.take(r.uint("the length of a body"), "a body")
		r.take(4, "a CRC")
	}
	first.Claims = r.count(3, "the number of claims")
	for range first.Claims {
		r.uint("a token")
		r.uint("an end")
		r.take(r.uint("the length of a name"), "a name")
	}
	first.Bytes = b[:r.at:r.at]
	return first, b[r.at:], r.err
}

// Check returns ErrDamaged when a fact does not fit its CRC, or is none that a cluster
// writes, and crdt.ErrUnknown, wrapped, when a newer build has written it.
func (t *Task) Check() error {
	for _, f := range t.Facts {
		if err := f.Check(); err != nil {
			return t.wrong(err)
		}
	}
	return nil
}

// wrong says what is wrong with a task.
func (t *Task) wrong(err error) error {
	kind := ErrDamaged
	if errors.Is(err, crdt.ErrUnknown) {
		kind = ErrNewer
	}
	return fmt.Errorf("%w: task %s: %w", kind, t.ID, err)
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

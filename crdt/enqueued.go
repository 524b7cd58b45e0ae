package crdt

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
)

// OnDepFailure says what becomes of a task when a dependency dies or is
// cancelled. The numbers are stored: append only.
type OnDepFailure uint8

// What a task does when a dependency fails.
const (
	DepFailureCancel OnDepFailure = 0 // is cancelled too
	DepFailureRun    OnDepFailure = 1 // runs all the same
	DepFailureWait   OnDepFailure = 2 // waits for ever, or until the dependency is retried and completed
)

// Header is a small named string that travels with a task.
type Header struct{ Key, Value string }

// Enqueued states what the task is: its spec, frozen. Key: nothing.
type Enqueued struct {
	Queue    string
	Priority int32 // higher is claimed first
	Payload  []byte
	// Admission is when the task was let in, wall ns; 0: the ID's own time.
	// Age and horizon are judged by it (design 3).
	Admission int64
	NotBefore int64 // wall ns; 0: none
	// Dependencies must be completed first: ascending, each once.
	Dependencies []id.ID
	OnDepFailure OnDepFailure
	Retry        Retry
	Headers      []Header // ascending by key, each key once
	Key          string   // unique key; empty: none
	KeyWindow    int64    // of the unique key, ns; 0: until the task is finished
	// Further are fields of the client's TaskSpec that are not above, see [Further].
	Further []byte
}

// Size is what a task holds of its client's, in bytes: its payload, its headers, and what is not
// known here. Results and logs are not counted.
func (e *Enqueued) Size() int {
	n := len(e.Payload) + len(e.Further)
	for i := range e.Headers {
		n += len(e.Headers[i].Key) + len(e.Headers[i].Value)
	}
	return n
}

func (e Enqueued) key() Key { return Key{Kind: KindEnqueued} }

// AppendTo appends the canonical bytes. Dependencies and headers must be in
// order, or no decoder will take them: see [Fact.Check].
func (e Enqueued) AppendTo(dst []byte) []byte {
	dst = append(dst, version)
	dst = appendUint(dst, uint64(e.Admission))
	dst = appendBytes(dst, e.Queue)
	dst = appendInt32(dst, e.Priority)
	dst = appendUint(dst, uint64(e.NotBefore))
	dst = append(dst, byte(e.OnDepFailure))
	dst = e.Retry.appendTo(dst)
	dst = appendBytes(dst, e.Key)
	dst = appendUint(dst, uint64(e.KeyWindow))
	dst = appendUint(dst, uint64(len(e.Dependencies)))
	for i := range e.Dependencies {
		dst = append(dst, e.Dependencies[i][:]...)
	}
	dst = appendUint(dst, uint64(len(e.Headers)))
	for _, h := range e.Headers {
		dst = appendBytes(appendBytes(dst, h.Key), h.Value)
	}
	return appendFurther(appendBytes(dst, e.Payload), e.Further)
}

// Encode gives the canonical bytes, in one allocation.
func (e Enqueued) Encode() []byte { return e.AppendTo(make([]byte, 0, e.size())) }

// size is no less than the length of the canonical bytes.
func (e *Enqueued) size() int {
	const numbers = 1 + 15*9 // version, and every number at its longest
	n := numbers + len(e.Queue) + len(e.Key) + id.Size*len(e.Dependencies) + len(e.Payload) + furtherSize(e.Further)
	for _, h := range e.Headers {
		n += 2*9 + len(h.Key) + len(h.Value)
	}
	return n
}

// Fact gives the fact of this task.
func (e Enqueued) Fact(task id.ID) Fact { return NewFact(task, e.key(), e.Encode()) }

// DecodeEnqueued is the inverse of [Enqueued.Encode]. The payload and the
// further fields share b. It returns ErrMalformed for bytes that are not canonical, and ErrUnknown for a
// newer version.
func DecodeEnqueued(b []byte) (Enqueued, error) {
	r := read(b)
	e := Enqueued{
		Admission: r.int64(), Queue: r.text(), Priority: r.int32(), NotBefore: r.int64(),
		OnDepFailure: OnDepFailure(r.flag(byte(DepFailureWait))), Retry: r.retry(),
		Key: r.text(), KeyWindow: r.int64(),
	}
	if n := r.count(id.Size, maxDependencies); n > 0 {
		e.Dependencies = make([]id.ID, n)
		for i := range e.Dependencies {
			e.Dependencies[i] = r.id()
			if i > 0 && e.Dependencies[i-1].Compare(e.Dependencies[i]) >= 0 {
				r.fail("dependencies out of order")
			}
		}
	}
	if n := r.count(2, maxHeaders); n > 0 {
		e.Headers = make([]Header, n)
		for i := range e.Headers {
			e.Headers[i] = Header{Key: r.text(), Value: r.text()}
			if i > 0 && e.Headers[i-1].Key >= e.Headers[i].Key {
				r.fail("headers out of order")
			}
		}
	}
	e.Payload, e.Further = r.bytes(), r.further()
	if err := r.end(); err != nil {
		return Enqueued{}, err
	}
	return e, nil
}

// QueueOf gives the queue in the bytes of [Enqueued.Encode], and reads no more of them. ErrMalformed and
// ErrUnknown as of [DecodeEnqueued].
func QueueOf(b []byte) (string, error) {
	r := read(b)
	r.int64()
	queue := r.text()
	return queue, r.err
}

// Glance is what an enqueue says of where its task stands, as long as no other fact is known.
type Glance struct {
	Admission    int64  // wall ns; 0: the ID's own time
	Queue        []byte // shares the body
	Priority     int32
	Size         int   // see [Enqueued.Size]
	NotBefore    int64 // wall ns; 0: none
	Dependencies int
}

// Glance reads an enqueue, refuses what [Fact.Check] refuses, and allocates nothing.
func (f *Fact) Glance() (g Glance, err error) {
	if f.Key != (Key{Kind: KindEnqueued}) {
		return g, fmt.Errorf("%w: key %v is not that of an enqueue", ErrMalformed, f.Key)
	}
	if err := f.Intact(); err != nil {
		return g, err
	}
	r := read(f.Body)
	g.Admission = r.int64()
	g.Queue, g.Priority = r.bytes(), r.int32()
	g.NotBefore = r.int64()
	r.flag(byte(DepFailureWait))
	r.retry()
	r.bytes()
	r.int64()
	g.Dependencies = r.count(id.Size, maxDependencies)
	for i, last := 0, []byte(nil); i < g.Dependencies; i++ {
		b := r.take(id.Size)
		if i > 0 && bytes.Compare(last, b) >= 0 {
			r.fail("dependencies out of order")
		}
		last = b
	}
	n := r.count(2, maxHeaders)
	for i, last := 0, []byte(nil); i < n; i++ {
		b := r.bytes()
		g.Size += len(b) + len(r.bytes())
		if i > 0 && bytes.Compare(last, b) >= 0 {
			r.fail("headers out of order")
		}
		last = b
	}
	g.Size += len(r.bytes()) + len(r.further())
	if err := r.end(); err != nil {
		return Glance{}, err
	}
	return g, nil
}

// State is [Task.State] of a task of which nothing but the enqueue is known.
func (g *Glance) State(held bool, now int64) State {
	switch {
	case held:
		return StateClaimed
	case g.Dependencies > 0:
		return StateWaiting
	case g.NotBefore > now:
		return StateScheduled
	}
	return StateReady
}

// asked is what the client asked for: without what the cluster filled in.
func (e Enqueued) asked() Enqueued {
	e.Admission = 0
	if e.Retry.FromQueue {
		e.Retry = Retry{FromQueue: true}
	}
	return e
}

// delay is for how long the task is put off from its admission on, ns; 0 where it is not, or
// has no admission but the time in its ID. Of a request with a delay that is let in twice it
// is the same, and not the time.
func (e *Enqueued) delay() int64 {
	if e.Admission == 0 || e.NotBefore == 0 {
		return 0
	}
	return e.NotBefore - e.Admission
}

// SpecDigest is a digest of what the client asked for: the first 16 bytes of
// the SHA-256 of the canonical bytes, without the admission time, and without
// the retry policy where it came from the queue.
func (e Enqueued) SpecDigest() [16]byte {
	sum := sha256.Sum256(e.asked().Encode())
	return [16]byte(sum[:16])
}

// SameSpec tells whether two enqueues ask for the same: then one is a retry of
// the other, although the cluster may have filled in different defaults.
func SameSpec(a, b Enqueued) bool {
	put := a.NotBefore == b.NotBefore || a.delay() != 0 && a.delay() == b.delay()
	a, b = a.asked(), b.asked()
	return a.Queue == b.Queue && a.Priority == b.Priority && put &&
		a.OnDepFailure == b.OnDepFailure && a.Retry == b.Retry &&
		a.Key == b.Key && a.KeyWindow == b.KeyWindow &&
		slices.Equal(a.Dependencies, b.Dependencies) && slices.Equal(a.Headers, b.Headers) &&
		bytes.Equal(a.Payload, b.Payload) && bytes.Equal(a.Further, b.Further)
}

// Retry says how often and when a task is tried again. It is frozen into the
// enqueue, so that a changed default does not change old tasks.
type Retry struct {
	MaxAttempts  uint32
	Initial, Max time.Duration // delay after the first failure, and its bound
	Multiplier   uint32        // factor between delays, in thousandths
	Jitter       uint32        // the random share of a delay, in thousandths
	// FromQueue says that the client did not ask for this policy: it is the
	// queue's default of that moment.
	FromQueue bool
}

func (r Retry) appendTo(dst []byte) []byte {
	dst = appendBool(dst, r.FromQueue)
	dst = appendUint(dst, uint64(r.MaxAttempts))
	dst = appendUint(dst, uint64(r.Initial))
	dst = appendUint(dst, uint64(r.Max))
	dst = appendUint(dst, uint64(r.Multiplier))
	return appendUint(dst, uint64(r.Jitter))
}

func (r *reader) retry() Retry {
	return Retry{
		FromQueue: r.bool(), MaxAttempts: r.uint32(),
		Initial: time.Duration(r.int64()), Max: time.Duration(r.int64()),
		Multiplier: r.uint32(), Jitter: r.uint32(),
	}
}

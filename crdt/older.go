package crdt

import (
	"math"

	"github.com/norn-dev/norn/id"
)

// Older states what the failures and expiries of the claims of a task below a token come
// to, which bounds its history: those facts are gone, and do not come back. Of two the one
// with the higher Below stays, because it is the smaller one by its bytes, and it covers what
// the other one does, so that the join stays one. Only the leader writes it, once all members
// have what is below and no claim there is open. Key: nothing.
type Older struct {
	Ends          // Below is over 0
	Claims uint64 // that are counted; over all runs of the task
	// Early are the first of these facts, ascending by token, as they were: at most MaxEarly,
	// one of a claim.
	Early []Early
}

// Early is a fact that is kept inside of another one.
type Early struct {
	Key  Key // of a failure or an expiry
	Body []byte
}

// MaxEarly bounds the early facts.
const MaxEarly = 3

func (o Older) key() Key { return Key{Kind: KindOlder} }

// AppendTo appends the canonical bytes. What is highest comes first and is the smallest.
func (o Older) AppendTo(dst []byte) []byte {
	dst = appendUint(append(dst, version), math.MaxUint64-o.Below)
	for _, n := range []uint64{o.After, o.Attempts, o.Failures, o.Claims, uint64(len(o.Early))} {
		dst = appendUint(dst, n)
	}
	for _, e := range o.Early {
		dst = appendBytes(appendUint(append(dst, byte(e.Key.Kind)), e.Key.A), e.Body)
	}
	return dst
}

// Encode gives the canonical bytes.
func (o Older) Encode() []byte {
	size := 9
	for _, e := range o.Early {
		size += 1 + 2*9 + len(e.Body)
	}
	return encode(o, size)
}

// Fact gives the fact of this task.
func (o Older) Fact(task id.ID) Fact { return NewFact(task, o.key(), o.Encode()) }

// DecodeOlder is the inverse of [Older.Encode]. The early bodies share b. Errors as
// [DecodeEnqueued].
func DecodeOlder(b []byte) (Older, error) {
	r := read(b)
	o := Older{Ends: Ends{Below: math.MaxUint64 - r.uint(), After: r.uint(), Attempts: r.uint(), Failures: r.uint()}, Claims: r.uint()}
	last := uint64(0)
	for range r.count(3, MaxEarly) {
		e := Early{Key: Key{Kind: Kind(r.flag(byte(KindExpired))), A: r.uint()}, Body: r.bytes()}
		if r.err != nil {
			break
		}
		if e.Key.A < last || e.Key.A >= o.Below || !e.sound() {
			r.fail("early facts")
			break
		}
		last = e.Key.A + 1
		o.Early = append(o.Early, e)
	}
	if r.err == nil && o.Below == 0 {
		r.fail("nothing is below")
	}
	if err := r.end(); err != nil {
		return Older{}, err
	}
	return o, nil
}

// sound tells whether an early fact is a failure or an expiry, in its canonical form.
func (e *Early) sound() bool {
	switch e.Key.Kind {
	case KindFailed:
		_, err := decode(Fact{Key: e.Key, Body: e.Body}, DecodeFailed)
		return err == nil
	case KindExpired:
		_, err := decode(Fact{Key: e.Key, Body: e.Body}, DecodeExpired)
		return err == nil
	}
	return false
}

// Covers tells whether a fact of this key is among those that are counted, and gone.
func (o *Older) Covers(k Key) bool {
	return o != nil && Fact{Key: k}.Ends() && k.A < o.Below
}

// CountsAfter tells whether what is counted is of the run of attempts after a token. A retry
// of which nothing is known here yet does not matter: it was known to who has counted.
func (o *Older) CountsAfter(token uint64) bool { return o != nil && token <= o.After }

// Older is what is counted of facts that are gone; nil: none are.
func (t *Task) Older() *Older { return t.old }

// takeOlder counts what is gone instead of what it covers.
func (t *Task) takeOlder(f Fact) error {
	if err := keep(f, DecodeOlder, &t.old); err != nil {
		return err
	}
	for _, all := range []*[]uint64{&t.counted, &t.putOff, &t.expired} {
		kept := (*all)[:0]
		for _, token := range *all {
			if token >= t.old.Below {
				kept = append(kept, token)
			}
		}
		if *all = kept; len(kept) == 0 {
			*all = nil
		}
	}
	if t.failed != nil && t.failed.Token < t.old.Below {
		t.failed = nil
	}
	return nil
}

// gone is what counts of facts that are gone, where it is not in what is counted of those
// that are there, too.
func (t *Task) gone() (attempts, failures int) {
	if t.older == (Ends{}) && t.old.CountsAfter(t.AfterToken()) {
		return int(t.old.Attempts), int(t.old.Failures)
	}
	return 0, 0
}

// Base is what the count of a task begins with, in the run of attempts after a token.
func (o *Older) Base(after uint64) (e Ends) {
	e.After = after
	if o.CountsAfter(after) {
		e.Attempts, e.Failures = o.Attempts, o.Failures
	}
	return e
}

// With gives the one that covers most: o, which may be nil, or one among facts that were
// checked.
func (o *Older) With(facts []Fact) *Older {
	for _, f := range facts {
		if f.Key.Kind != KindOlder {
			continue
		}
		if other, err := DecodeOlder(f.Body); err == nil && (o == nil || other.Below > o.Below) {
			o = &other
		}
	}
	return o
}

// Ends tells whether a fact is a failure or an expiry.
func (f Fact) Ends() bool { return f.Key.Kind == KindFailed || f.Key.Kind == KindExpired }

package crdt

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Ends counts what the failures and expiries of the older claims of a task come to: those
// below a token. It follows from the facts, so that not all of them have to be read.
type Ends struct {
	Below    uint64 // token; 0: nothing is counted
	After    uint64 // of these only claims above this token count: [Requeued.AfterToken] of the newest retry
	Attempts uint64 // see [Task.Attempts]
	Failures uint64 // see [Task.Failures]
}

// End is how one claim ended, as far as failures and expiries say.
type End struct {
	Token           uint64
	Failed, Counted bool // there is a failure; it uses up an attempt
	Expired         bool
}

// Take counts one more claim, which has to come after those that are counted.
func (e *Ends) Take(o End) {
	e.Below = o.Token + 1
	if o.Token > e.After {
		e.Replace(End{}, o)
	}
}

// Replace counts a claim of the present run as it is, where it was counted otherwise.
func (e *Ends) Replace(was, is End) {
	e.Attempts += is.attempts() - was.attempts()
	e.Failures += is.failures() - was.failures()
}

func (o End) attempts() uint64 {
	if o.Counted || o.Expired {
		return 1
	}
	return 0
}

func (o End) failures() uint64 {
	if o.Failed {
		return 1
	}
	return 0
}

// Fits tells whether a count is about the present run of a task's attempts.
func (t *Task) Fits(e Ends) bool { return e.After == t.AfterToken() }

// AfterToken is the token up to which claims belong to runs before the newest retry.
func (t *Task) AfterToken() uint64 {
	if t.requeued == nil {
		return 0
	}
	return t.requeued.AfterToken
}

// endsSize is the length of encoded ends: four numbers.
const endsSize = 4 * 8

// Encode gives the form in which each replica keeps its own count.
func (e Ends) Encode() []byte {
	b := make([]byte, 0, endsSize)
	for _, n := range []uint64{e.Below, e.After, e.Attempts, e.Failures} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// DecodeEnds is the inverse of [Ends.Encode]; ok is false for what it is not of.
func DecodeEnds(b []byte) (e Ends, ok bool) {
	if len(b) != endsSize {
		return e, false
	}
	for i, n := range []*uint64{&e.Below, &e.After, &e.Attempts, &e.Failures} {
		*n = binary.BigEndian.Uint64(b[8*i:])
	}
	return e, true
}

// Add adds what the body of a failure or an expiry of the claim says; nil says nothing.
// Errors as [DecodeEnqueued].
func (o *End) Add(kind Kind, body []byte) error {
	switch {
	case body == nil:
	case kind == KindExpired:
		o.Expired = true
	default:
		is, err := DecodeFailed(body)
		if err != nil {
			return err
		}
		o.Failed, o.Counted = true, is.Counted
	}
	return nil
}

// AddEnd adds what a failure or an expiry says to how claims have ended, ascending by token.
func AddEnd(all []End, f Fact) ([]End, error) {
	at, there := slices.BinarySearchFunc(all, f.Key.A, func(o End, token uint64) int { return cmp.Compare(o.Token, token) })
	if !there {
		all = slices.Insert(all, at, End{Token: f.Key.A})
	}
	return all, all[at].Add(f.Key.Kind, f.Body)
}

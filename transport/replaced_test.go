package transport

import "testing"

// dropped is a body that is too large and notes what becomes of it.
type dropped struct {
	Bytes
	told int
}

// Dropped counts.
func (d *dropped) Dropped() { d.told++ }

// A reply whose place an error takes has not reached anybody: its sender hears of
// it, so that what it granted is freed (track record).
func TestAReplacedReplyIsDropped(t *testing.T) {
	o := &outbox{maxFrame: 100, errorBody: func(err error) Body { return Bytes(err.Error()[:10]) }}
	d := &dropped{Bytes: make(Bytes, 200)}
	frame := o.encode(nil, &item{request: 7, word: FlagResponse | 4, size: 220, body: d})
	if d.told != 1 {
		t.Fatalf("told %d times", d.told)
	}
	if len(frame) > 100 || frame[12]&byte(FlagError>>8) == 0 {
		t.Fatalf("the frame in its place: %x", frame)
	}
}

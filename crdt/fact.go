package crdt

import (
	"bytes"
	"fmt"

	"github.com/norn-dev/norn/id"
)

// Fact is one immutable statement about a task.
type Fact struct {
	Task id.ID
	Key  Key
	Body []byte // canonical bytes of the kind's struct; nobody may change them
}

// Check decodes the fact and returns ErrMalformed unless its body is canonical
// and belongs under its key, and ErrUnknown when it was written by a newer
// build. What comes from others is checked before it is stored.
func (f Fact) Check() error {
	var t Task
	return t.take(f)
}

// Wins tells whether body a stays where a and b were written under one key:
// the smaller one in byte order, everywhere the same. Of two that say the same
// with different times that is the earlier one, so that a retry changes
// nothing. Equal bodies do not win over each other.
func Wins(a, b []byte) bool { return bytes.Compare(a, b) < 0 }

// content is what every fact's struct has.
type content interface {
	key() Key
	AppendTo(dst []byte) []byte
}

// decode reads a body that must belong under a key.
func decode[T content](f Fact, decoder func([]byte) (T, error)) (T, error) {
	c, err := decoder(f.Body)
	if err == nil && c.key() != f.Key {
		err = fmt.Errorf("%w: a body of key %v under key %v", ErrMalformed, c.key(), f.Key)
	}
	return c, err
}

// encode is AppendTo into one allocation: size is what the fields of variable
// length take, and the rest has at most five numbers.
func encode(c content, size int) []byte {
	return c.AppendTo(make([]byte, 0, 1+5*9+size))
}

package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// appendRecord appends the record of a task: its length and its bytes, the
// same for the same task.
func appendRecord(dst []byte, t *nornv1.Task) ([]byte, error) {
	size := proto.Size(t)
	if size > MaxRecord {
		return dst, fmt.Errorf("%w: task %s has %d bytes, over %d", ErrTooLarge, t.GetId(), size, MaxRecord)
	}
	dst = binary.AppendUvarint(dst, uint64(size))
	begin := len(dst)
	dst, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, t)
	if err != nil {
		return dst, fmt.Errorf("%w: task %s: %w", ErrInvalid, t.GetId(), err)
	}
	if n, err := fields(dst[begin:]); err != nil {
		return dst, fmt.Errorf("%w: task %s: %w", ErrInvalid, t.GetId(), err)
	} else if n > MaxFields {
		return dst, fmt.Errorf("%w: task %s has over %d claims, updates and other fields", ErrTooLarge, t.GetId(), MaxFields)
	}
	return dst, nil
}

// fields counts the top-level fields of a message, to one over the limit.
func fields(b []byte) (int, error) {
	n := 0
	for len(b) > 0 && n <= MaxFields {
		size := consume(b)
		if size < 0 {
			return n, protowire.ParseError(size)
		}
		b = b[size:]
		n++
	}
	return n, nil
}

// consume gives the length of the first field, or a negative error.
func consume(b []byte) int {
	_, _, n := protowire.ConsumeField(b)
	return n
}

// parseRecord reads the message of a record.
func parseRecord(b []byte) (*nornv1.Task, error) {
	if n, err := fields(b); err != nil {
		return nil, err
	} else if n > MaxFields {
		return nil, fmt.Errorf("over %d fields", MaxFields)
	}
	t := &nornv1.Task{}
	if err := proto.Unmarshal(b, t); err != nil {
		return nil, err
	}
	if _, err := id.Parse(t.GetId()); err != nil {
		return nil, fmt.Errorf("ID %q: %w", t.GetId(), err)
	}
	return t, nil
}

// records cuts a stream of uncompressed bytes into records.
type records struct {
	in  *bufio.Reader
	buf bytes.Buffer // a length and a message
}

// next gives the next record, with and without its length, until the next
// call. It returns io.EOF at the end, which is between two records only.
func (r *records) next() (record, message []byte, err error) {
	r.buf.Reset()
	size, err := r.length()
	if err != nil {
		return nil, nil, err
	}
	head := r.buf.Len()
	// The buffer grows with what is there, not with what the length promises.
	if n, err := io.CopyN(&r.buf, r.in, size); err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: a record of %d bytes has %d", io.ErrUnexpectedEOF, size, n)
		}
		return nil, nil, err
	}
	return r.buf.Bytes(), r.buf.Bytes()[head:], nil
}

// length reads a varint in its shortest form; MaxRecord fits four bytes.
func (r *records) length() (int64, error) {
	var size int64
	for i := range 4 {
		b, err := r.in.ReadByte()
		if errors.Is(err, io.EOF) && i > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		r.buf.WriteByte(b)
		size |= int64(b&0x7f) << (7 * i)
		if b < 0x80 {
			if b == 0 {
				return 0, errors.New("a length of zero, or not in its shortest form")
			}
			if size > MaxRecord {
				break
			}
			return size, nil
		}
	}
	return 0, fmt.Errorf("a record of over %d bytes", MaxRecord)
}

// tally is what both sides know of the records that went by; equal tallies mean
// equal records.
type tally struct {
	tasks       int
	first, last string
	min, max    time.Time
	bytes       uint64
	sum         hash.Hash
}

func newTally() *tally { return &tally{sum: sha256.New()} }

func (s *tally) add(record []byte, t *nornv1.Task) {
	s.tasks++
	s.bytes += uint64(len(record))
	_, _ = s.sum.Write(record)
	if i := t.GetId(); s.first == "" || i < s.first {
		s.first = i
	}
	s.last = max(s.last, t.GetId())
	if f := t.GetFinishedAt(); f != nil && f.CheckValid() == nil {
		at := f.AsTime()
		if s.min.IsZero() || at.Before(s.min) {
			s.min = at
		}
		if at.After(s.max) {
			s.max = at
		}
	}
}

// fill puts the figures into a manifest.
func (s *tally) fill(m *Manifest) {
	m.Tasks, m.FirstID, m.LastID = s.tasks, s.first, s.last
	m.MinFinishedAt, m.MaxFinishedAt = s.min, s.max
	m.RecordsBytes, m.RecordsSHA256 = s.bytes, hex.EncodeToString(s.sum.Sum(nil))
}

// counted counts and hashes what passes through it.
type counted struct {
	bytes uint64
	sum   hash.Hash
	err   error // the first error of the file, which is not damage
	r     io.Reader
	w     io.Writer
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.bytes += uint64(n)
	_, _ = c.sum.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.bytes += uint64(n)
	_, _ = c.sum.Write(p[:n])
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}

func (c *counted) fill(m *Manifest) { m.Bytes, m.SHA256 = c.bytes, hex.EncodeToString(c.sum.Sum(nil)) }

package history

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/norn-dev/norn/id"
)

// Digest is how bytes appear in a history: xxhash64, and 0 for none.
func Digest(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	return xxhash.Sum64(b)
}

// Sum digests a history as it grows. The zero Sum is that of no events.
type Sum struct {
	sum uint64
	n   int
	buf []byte
}

// Value is the digest of the events so far, and of their number.
func (s *Sum) Value() uint64 { return s.sum ^ uint64(s.n)*0x9e3779b97f4a7c15 }

// Add takes in the next event.
func (s *Sum) Add(e *Event) {
	b := sink{binary.BigEndian.AppendUint64(s.buf[:0], s.sum)}
	b.number(e.At, int64(e.Op), int64(e.Process), int64(e.Phase))
	b.text(string(e.Func), e.Error, e.Text, e.Cursor, e.By)
	b.number(int64(len(e.Items)))
	for i := range e.Items {
		b.item(&e.Items[i])
	}
	b.text(e.Queues...)
	b.number(int64(e.Session), int64(e.Request), int64(e.Max), e.Wait, e.Lease)
	for _, only := range e.Only {
		b.text(string(only))
	}
	b.flag(e.More)
	if e.After != nil {
		b.entry(*e.After)
	}
	for _, t := range e.Tallies {
		b.tally(&t)
	}
	if c := e.Change; c != nil {
		b.text(c.Queue)
		b.flag(c.Paused, c.Draining)
		b.number(int64(c.IfVersion), int64(c.Version))
	}
	if e.Weak {
		b.text("weak")
	}
	b.cell("cell", e.Cell)
	b.cell("from", e.From)
	if e.Known != 0 || e.Began != 0 {
		b.text("known")
		b.number(e.Known, e.Began)
	}
	if e.Since != 0 {
		b.text("since")
		b.number(e.Since)
	}
	for i := range e.Cells {
		b.cell("shown", &e.Cells[i])
	}
	s.buf = b.b
	s.sum = xxhash.Sum64(b.b)
	s.n++
}

// sink gathers the bytes of one event, every field with its length.
type sink struct{ b []byte }

func (s *sink) number(numbers ...int64) {
	for _, n := range numbers {
		s.b = binary.AppendVarint(s.b, n)
	}
}

func (s *sink) text(texts ...string) {
	for _, t := range texts {
		s.b = append(binary.AppendUvarint(s.b, uint64(len(t))), t...)
	}
}

func (s *sink) flag(flags ...bool) {
	for _, f := range flags {
		n := byte(0)
		if f {
			n = 1
		}
		s.b = append(s.b, n)
	}
}

func (s *sink) ids(ids []id.ID) {
	s.number(int64(len(ids)))
	for i := range ids {
		s.b = append(s.b, ids[i][:]...)
	}
}

func (s *sink) entry(e Entry) { s.number(int64(e.Token), int64(e.Seq), int64(e.Data)) }

func (s *sink) item(i *Item) {
	s.b = append(s.b, i.Task[:]...)
	if p := i.Spec; p != nil {
		s.text(p.Queue, p.OnFailure, p.Key)
		s.number(int64(p.Priority), int64(p.Payload), p.NotBefore, int64(p.MaxAttempts), p.Window)
		s.ids(p.Deps)
	}
	s.text(string(i.State), i.Error, i.Text)
	s.number(int64(i.Token), int64(i.Seq), int64(i.Data), i.Until, i.Start, int64(i.Attempts))
	s.flag(i.Existed, i.Unsure, i.Uncounted, i.Discard, i.Output, i.Auto)
	if i.RetryAt != 0 {
		s.text("retry at")
		s.number(i.RetryAt)
	}
	for _, c := range i.Claims {
		s.number(int64(c.Token))
		s.text(c.Worker, c.Outcome)
	}
	for _, e := range i.Log {
		s.entry(e)
	}
	s.text(i.Reasons...)
}

// cell adds nothing where there is none, as in histories of before.
func (s *sink) cell(name string, c *Cell) {
	if c == nil {
		return
	}
	s.text(name, c.Leader)
	s.number(int64(c.Partition), int64(c.Epoch), int64(c.Nonce), int64(len(c.Cohort)))
	s.text(c.Cohort...)
}

func (s *sink) tally(t *Tally) {
	s.text(t.Queue)
	states := make([]State, 0, len(t.Counts))
	for state := range t.Counts {
		states = append(states, state)
	}
	slices.Sort(states)
	for _, state := range states {
		s.text(string(state))
		s.number(int64(t.Counts[state]))
	}
	s.number(int64(t.Total))
}

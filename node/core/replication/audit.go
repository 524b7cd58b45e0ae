package replication

import (
	"errors"
	"fmt"

	"github.com/norn-dev/norn/node/core/waiting"
)

// Audit tells which invariant of a machine does not hold. It is for tests.
func (m *Machine) Audit() error {
	bytes := 0
	for i, o := range m.Writes.Open {
		if bytes += o.Bytes; i > 0 && int64(o.Number-m.Writes.Open[i-1].Number) <= 0 {
			return fmt.Errorf("replication: write %d comes after %d", o.Number, m.Writes.Open[i-1].Number)
		}
	}
	if bytes > m.Writes.Bytes { // tests pretend that there are more
		return fmt.Errorf("replication: %d writes have %d bytes, and %d are counted", len(m.Writes.Open), bytes, m.Writes.Bytes)
	}
	if len(m.Reads.Open) != len(m.Reads.byTime) {
		return fmt.Errorf("replication: %d reads wait, and %d for their time", len(m.Reads.Open), len(m.Reads.byTime))
	}
	waits := m.Pending.Count(waiting.Confirmed) + m.Pending.Count(waiting.Decided)
	if n := len(m.Confirms.Waits); n != waits {
		return fmt.Errorf("replication: %d requests and answers wait to be confirmed, and %d are in the table", n, waits)
	}
	held := len(m.Writes.held)
	for _, o := range m.Writes.Open {
		held += len(o.held)
	}
	return errors.Join(m.Pending.Agrees(waiting.Copies, "replication", held), m.Confirms.audit(), m.Reads.audit(), m.bounds())
}

// audit looks for waits that are neither requests nor answers.
func (s *Confirmations) audit() error {
	for i := range s.Waits {
		if w := s.Waits[i]; (w.r == nil) == (w.held == nil) {
			return fmt.Errorf("replication: wait %d is neither a request nor an answer, or both", i)
		}
	}
	return nil
}

// audit counts the reads of each request that waits for them.
func (f *Reads) audit() error {
	open := make(map[*unheard]int)
	for _, q := range f.byTime {
		if q.about != nil {
			open[q.about]++
		}
	}
	for u, n := range open { // Any order: each is judged for itself.
		if n != u.open || n > maxUnheard {
			return fmt.Errorf("replication: request %d waits for %d reads, and %d are under way", u.r.From.Request, u.open, n)
		}
	}
	return nil
}

// bounds looks at what is limited, and at what ends with its request.
func (m *Machine) bounds() error {
	if n := len(m.Acks.List); n > MaxDeferredAcks {
		return fmt.Errorf("replication: %d answers wait, the limit is %d", n, MaxDeferredAcks)
	}
	if n := len(m.Writes.items); n > 0 {
		return fmt.Errorf("replication: %d items of a request are left after it", n)
	}
	return nil
}

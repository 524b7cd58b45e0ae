package workers

import (
	"errors"
	"fmt"

	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/session"
)

// Audit tells which invariant of a machine does not hold. It is for tests.
func (s *Machine) Audit() error {
	if err := errors.Join(s.Pending.Agrees(waiting.Work, "workers", len(s.waits)), s.Pending.Agrees(waiting.Lines, "workers", len(s.Questions.Open))); err != nil {
		return err
	}
	return errors.Join(auditStreams(s), auditNames(&s.Names), auditRenewals(&s.Asks.renewals), auditQuestions(&s.Questions), auditHoldings(&s.Known))
}

// auditStreams looks at what is on its way to workers.
func auditStreams(s *Machine) error {
	dirty := make(map[*Stream]bool)
	for _, st := range s.dirty {
		if !st.dirty || dirty[st] {
			return errors.New("workers: a stream is to be looked at that is not dirty, or twice")
		}
		dirty[st] = true
	}
	for _, st := range s.Streams { // Any order: each is judged for itself.
		size := 0
		for _, m := range st.out {
			size += session.Size(m)
		}
		switch {
		case st.dirty && !dirty[st]:
			return errors.New("workers: a stream is dirty, and nobody is going to look at it")
		case size != st.bytes || len(st.out) > maxStreamOut:
			return fmt.Errorf("workers: %d messages with %d bytes are on their way, %d are counted", len(st.out), size, st.bytes)
		}
		for _, h := range st.Open {
			if h.stream != st {
				return errors.New("workers: a request waits at the stream of another worker")
			}
		}
	}
	return nil
}

// auditNames compares holders and names.
func auditNames(n *Names) error {
	for i, name := range n.of { // Any order: each is judged for itself.
		if c := n.cells[name]; c == nil || c.cell.Dead || c.cell.Holder.Instance != i {
			return fmt.Errorf("workers: name %q is not its holder's", name)
		}
	}
	return nil
}

// auditRenewals counts the claims that wait to be renewed.
func auditRenewals(w *renewals) error {
	claims := 0
	for _, r := range w.waiting {
		claims += len(r.Claims)
	}
	if claims != w.claims {
		return fmt.Errorf("workers: %d claims wait to be renewed, %d are counted", claims, w.claims)
	}
	return nil
}

// auditQuestions looks at the order of questions, and how many there are.
func auditQuestions(l *Questions) error {
	for i := range l.Open {
		if i >= MaxQuestions || i > 0 && int64(l.Open[i].number-l.Open[i-1].number) <= 0 {
			return fmt.Errorf("workers: %d questions are open, out of order or too many", len(l.Open))
		}
	}
	return nil
}

// auditHoldings looks for a lookup that nobody would do.
func auditHoldings(h *Holdings) error {
	for _, l := range h.looks { // Any order: each is judged for itself.
		if l.at < h.at {
			return fmt.Errorf("workers: leaders are to be asked at %d, the next look is at %d", l.at, h.at)
		}
	}
	return nil
}

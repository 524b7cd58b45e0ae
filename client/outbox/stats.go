package outbox

import (
	"context"
	"time"
)

// Stats are what a relay has done since it was made.
type Stats struct {
	Relayed    uint64 // rows that the cluster has taken, and that are deleted
	Duplicates uint64 // of those sent, the ones that were there already: sent before, deleted only now
	PutOff     uint64 // refusals of rows that are tried again
	Aside      uint64 // rows that were set aside
	Batches    uint64 // batches that were sent and settled
	Failures   uint64 // times when the database or the cluster could not do its part

	Failing     int       // how many of these since the last success; 0: all is well
	LastError   string    // the last of them, "" when there was none
	LastErrorAt time.Time // when that was
	LastSuccess time.Time // when a batch was settled, or nothing was due
	Oldest      time.Time // when the oldest row that waits was written, as of the last minute; zero: none
}

// Stats gives a copy of the counters. It may be called at any time.
func (r *Relay) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

func (r *Relay) count(change func(*Stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.stats)
}

func (r *Relay) sent(duplicates uint64) {
	r.count(func(s *Stats) { s.Duplicates += duplicates })
}

// settled counts a batch, and tells of the rows that the cluster did not take.
func (r *Relay) settled(t *taken, done int, refused []refusal) {
	aside := 0
	for _, one := range refused {
		if one.aside {
			aside++
		}
	}
	r.count(func(s *Stats) {
		s.Batches++
		s.Relayed += uint64(done)
		s.Aside += uint64(aside)
		s.PutOff += uint64(len(refused) - aside)
	})
	if done > 0 {
		r.log.Debug("outbox: rows relayed", "rows", done, "refused", len(refused))
	}
	if len(refused) > aside {
		for _, one := range refused {
			if !one.aside {
				r.log.Warn("outbox: rows put off", "rows", len(refused)-aside, "first", one.id, "again_in", one.delay, "error", one.err)
				break
			}
		}
	}
	if aside == 0 {
		return
	}
	byID := make(map[string]*row, len(t.rows))
	for i := range t.rows {
		byID[t.rows[i].id.String()] = &t.rows[i]
	}
	for _, one := range refused {
		if !one.aside {
			continue
		}
		a := Aside{ID: one.name(), Attempts: 1, Reason: short(one.err)}
		if read := byID[one.id]; read != nil {
			a.Queue, a.Created, a.Attempts = read.queue, written(one.id, read.created), read.attempts+1
		}
		r.log.Error("outbox: row set aside", "task", a.ID, "queue", a.Queue, "attempts", a.Attempts, "error", one.err)
		if r.cfg.OnAside != nil {
			r.cfg.OnAside(a)
		}
	}
}

func (r *Relay) failed(err error, failures int, pause time.Duration) {
	r.count(func(s *Stats) {
		s.Failures++
		s.Failing, s.LastError, s.LastErrorAt = failures, short(err), time.Now()
	})
	r.log.Warn("outbox: cannot relay", "error", err, "failures", failures, "again_in", pause)
}

func (r *Relay) succeeded(failures int) {
	r.count(func(s *Stats) { s.Failing, s.LastSuccess = 0, time.Now() })
	if failures > 0 {
		r.log.Info("outbox: relaying again", "failures", failures)
	}
}

// watch looks at the oldest row, and warns before the cluster refuses it.
func (r *Relay) watch(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, statements)
	defer cancel()
	oldest, err := r.source.waiting(ctx)
	if err != nil {
		return // the next batch says so
	}
	r.count(func(s *Stats) { s.Oldest = oldest })
	age := now.Sub(oldest)
	switch {
	case oldest.IsZero() || age < r.cfg.Horizon/2:
	case age < r.cfg.Horizon:
		r.log.Warn("outbox: a row waits for long; the cluster refuses it once it is as old as gc-grace", "written", oldest, "age", age, "gc_grace", r.cfg.Horizon)
	default:
		r.log.Error("outbox: a row has waited for longer than gc-grace; the cluster will refuse it", "written", oldest, "age", age, "gc_grace", r.cfg.Horizon)
	}
}

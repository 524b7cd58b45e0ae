package queues

import (
	"strings"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/vnode"
)

const (
	// UnusedFor is after what time a name counts no more of which nothing is set and no task
	// is left to do: those that are finished stay for a day, and would hold it for as long.
	UnusedFor = time.Minute
	// countAgain is for how long the number of names that count is taken to be right. To
	// count them is to look at all of them.
	countAgain = 2 * time.Second
	// MostNames bounds the names that are known, whether they count or not: the counters of
	// all of them are one answer, which has to fit a frame.
	MostNames = 100_000
)

// Use notes that a queue is used: it has a task now, or a setting.
func (q *Machine) Use(name string, now clock.Time) {
	if !q.Knows(name) {
		q.Tenants.Queue(name, true)
	}
	q.Known[name] = now.Mono
}

// Unuse notes that a queue has neither.
func (q *Machine) Unuse(name string) {
	if q.Knows(name) {
		q.Tenants.Queue(name, false)
	}
	delete(q.Known, name)
}

// Knows tells whether a queue has tasks or settings.
func (q *Machine) Knows(name string) bool {
	_, is := q.Known[name]
	return is
}

// countedNames is how many names counted when they were counted last.
type countedNames struct {
	n, of  int    // of so many that were known
	prefix string // of the tenant whose they are; empty: those of all
	until  int64  // mono ns up to which it does
}

// Room refuses one more name than there may be.
func (q *Machine) Room(now clock.Time, name string) *proto.Error {
	if q.Knows(name) {
		return nil
	}
	if t := q.Tenants.Of(name); t != nil {
		if err := q.tenantsRoom(now, t); err != nil {
			return err
		}
	}
	if len(q.Known) < q.MaxQueues {
		return nil
	}
	if now.Mono >= q.counted.until || len(q.Known) < q.counted.of {
		q.counted = countedNames{n: q.counting(now, ""), of: len(q.Known), until: now.Mono + int64(countAgain)}
	}
	n := q.counted.n + len(q.Known) - q.counted.of // those that came since count
	switch {
	case len(q.Known) >= max(MostNames, q.MaxQueues):
		return refusal.TooManyQueues(len(q.Known))
	case n >= q.MaxQueues:
		return refusal.TooManyQueues(n)
	}
	return nil
}

// tenantsRoom refuses one more name than a tenant may have. Names that count no more are looked for when
// it has as many as it may.
func (q *Machine) tenantsRoom(now clock.Time, t *quota.Tenant) *proto.Error {
	known, _, _ := q.Tenants.Use(t.Prefix)
	if t.Queue(known) == nil {
		return nil
	}
	c := &q.countedOf
	if now.Mono >= c.until || c.prefix != t.Prefix || known < c.of {
		*c = countedNames{prefix: t.Prefix, n: q.counting(now, t.Prefix), of: known, until: now.Mono + int64(countAgain)}
	}
	return t.Queue(c.n + known - c.of)
}

// counting is how many names count: something is set, or a task of them is not finished as far
// as this node knows, or they were used lately. They are those of a prefix.
func (q *Machine) counting(now clock.Time, prefix string) (n int) {
	busy := make(map[string]bool)
	for _, v := range q.Partitions.Each() {
		v.Queues(func(name string, c *vnode.Counts) {
			if strings.HasPrefix(name, prefix) && unfinished(c) > 0 {
				busy[name] = true
			}
		})
	}
	for name, used := range q.Known { // Any order: they are counted.
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if s := q.sets[name]; busy[name] || s != nil && s.own || now.Mono-used < int64(UnusedFor) {
			n++
		}
	}
	return n
}

// unfinished is how many of the tasks counted are not finished.
func unfinished(c *vnode.Counts) uint64 {
	return c.Total() - c[crdt.StateCompleted] - c[crdt.StateDead] - c[crdt.StateCancelled]
}

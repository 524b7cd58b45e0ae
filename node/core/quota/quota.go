package quota

import (
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/vnode/tally"

	gproto "google.golang.org/protobuf/proto"
)

// Key is what the key of a tenant in the register begins with.
const Key = "tenant/"

// Tenant is a prefix of names with limits.
type Tenant struct {
	Name, Prefix string
	Limits       *nornv1.TenantLimits

	version uint64
}

// Machine knows the tenants, and what of theirs is counted here. A nil one counts nothing.
//
// Invariant: read and seen only grow: a state of the register that comes late neither takes
// away a tenant nor brings one back (TestAcmeIsNotAcme2).
//
// Invariant: counts has a prefix exactly where one of its numbers is not 0, tenant or not: a
// tenant that is made later finds what there is already, and names that come and go leave
// nothing behind (TestWhatIsCountedIsWhatThereIs).
//
// Invariant: who is refused a claim because of a tenant's limit has that tenant in full, until
// [Machine.Freed] has found it with a claim left. Else a worker that waits would not be woken
// when one ends.
type Machine struct {
	// Tally counts tasks.
	Tally *tally.Tally

	tenants map[string]*Tenant // by prefix
	read    [2]uint64          // generation of the register, and its revision that changed rights

	schedules register.Schedules // that are counted
	seen      [2]uint64          // generation and revision of those
	counts    map[string]*uses   // by prefix
	full      []*Tenant          // had as many claims as they may when a request asked
}

// uses are what a prefix has, whether there is a tenant or not.
type uses struct{ queues, schedules, waits int }

// New makes a machine without tenants.
func New() *Machine {
	return &Machine{Tally: tally.New(), tenants: make(map[string]*Tenant), counts: make(map[string]*uses)}
}

// Of gives the tenant that a name is of; nil: it is of none.
func (m *Machine) Of(name string) *Tenant {
	if len(m.tenants) == 0 {
		return nil
	}
	return m.tenants[tally.Prefix(name)]
}

// Learn takes over what the register says. States may come out of order.
func (m *Machine) Learn(s *register.State) {
	if at := [2]uint64{s.Generation, s.AccessAt}; later(at, m.read) {
		m.read = at
		m.tenants = m.tenantsOf(s)
	}
	if at := [2]uint64{s.Generation, s.Revision}; later(at, m.seen) {
		m.seen = at
		for name := range s.Schedules.Since(m.schedules) {
			if was, is := has(m.schedules, name), has(s.Schedules, name); was != is {
				m.count(name, func(u *uses) *int { return &u.schedules }, is)
			}
		}
		m.schedules = s.Schedules
	}
}

func later(a, b [2]uint64) bool { return a[0] > b[0] || a[0] == b[0] && a[1] > b[1] }

func has(all register.Schedules, name string) bool {
	x := all.Get(name)
	return x != nil && len(x.Definition) > 0
}

// tenantsOf reads those of a state; one that cannot be read has no limits here.
func (m *Machine) tenantsOf(s *register.State) map[string]*Tenant {
	next, before := make(map[string]*Tenant), make(map[string]*Tenant, len(m.tenants))
	for _, t := range m.tenants { // Any order: each has its place.
		before[t.Name] = t
	}
	for key, v := range s.Access { // Any order: likewise; no two have the same prefix.
		name, is := strings.CutPrefix(key, Key)
		if !is {
			continue
		}
		t := before[name]
		if t == nil || t.version != v.Version {
			var stored nornv1.StoredTenant
			if gproto.Unmarshal(v.Data, &stored) != nil || !guard.IsPrefix(stored.GetPrefix()) {
				continue
			}
			t = &Tenant{Name: name, Prefix: stored.GetPrefix(), Limits: stored.GetLimits(), version: v.Version}
		}
		next[t.Prefix] = t
	}
	return next
}

// count adds one use of a name, or takes it off.
func (m *Machine) count(name string, of func(*uses) *int, more bool) {
	prefix := tally.Prefix(name)
	if m == nil || prefix == "" {
		return
	}
	u := m.counts[prefix]
	if u == nil {
		u = &uses{}
		m.counts[strings.Clone(prefix)] = u
	}
	if *of(u)--; more {
		*of(u) += 2
	}
	if *u == (uses{}) {
		delete(m.counts, prefix)
	}
}

// Queue notes that a queue is known here, or is not any more.
func (m *Machine) Queue(name string, known bool) {
	m.count(name, func(u *uses) *int { return &u.queues }, known)
}

// Waits notes that a request of a tenant waits, or does not any more. prefix is empty for who is
// of none.
func (m *Machine) Waits(prefix string, more bool) {
	m.count(prefix, func(u *uses) *int { return &u.waits }, more)
}

// Use is what a prefix has here: queues, schedules, and requests that wait.
func (m *Machine) Use(prefix string) (queues, schedules, waits int) {
	if u := m.counts[prefix]; u != nil {
		return u.queues, u.schedules, u.waits
	}
	return 0, 0, 0
}

// over refuses what is over a limit; nil: there is none, or it is not reached.
func (t *Tenant) over(used, limit uint64, about, what, setting string) *proto.Error {
	if limit == 0 || used < limit {
		return nil
	}
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "tenant %s has %s%d %s, its limit (%s) is %d", t.Name, about, used, what, setting, limit)
}

// onNode is said of limits that each node holds for itself.
const onNode = " on this node"

// Queue refuses one more queue.
func (t *Tenant) Queue(used int) *proto.Error {
	e := t.over(uint64(used), t.Limits.GetQueues(), "", "queues with settings or tasks", "max-queues")
	if e != nil {
		e = e.ForGood()
	}
	return e
}

// Schedule refuses one more schedule.
func (t *Tenant) Schedule(used int) *proto.Error {
	e := t.over(uint64(used), t.Limits.GetSchedules(), "", "schedules", "max-schedules")
	if e != nil {
		e = e.ForGood()
	}
	return e
}

// Task refuses one more task; here and others are those that are not finished.
func (t *Tenant) Task(here, others uint64) *proto.Error {
	return again(t.over(here+others, t.Limits.GetTasks(), about(others), "tasks that are not finished", "max-tasks"))
}

// Size refuses a task that is too large for what is left. here and others are what tasks hold,
// finished ones too: their bytes are free when they are collected.
func (t *Tenant) Size(here, others uint64, size int) *proto.Error {
	limit := t.Limits.GetBytes()
	switch {
	case limit == 0 || here+others+uint64(size) <= limit:
		return nil
	case uint64(size) > limit:
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "this task has %d bytes, and all tasks of tenant %s may have %d, its limit (max-bytes)", size, t.Name, limit).ForGood()
	}
	return again(proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "the tasks of tenant %s have %s%d bytes, finished ones too, this one has %d, and its limit (max-bytes) is %d", t.Name, about(others), here+others, size, limit))
}

// Claim refuses one more claim.
func (t *Tenant) Claim(used uint64) *proto.Error {
	return again(t.over(used, t.Limits.GetClaims(), "", "tasks under a claim"+onNode, "max-claims"))
}

// Wait refuses one more request that waits.
func (t *Tenant) Wait(used int) *proto.Error {
	return again(t.over(uint64(used), t.Limits.GetWaits(), "", "requests that wait"+onNode, "max-waits"))
}

// about is said of what others have told a part of.
func about(others uint64) string {
	if others > 0 {
		return "about "
	}
	return ""
}

func again(e *proto.Error) *proto.Error {
	if e != nil {
		e = e.Again(time.Second)
	}
	return e
}

// Held tells whether nothing more of a queue is handed out, because as many tasks of its tenant
// are under a claim as may be. That is noted: see [Machine.Freed].
func (m *Machine) Held(queue string) bool {
	t := m.Of(queue)
	if t == nil || t.Limits.GetClaims() == 0 || m.Claimed(t.Prefix) < t.Limits.GetClaims() {
		return false
	}
	if !slices.Contains(m.full, t) {
		m.full = append(m.full, t)
	}
	return true
}

// Freed tells whether a tenant that had no claims left has some by now.
func (m *Machine) Freed() (freed bool) {
	kept := m.full[:0]
	for _, t := range m.full {
		if t = m.tenants[t.Prefix]; t != nil && t.Claim(m.Claimed(t.Prefix)) != nil {
			kept = append(kept, t)
		} else {
			freed = true
		}
	}
	clear(m.full[len(kept):])
	m.full = kept
	return freed
}

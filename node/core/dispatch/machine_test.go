package dispatch

import (
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store/memstore"
)

// TestEachSubscriberHearsOnce: who waits for a queue is there once, and no longer once it was
// told of a task; it waits again when it was told that there is none.
func TestEachSubscriberHearsOnce(t *testing.T) {
	m, now := New(Env{Ground: &ground.Ground{Pending: waiting.New(), Rand: rand.New(rand.NewPCG(1, 2))}, MaxQueues: 10}), clock.Time{Mono: 1}
	s := m.gossip
	var others []register.Member
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		others = append(others, register.Member{Node: name})
	}
	none, some := message.QueueHead{Queue: "q"}, message.QueueHead{Queue: "q", Ready: true}
	for range 2 {
		for _, o := range others {
			s.told(now, o, &none)
		}
	}
	all := s.subscribers["q"]
	var got []register.Member
	for _, n := range []int{1, 3, 9, 9} {
		for _, m := range all.draw(n, m.Rand) {
			if slices.Contains(got, m) {
				t.Errorf("%v hears twice", m)
			}
			got = append(got, m)
			s.told(now, m, &some)
		}
		if len(all.waits) != 5-len(got) || len(all.follows) != len(got) {
			t.Errorf("%d were told, %+v is left", len(got), all)
		}
	}
	if s.told(now, got[0], &none); !slices.Equal(all.waits, got[:1]) || len(all.follows) != 4 {
		t.Errorf("after it was told that there is nothing: %+v", all)
	}
}

// TestWhatIsSaidOfRequestsGivenUpIsBounded: the oldest are forgotten.
func TestWhatIsSaidOfRequestsGivenUpIsBounded(t *testing.T) {
	u := New(Env{Ground: &ground.Ground{Pending: waiting.New()}}).abandoned
	for n := range uint64(maxUnanswered + 10) {
		u.add(clock.Time{Mono: 1}, message.AskKey{Session: [16]byte{1}, Request: n})
	}
	if len(u.known) != maxUnanswered || len(u.order) != maxUnanswered || u.has(message.AskKey{Session: [16]byte{1}, Request: 0}) || !u.has(message.AskKey{Session: [16]byte{1}, Request: 10}) {
		t.Errorf("%d are known", len(u.known))
	}
}

// nobodyReads is that no log request waits.
type nobodyReads struct{}

func (nobodyReads) Count() int                         { return 0 }
func (nobodyReads) Of(uint64) int                      { return 0 }
func (nobodyReads) Conns() iter.Seq[uint64]            { return func(func(uint64) bool) {} }
func (nobodyReads) SendAway(uint64, *proto.Error) bool { return false }

// TestWhatWaitsIsBoundedInBytes: a request names up to a thousand queues.
func TestWhatWaitsIsBoundedInBytes(t *testing.T) {
	c := New(Env{Ground: &ground.Ground{Pending: waiting.New(), Tenants: quota.New(), Round: round.New(memstore.New())}, MaxWaiters: 10, Readers: nobodyReads{}})
	c.Index.bytes = maxWaitBytes - waiterBytes
	if e := c.RoomToWait(1, waiterBytes, ""); e != nil {
		t.Errorf("up to the limit: %v", e)
	}
	if e := c.RoomToWait(1, waiterBytes+1, ""); e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_OVERLOADED {
		t.Errorf("past the limit: %v", e)
	}
}

// TestAnAuditSeesWhatIsMiscounted: bytes, those who are done, grants, connections without requests.
func TestAnAuditSeesWhatIsMiscounted(t *testing.T) {
	for what, spoil := range map[string]func(*Index, *claimRequest){
		"nothing":  func(*Index, *claimRequest) {},
		"bytes":    func(d *Index, _ *claimRequest) { d.bytes++ },
		"done":     func(_ *Index, w *claimRequest) { w.done = true },
		"stale":    func(d *Index, _ *claimRequest) { d.queues["q"].stale++ },
		"grants":   func(d *Index, _ *claimRequest) { d.asked[message.AskKey{Request: 1}] = &asked{live: 1} },
		"nobody's": func(d *Index, _ *claimRequest) { d.byConn[9] = map[uint64]*claimRequest{} },
		"key":      func(d *Index, w *claimRequest) { delete(d.byAsk, w.key()) },
		"flag":     func(d *Index, _ *claimRequest) { d.queues["q"].dirty = true },
		"entry":    func(d *Index, _ *claimRequest) { d.dirty = append(d.dirty, d.queues["q"]) },
		"line":     func(d *Index, _ *claimRequest) { q := d.queues["q"]; q.wait = append(q.wait, &claimRequest{}) },
		"names":    func(d *Index, _ *claimRequest) { d.last["a"], d.most = 1, 0; d.last["b"] = 1 },
	} {
		d := newIndex()
		d.tenants = quota.New()
		w := &claimRequest{names: []string{"q"}, bytes: 7}
		w.Number, w.ask.Request, w.ask.Session = 1, 1, [16]byte{1}
		d.park(w)
		spoil(d, w)
		if err := d.Audit(); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestAnAuditSeesWhatWouldWaitForEver: of abandoned requests, other leaders, subscribers, held and
// postponed requests.
func TestAnAuditSeesWhatWouldWaitForEver(t *testing.T) {
	m := register.Member{Node: "n"}
	for what, spoil := range map[string]func(*Machine){
		"nothing":   func(*Machine) {},
		"forgotten": func(c *Machine) { c.abandoned.order = nil },
		"unknown":   func(c *Machine) { c.abandoned.known = map[message.AskKey]bool{{Request: 2}: true} },
		"no credit": func(c *Machine) { c.remote.of(m, "q").credit = 0 },
		"open":      func(c *Machine) { c.remote.of(m, "q").open = -1 },
		"twice":     func(c *Machine) { c.gossip.subscribers["q"].follows[m] = 1 },
		"notices":   func(c *Machine) { c.gossip.notices = append(c.gossip.notices, pendingNotice{queue: "q"}) },
		"many":      func(c *Machine) { c.gossip.renewals["a"], c.gossip.renewals["b"] = 1, 1 },
		"held":      func(c *Machine) { c.probes.held = make([]*freshnessProbe, MaxProbes+1) },
		"order":     func(c *Machine) { c.offers.postponed[0].at = 1 << 40 },
	} {
		c := New(Env{Ground: &ground.Ground{Pending: waiting.New(), Tenants: quota.New(), Round: round.New(memstore.New())}, MaxQueues: 1, Readers: nobodyReads{}})
		key := message.AskKey{Request: 1}
		c.abandoned.known[key], c.abandoned.order = true, []givenUp{{key, 1}}
		c.remote.of(m, "q").open = 1
		c.gossip.told(clock.Time{}, m, &message.QueueHead{Queue: "q"})
		c.gossip.filled("q")
		c.pause(clock.Time{}, &claimRequest{})
		c.pause(clock.Time{}, &claimRequest{fails: 3})
		spoil(c)
		if err := c.Audit(); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

package replication

import (
	"testing"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/waiting"
)

// TestNobodyHasMoreThanAQuarterOfWhatWaits for replicas, for who leads alone,
// and for who leads; parts of other nodes' clients are not theirs.
func TestNobodyHasMoreThanAQuarterOfWhatWaits(t *testing.T) {
	c := New(Env{Ground: &ground.Ground{Pending: waiting.New()}})
	c.Reads.Open = make(map[uint64]*Fetch)
	for n := range uint64(MaxFetches / 4) {
		c.Reads.Open[n] = &Fetch{from: message.Origin{Conn: 7, Request: n}}
		c.Confirms.Waits = append(c.Confirms.Waits, &ConfirmationWait{r: &message.Request{From: message.Origin{Conn: 7, Request: n}}})
	}
	for conn, want := range map[uint64]int64{7: MaxFetches / 4, 8: 0, message.PeerConns + 7: 0} {
		if n := c.Reads.held(conn); n != want {
			t.Errorf("connection %d has %d reads of replicas", conn, n)
		}
		if n := c.Confirms.heldBy(conn); n != want {
			t.Errorf("connection %d has %d requests that wait for who leads alone", conn, n)
		}
	}
}

// TestWhoHasGivenUpIsNotAnswered: the others answer about its task all the same.
func TestWhoHasGivenUpIsNotAnswered(t *testing.T) {
	m := New(Env{Ground: &ground.Ground{Pending: waiting.New()}}) // without a node: nothing is to be handled
	u := &unheard{f: m.Reads, r: &message.Request{}, open: 1}
	u.told(clock.Time{}, true)
	if u.open != 0 {
		t.Errorf("%d are asked about still", u.open)
	}
}

// TestOldUpdatesAreNotSentAgain to who has answered with newer ones only: it left the others out.
func TestOldUpdatesAreNotSentAgain(t *testing.T) {
	key := func(k crdt.Kind, a uint64) crdt.Key { return crdt.Key{Kind: k, A: a} }
	a := &answeredFetch{facts: map[crdt.Key]bool{}, first: map[crdt.Kind]crdt.Key{}}
	for _, k := range []crdt.Kind{crdt.KindUpdate, crdt.KindCompleted, crdt.KindFailed, crdt.KindExpired} {
		a.facts[key(k, 5)], a.first[k] = true, key(k, 5)
		for n, lacks := range map[uint64]bool{4: k == crdt.KindExpired, 5: false, 6: true} {
			if a.lacks(key(k, n)) != lacks {
				t.Errorf("kind %v: number %d, and it has 5: lacks %v", k, n, a.lacks(key(k, n)))
			}
		}
	}
}

// TestAnAuditSeesWhatIsMiscounted: bytes, the order of writes, reads that nothing ends.
func TestAnAuditSeesWhatIsMiscounted(t *testing.T) {
	for what, spoil := range map[string]func(*Machine){
		"nothing": func(*Machine) {},
		"bytes":   func(m *Machine) { m.Writes.Bytes-- },
		"order":   func(m *Machine) { m.Writes.Open[1].Number = 1 },
		"reads":   func(m *Machine) { m.Reads.Open = map[uint64]*Fetch{1: nil} },
		"wait":    func(m *Machine) { m.Confirms.Waits = []*ConfirmationWait{{}} },
		"acks":    func(m *Machine) { m.Acks.List = make([]deferredAck, MaxDeferredAcks+1) },
		"items":   func(m *Machine) { m.Writes.items = []item{{}} },
		"unheard": func(m *Machine) {
			q := &Fetch{about: &unheard{r: &message.Request{}, open: 2}}
			m.Reads.Open = map[uint64]*Fetch{1: q}
			m.Reads.byTime.Add(q)
		},
	} {
		m := New(Env{Ground: &ground.Ground{Pending: waiting.New()}})
		m.Writes.Open, m.Writes.Bytes = []*write{{Number: 1, Bytes: 3}, {Number: 2, Bytes: 4}}, 7
		spoil(m)
		if err := m.Audit(); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

package router

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store/memstore"
)

// idle handles nothing.
type idle struct{}

func (idle) Request(clock.Time, *message.Request) {}
func (idle) Answered(*message.Reply)              {}
func (idle) Dropped([]message.GrantRef)           {}

// bench is a router of a node that handles nothing.
func bench(t *testing.T) *Machine {
	t.Helper()
	self := register.Member{Node: "a"}
	return New(Env{Ground: &ground.Ground{Pending: waiting.New(), Self: self, View: view.New(self, 4), Round: round.New(memstore.New()), Rand: rand.New(rand.NewPCG(1, 2))}, Node: idle{}})
}

// TestNobodyHasMoreThanAQuarterOfWhatWaits for other nodes; parts of other nodes' clients are
// not theirs.
func TestNobodyHasMoreThanAQuarterOfWhatWaits(t *testing.T) {
	r, now := bench(t), clock.Time{Wall: 1, Mono: 1}
	r.Gather(now, &message.Request{From: message.Origin{Conn: 8, Request: 1}}, &Whole{}, time.Minute)
	for n := range MaxWaiting / 4 {
		r.Gather(now, &message.Request{From: message.Origin{Conn: 7, Request: uint64(n)}}, &Whole{}, time.Minute)
	}
	if !r.Crowds(message.Origin{Conn: 7}) || r.Crowds(message.Origin{Conn: 8}) || r.Crowds(message.Origin{Conn: message.PeerConns + 7}) {
		t.Error("of gathers one has a quarter, and may have more; or others may have none")
	}
	r.Pending.Gone(7)
	r.Pending.Gone(8)
	if r.Waiting() != 0 || len(r.held) != 0 || r.Crowds(message.Origin{Conn: 7}) {
		t.Errorf("nobody waits any more, and %v are counted", r.held)
	}
}

// TestAbandonedPartsAreBounded: the oldest are forgotten, and each is told once.
func TestAbandonedPartsAreBounded(t *testing.T) {
	var f abandonedLegs
	for n := range uint64(MaxWaiting + 10) {
		f.add(n)
	}
	if len(f.has) != MaxWaiting || len(f.order) != MaxWaiting || f.take(9) || !f.take(10) || f.take(10) {
		t.Fatalf("%d numbers are remembered", len(f.has))
	}
}

// TestAnAuditSeesWhatIsMiscounted: parts of nobody, and requests of a connection.
func TestAnAuditSeesWhatIsMiscounted(t *testing.T) {
	for what, spoil := range map[string]func(*Machine){
		"nothing":     func(*Machine) {},
		"parts":       func(r *Machine) { r.parts[9] = &leg{g: &Scatter{}} },
		"connections": func(r *Machine) { r.held[7]++ },
		"time":        func(r *Machine) { r.byTime = nil },
		"peer":        func(r *Machine) { r.peers[0].Node = "c" },
		"given up":    func(r *Machine) { r.abandonedLegs.order = nil },
	} {
		r := bench(t)
		r.Gather(clock.Time{Wall: 1, Mono: 1}, &message.Request{From: message.Origin{Conn: 7, Request: 1}}, &Whole{}, time.Minute)
		r.Conn(register.Member{Node: "b"})
		r.abandonedLegs.add(3)
		spoil(r)
		if err := Audit(r); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

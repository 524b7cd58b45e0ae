package core

import (
	"testing"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store/memstore"
)

// TestWhoIsToldByAnotherIsNotAlone: a node whose disk was set back, the register's with
// it, to when it was alone is the register's majority by itself, and nothing on its
// disk tells of others. Once one of them has told, it neither votes nor takes claims,
// its copies do not count, and it says so. One that is alone goes on with what it has.
func TestWhoIsToldByAnotherIsNotAlone(t *testing.T) {
	for name, told := range map[string]bool{"another has told": true, "its superblock has": false} {
		t.Run(name, func(t *testing.T) {
			r := newTrio(t)
			p := r.peers[0]
			p.mute = true
			if !told {
				r.beside = func(cfg *Config) { cfg.SetBack = true }
			}
			r.setBack(0, memstore.New())
			state := r.atFirst(0)
			state.Nodes = []register.Node{{Member: p.self, Status: register.Active}}
			r.check(p.core.Step(r.clock(0), message.Changed{State: state, Leads: true, Majority: true, Voters: []register.Member{p.self}}))
			r.turn(0)
			r.check(p.core.Step(r.clock(0), message.Registered{Result: register.Result{Tag: 1, State: state}}))
			m := p.core.standing.Disk
			if !m.Trusts(1) || !m.Counts(1, 0) {
				t.Fatalf("alone: trusts %t, counts %t", m.Trusts(1), m.Counts(1, 0))
			}
			if !told {
				return
			}
			m.Heard(r.peers[1].self, 5)
			if m.Trusts(1) || m.Counts(1, 0) || m.MayRetire() || Forgotten(p.core) == nil {
				t.Errorf("told: trusts %t, counts %t, spared %t, says %v", m.Trusts(1), m.Counts(1, 0), m.MayRetire(), Forgotten(p.core))
			}
		})
	}
}

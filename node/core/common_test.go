package core

import (
	"strings"
	"testing"
	"time"
)

// common has the nodes of a cluster compare what they are configured with; each keeps
// finished tasks for so long, unless their queue says otherwise.
func common(t *testing.T, after ...time.Duration) *trio {
	r := newTrio(t)
	n := 0
	r.beside = func(c *Config) {
		c.Common, c.Retention.After = true, after[n%3]
		n++
	}
	r.collecting()
	r.leads = 1
	r.tell()
	r.settle()
	r.tell()
	return r
}

// TestTheLongerRetentionCounts: one node is configured to keep finished tasks for a second
// only, and leads. Who leads the register keeps them for an hour.
func TestTheLongerRetentionCounts(t *testing.T) {
	r := common(t, time.Second, time.Hour, time.Hour)
	r.lead(0)
	r.done(0, r.stock(0, 8)...)
	r.linger(10 * time.Minute)
	for i, p := range r.peers {
		if stones, live := p.have(); stones != 0 || live != 8 {
			t.Errorf("node %d has %d tombstones and %d tasks", i+1, stones, live)
		}
		diff := p.core.Stats().Differs
		if i == 0 && !strings.Contains(diff, "retention=1s here, retention=1h0m0s in the register") || i > 0 && diff != "" {
			t.Errorf("node %d says that it differs in %q", i+1, diff)
		}
	}
	if _, ok := r.until(time.Hour, func() bool { return r.every(collected(8)) }); !ok {
		t.Error("they are never collected")
	}
}

// TestTheRetentionOfWhoLeadsTheRegisterCounts: another node leads the register from then
// on, and keeps them for a second.
func TestTheRetentionOfWhoLeadsTheRegisterCounts(t *testing.T) {
	r := common(t, time.Second, time.Hour, time.Second)
	r.lead(0)
	r.done(0, r.stock(0, 8)...)
	r.linger(time.Minute)
	r.leads = 2
	r.tell()
	r.settle()
	r.tell()
	r.wantCollected(8)
	if diff := r.peers[1].core.Stats().Differs; !strings.Contains(diff, "retention=1h0m0s here, retention=1s in the register") {
		t.Errorf("the other one says that it differs in %q", diff)
	}
}

// TestANodeThatIsAloneDiffersFromNobody: the register has what it was configured with before
// it was started again.
func TestANodeThatIsAloneDiffersFromNobody(t *testing.T) {
	r := common(t, time.Second, time.Hour, time.Hour)
	r.lead(0)
	r.done(0, r.stock(0, 1)...)
	r.linger(10 * time.Minute)
	m := r.peers[0].core.sharedConfig
	if m.Differs() == "" {
		t.Fatal("with others it does not differ")
	}
	m.View.State.Cells = nil
	if got := m.Differs(); got != "" {
		t.Errorf("alone it differs in %s", got)
	}
}

package node

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/register"
)

// TestTimeoutsBetweenNodesAreThoseOfTheConfiguration: how soon a node is given up, and
// another leader of the register elected, is what the operator says.
func TestTimeoutsBetweenNodesAreThoseOfTheConfiguration(t *testing.T) {
	c := config.Default()
	c.PeerHeartbeat, c.PeerTimeout, c.RegisterHeartbeat, c.RegisterElectionTimeout = time.Second, 9*time.Second, 300*time.Millisecond, 3*time.Second
	if p := peerTiming(c); p.Alive != time.Second || p.Idle != 9*time.Second {
		t.Errorf("connections: %+v", p)
	}
	if g := groupConfig(c, register.Member{}, register.UUID{}); g.Heartbeat != 300*time.Millisecond || g.Election != 10 {
		t.Errorf("the register's group: %+v", g)
	}
	if d := outdatedAfter(c); d != 36*time.Second {
		t.Errorf("a copy of the directory is believed after %s", d)
	}
	if d := outdatedAfter(config.Default()); d != 10*time.Second {
		t.Errorf("by default after %s", d)
	}
}

package peer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// TestAHelloIsAskedBackAbout: who says that it is a member, in whichever start, is refused
// while that member answers at its address, and is not remembered with a start that is far
// ahead while it does not. The member itself is let in again, and a lie that was believed
// while it was away gives way to it.
func TestAHelloIsAskedBackAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.add(who(2, 0))
		defer b.stop()
		lie := func(boot, nonce uint64) nornv1.PeerRefusal {
			return b.raw(&nornv1.PeerHello{MinVersion: MinVersion, MaxVersion: MaxVersion, From: node(who(1, 0)), To: node(who(2, 0)), Cluster: testCluster[:], Lane: 1, Boot: boot, Life: 9, Nonce: nonce}).GetRefusal()
		}
		if got := lie(1<<40, 3); got != nornv1.PeerRefusal_PEER_REFUSAL_NOT_ADMITTED {
			t.Errorf("far ahead, and nobody to ask: %v", got)
		}
		if got := lie(8, 3); got != 0 {
			t.Errorf("near, and nobody to ask: %v", got)
		}
		for start := range uint64(2) {
			a := w.add(who(1, 0), func(c *Config) { c.Boot = 5 + start })
			a.Send(who(2, 0), numbered(int(start)))
			settle(10 * time.Second)
			if got := numbers(b.taken()); len(got) != 1 || got[0] != start {
				t.Errorf("start %d: b took %v; %v", 5+start, got, a.Status().Peers[0].Control.Err)
			}
			for _, boot := range []uint64{0, 1, 5, 6, 7, 1 << 40} {
				for _, nonce := range []uint64{0, 3} {
					if got := lie(boot, nonce); got != nornv1.PeerRefusal_PEER_REFUSAL_OLD_LIFE && got != nornv1.PeerRefusal_PEER_REFUSAL_SET_BACK {
						t.Errorf("start %d, nonce %d, while the member is there: %v", boot, nonce, got)
					}
				}
			}
			a.stop()
			settle(10 * time.Second)
		}
	})
}

// TestAMemberSpeaksForItself: a message of the register's group that says it is of another
// member is not handed on, and the connection goes on.
func TestAMemberSpeaksForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		got := 0
		b := w.add(who(2, 0), func(c *Config) {
			c.Sender = func(data []byte) (register.Member, error) {
				if len(data) == 0 {
					return register.Member{}, errors.New("none")
				}
				return who(int(data[0]), 0), nil
			}
		})
		b.Raft().Receive(func([]byte) { got++ })
		defer b.stop()
		a := w.add(who(1, 0))
		defer a.stop()
		for _, data := range [][]byte{{1}, {3}, {}, {2}, {1}} {
			a.Raft().Send(who(2, 0), data, false)
			settle(time.Second)
		}
		if got != 2 || b.Status().Malformed != 3 {
			t.Errorf("%d were taken, %d refused", got, b.Status().Malformed)
		}
	})
}

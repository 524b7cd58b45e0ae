package core

import (
	"os"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// TestAKeyThatIsGivenLate: by a leader that is deposed before the copies leave it, after its
// successor has retried a dead task of the same key. NORN_TEST_KNOWN=1 shows the hole
// (docs/protocol.md, Unique keys).
func TestAKeyThatIsGivenLate(t *testing.T) {
	if os.Getenv("NORN_TEST_KNOWN") == "" {
		t.Skip("a known hole: two tasks of one key are ready")
	}
	r := newTrio(t)
	r.lead(0)
	r.agree()
	dead := r.dieKeyed(0)
	p := ring.Of(dead, partitions)
	var late []letter
	from := r.send(0, withKey("k", 0))
	r.settleBut(func(l letter) bool {
		m, facts := l.message.(*Facts)
		if facts = facts && m.Write != 0; facts {
			late = append(late, l)
		}
		return facts
	})
	r.peers[0].down = true
	r.elect()
	next := r.leader(p)
	if e := r.retry(next, dead); e != nil {
		t.Fatal(e)
	}
	r.settle()
	r.now = r.now.Add(time.Millisecond)
	r.goesOn(0, p)
	r.post = append(r.post, late...)
	r.settle()
	r.tell()
	r.live(time.Minute, time.Second, nothing)
	if reply, ok := r.peers[0].replies[from]; !ok || reply.Err != nil {
		t.Fatalf("the late task is not acknowledged any more: %v", reply)
	}
	for n := range r.peers {
		count := 0
		for task := range r.peers[n].remains() {
			s := r.stateOf(n, task)
			if s == nornv1.State_STATE_READY {
				count++
			}
		}
		if count != 1 {
			t.Errorf("node %d: %d tasks have the key", n, count)
		}
	}
}

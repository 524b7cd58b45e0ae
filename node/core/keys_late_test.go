package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// TestAKeyThatIsGivenLate: a leader gives a key, and is deposed before the copies leave it.
// Its successor retries a dead task of the same key, and then the copies come. The late task
// is not acknowledged, nor when its producer asks again; it is dead, and may be retried when
// the key is free.
func TestAKeyThatIsGivenLate(t *testing.T) {
	r := newTrio(t)
	r.lead(0)
	r.agree()
	dead := r.dieKeyed(0)
	p := ring.Of(dead, testPartitions)
	var copies []letter
	from := r.send(0, withKey("k", 0))
	r.settleBut(func(l letter) bool {
		m, facts := l.message.(*message.Facts)
		if facts = facts && m.Write != 0; facts {
			copies = append(copies, l)
		}
		return facts
	})
	late := r.peers[0].core.keys.Look(r.now, "q", "k", 0).Task
	r.peers[0].down = true
	r.elect()
	next := r.leader(p)
	if e := r.retry(next, dead); e != nil {
		t.Fatal(e)
	}
	r.settle()
	r.now = r.now.Add(time.Millisecond)
	r.goesOn(0, p)
	r.post = append(r.post, copies...)
	r.settle()
	r.tell()
	r.live(time.Minute, time.Second, nothing)
	if reply, ok := r.peers[0].replies[from]; !ok {
		t.Fatal("no answer")
	} else if res := reply.Message.(*nornv1.EnqueueReply).Results[0]; res.Error == nil || res.Error.Effect != nornv1.Effect_EFFECT_UNKNOWN {
		t.Errorf("the late task is acknowledged: %v", res)
	}
	for n := range r.peers {
		if a, b := r.stateOf(n, dead), r.stateOf(n, late); a != nornv1.State_STATE_READY || b != nornv1.State_STATE_DEAD {
			t.Errorf("by node %d the retried task is %v, and the late one %v", n, a, b)
		}
	}
	again := withKey("k", 0)
	again.Tasks[0].Id = late.Bytes()
	refused := func(why string) {
		t.Helper()
		if res := ask[*nornv1.EnqueueReply](r, next, again).Results[0]; res.GetError().GetKind() != nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW {
			t.Errorf("asked again when %s: %v", why, res)
		}
	}
	refused("the retried task has the key")
	if e := r.retry(next, late); e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_CONFLICT {
		t.Errorf("retried while another one has the key: %v", e)
	}
	if r.finish(next, "q"); r.stateOf(next, dead) != nornv1.State_STATE_COMPLETED {
		t.Fatal("another task was granted")
	}
	refused("nobody has the key")
	if e := r.retry(next, late); e != nil || r.stateOf(next, late) != nornv1.State_STATE_READY {
		t.Errorf("retried when the key is free: %v", e)
	}
	if res := ask[*nornv1.EnqueueReply](r, next, again).Results[0]; res.Error != nil || !res.Receipt.Existed {
		t.Errorf("asked again when it has the key: %v", res)
	}
}

// TestAKeyIsPassedOnBeforeItsTaskIsSeenToEnd: the next task of a key comes before the
// completion of the last one does, from those who had both.
func TestAKeyIsPassedOnBeforeItsTaskIsSeenToEnd(t *testing.T) {
	r := newTrio(t)
	r.lead(0)
	r.agree()
	first := parse(t, r.takeKey(0).Receipt.Id)
	r.settle()
	r.peers[2].down = true
	r.finish(0, "q")
	second := parse(t, r.takeKey(0).Receipt.Id)
	r.settle()
	r.peers[2].down = false
	r.lead(2)
	for _, task := range []id.ID{second, first} {
		facts, err := vnode.Facts(r.peers[0].store, ring.Of(task, testPartitions), task)
		if err != nil || len(facts) == 0 {
			t.Fatalf("facts of %s: %v, %v", task, facts, err)
		}
		part := message.PartFacts{Partition: ring.Of(task, testPartitions), Facts: facts}
		r.post = append(r.post, letter{from: 0, to: 2, message: &message.Facts{Parts: []message.PartFacts{part}}})
		r.settle()
	}
	r.agree()
	r.live(time.Minute, time.Second, nothing)
	for n := range r.peers {
		if a, b := r.stateOf(n, first), r.stateOf(n, second); a != nornv1.State_STATE_COMPLETED || b != nornv1.State_STATE_READY {
			t.Errorf("by node %d they are %v and %v", n, a, b)
		}
	}
	if got := r.takeKey(2); !got.Receipt.Existed || parse(t, got.Receipt.Id) != second {
		t.Errorf("the key is given to %v", got)
	}
}

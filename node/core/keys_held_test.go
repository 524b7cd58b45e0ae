package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// TestAPausedLeaderSaysNothingOfAKey: while it stood still the others have retried the dead task
// that had the key. Whoever got another ID for it would enqueue a second task with the key.
func TestAPausedLeaderSaysNothingOfAKey(t *testing.T) {
	r := newTrio(t)
	r.lead(0)
	dead := r.dieKeyed(0)
	p, paused, next := r.pauseKeyed(dead)
	if e := r.retry(next, dead); e != nil {
		t.Fatal(e)
	}
	r.goesOn(paused, p)
	from := r.send(paused, &nornv1.KeyRequest{Queue: "q", Key: "k"})
	r.settle()
	r.tell()
	r.live(5*time.Second, time.Second, nothing)
	reply := r.peers[paused].replies[from]
	if key, is := reply.Message.(*nornv1.KeyReply); is && string(key.Id) != string(dead.Bytes()) {
		t.Errorf("task %s has the key, and it says %v", dead, key)
	}
}

// TestAKeyWithoutAMajoritysWordIsNotGiven: neither its ID nor a new task.
func TestAKeyWithoutAMajoritysWordIsNotGiven(t *testing.T) {
	r := newTrio(t)
	r.lead(0)
	r.agree()
	lost := func(l letter) bool { _, is := l.message.(*message.Claims); return is }
	for _, m := range []func() message.Origin{
		func() message.Origin { return r.send(0, &nornv1.KeyRequest{Queue: "q", Key: "k"}) },
		func() message.Origin { return r.send(0, withKey("k", 0)) },
	} {
		from := m()
		r.live(lease.Timeout+200*time.Millisecond, 100*time.Millisecond, lost)
		reply, is := r.peers[0].replies[from]
		if e := refusedWith(reply.Message, reply.Err); !is || e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
			t.Errorf("nobody has answered: %v", reply)
		}
	}
}

// TestAnIDOfNoWindowIsRefused: two of them would be in one window.
func TestAnIDOfNoWindowIsRefused(t *testing.T) {
	r := newRig(t)
	start := convert.WindowStart(r.now.Wall, int64(time.Hour))
	for off, ok := range map[time.Duration]bool{0: true, time.Minute: false} {
		s := keyed("q", "k", time.Hour)
		s.Id = id.UniqueKey([16]byte(r.core.cfg.Cluster.ID), "q", "k", start+int64(off), 0).Bytes()
		if e := r.tryEnqueue(s).Error; ok && e != nil || !ok && e.GetKind() != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			t.Errorf("an ID of %v into the window: %v", off, e)
		}
	}
}

// TestAKeyIsRememberedWhileItsTaskIsThere, however long ago the tasks of before were forgotten:
// they were collected before it came, or after.
func TestAKeyIsRememberedWhileItsTaskIsThere(t *testing.T) {
	for _, before := range []bool{true, false} {
		r := newCollecting(t)
		r.core.keys.GCGrace, r.core.retention.GCGrace = 4*time.Hour, 4*time.Hour
		one := parse(t, r.tryEnqueue(keyed("q", "k", 0)).Receipt.Id)
		p := ring.Of(one, testPartitions)
		r.finish("q")
		if before {
			if r.pass(2 * time.Hour); vnode.KeyGeneration(r.store, p, one) != 1 {
				t.Error("the ID of a collected task is not passed over")
			}
		}
		res := r.tryEnqueue(keyed("q", "k", 0))
		if res.Error != nil || res.Receipt.Existed {
			t.Fatal(res)
		}
		r.pass(24 * time.Hour)
		if vnode.Known(r.store, p, one) {
			t.Fatal("nothing is forgotten")
		}
		if again := r.tryEnqueue(keyed("q", "k", 0)); !again.GetReceipt().GetExisted() || again.Receipt.Id != res.Receipt.Id {
			t.Errorf("collected before it came: %v; the key is taken by %s, and by %v", before, res.Receipt.Id, again)
		}
	}
}

// twoDead has two tasks with one key die, one after the other.
func twoDead(r *rig) (a, b id.ID) {
	r.t.Helper()
	for _, task := range []*id.ID{&a, &b} {
		res := r.tryEnqueue(keyed("q", "k", 0))
		if res.Error != nil || res.Receipt.Existed {
			r.t.Fatal(res)
		}
		*task = parse(r.t, res.Receipt.Id)
		r.die("q")
	}
	return a, b
}

// TestARetryBarsTheOtherTasksOfItsKey: the leader before may have retried one of them, which
// becomes known later.
func TestARetryBarsTheOtherTasksOfItsKey(t *testing.T) {
	r := newRig(t)
	a, b := twoDead(r)
	if res := r.retry(a)[0]; res.Error != nil {
		t.Fatal(res.Error)
	}
	p := ring.Of(b, testPartitions)
	epoch := r.core.vnodes.See(p).Leading()
	for task, want := range map[id.ID]string{b: "dead", a: "ready"} {
		late := crdt.Requeued{Generation: (epoch-1)<<32 + 7, AfterToken: 1 << 60, At: r.now.Wall}.Fact(task)
		if merged, ok := r.core.arrivals.Merge(r.now, r.core.vnodes.Use(p), []crdt.Fact{late}); !ok || merged.Stored != 1 {
			t.Fatalf("merged %+v", merged)
		}
		r.turn()
		r.want(task, want)
	}
	task, err := vnode.LoadTask(r.core.round.Tx, p, a)
	if err != nil || task.Generation() < epoch<<32 {
		t.Errorf("retried in epoch %d, it has generation %d: %v", epoch, task.Generation(), err)
	}
}

// TestWhatIsHeardOfAKeysTasks: an older one that is finished takes nothing back, one that is not
// does; and the one of the generation on record is noted as its task, so that the record stays.
func TestWhatIsHeardOfAKeysTasks(t *testing.T) {
	r := newRig(t)
	a, b := twoDead(r)
	c, first := r.core, id.UniqueKey([16]byte(r.core.cfg.Cluster.ID), "q", "k", 0, 0)
	p := ring.Of(first, testPartitions)
	e := &crdt.Enqueued{Queue: "q", Key: "k"}
	if vnode.KeyGeneration(c.round.Tx, p, first) != 1 {
		t.Fatal("the second one is not on record")
	} else if c.keys.Learn(r.now, a, e); vnode.KeyGeneration(c.round.Tx, p, first) != 1 {
		t.Error("the first one, dead, has the key again")
	}
	vnode.SetKey(c.round.Tx, p, vnode.Key{First: first, Generation: 1, Current: a, Changed: r.now.Wall})
	c.keys.Learn(r.now, b, e)
	if now, ok := vnode.KeyTask(c.round.Tx, p, first); !ok || now != b {
		t.Errorf("on record is %v, not the one that was heard of, %v", now, b)
	}
	if res := r.retry(a)[0]; res.Error != nil {
		t.Fatal(res.Error)
	}
	vnode.SetKey(c.round.Tx, p, vnode.Key{First: first, Generation: 1, Current: b, Changed: r.now.Wall})
	if c.keys.Learn(r.now, a, e); vnode.KeyGeneration(c.round.Tx, p, first) != 0 {
		t.Error("the first one, retried, has not the key")
	}
}

// TestATombstoneMovesItsKeyOn: another node has collected the task; the next one who asks for
// the key may ask this one.
func TestATombstoneMovesItsKeyOn(t *testing.T) {
	r := newRig(t)
	r.tryEnqueue(keyed("q", "k", 0))
	done := r.finish("q")
	p := ring.Of(done, testPartitions)
	stone := crdt.Tombstone{Outcome: crdt.StateCompleted, At: r.now.Wall, Collected: r.now.Wall}.Fact(done)
	if _, ok := r.core.arrivals.Merge(r.now, r.core.vnodes.Use(p), []crdt.Fact{stone}); !ok {
		t.Fatal("not merged")
	}
	if n := vnode.KeyGeneration(r.core.round.Tx, p, done); n != 1 {
		t.Errorf("generation %d is on record", n)
	}
}

package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// TestAWindowIsChosenOnce: the clock of the node that an enqueue comes to says that one window
// of its key is still open, that of the node which it is sent to that the next one is. Who
// chooses the partition chooses the window, or the task is judged, and stored, where its
// partition is not kept: with nothing known of the one that has the key there.
func TestAWindowIsChosenOnce(t *testing.T) {
	const window = time.Hour
	crossed := 0
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		r := newCohorts(t, 12, 0, func(p int) []int { return []int{3 * p, 3*p + 1, 3*p + 2} })
		cluster := r.register.Cluster().ID
		at := (r.now.Wall/int64(window) + 2) * int64(window) // where the next one begins
		old, next := id.UniqueKey(cluster, "q", key, at-int64(window), 0), id.UniqueKey(cluster, "q", key, at, 0)
		from, to := ring.Of(old, testPartitions), ring.Of(next, testPartitions)
		if from == to {
			continue
		}
		crossed++
		via := 3 * int((from+1)%testPartitions)
		r.wrong = map[int]time.Duration{via: -time.Second}
		r.pass(time.Duration(at - r.now.Wall + int64(time.Millisecond)))
		put := func(payload string) *nornv1.EnqueueResult {
			s := spec("q")
			s.Key, s.KeyWindowSeconds, s.Payload = key, window.Seconds(), []byte(payload)
			return ask[*nornv1.EnqueueReply](r, via, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0]
		}
		first := put("one")
		if first.Error != nil {
			t.Fatalf("key %s: %v", key, first.Error)
		}
		for i, p := range r.peers {
			for _, task := range []id.ID{old, next} {
				home := ring.Of(task, testPartitions)
				if kept := int(home) == i/3; !kept && vnode.Known(p.store.Crash(0), home, task) {
					t.Errorf("key %s: node %d has the task in partition %d, which it does not keep", key, i+1, home)
				}
			}
		}
		if again := put("one"); !again.Receipt.GetExisted() || again.Receipt.GetId() != first.Receipt.GetId() {
			t.Errorf("key %s: repeated, it is %v after %v", key, again, first)
		}
		if got := put("two"); got.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS {
			t.Errorf("key %s: another task with it in its window: %v", key, got)
		}
	}
	if crossed == 0 {
		t.Error("no key moves")
	}
}

// TestAWindowByTheTimeThatIsRight: a node that knows that its clock is off chooses the window
// that its peers would, for an enqueue as for who asks for the ID.
func TestAWindowByTheTimeThatIsRight(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, 365 * 24 * time.Hour} {
		r := newTrio(t)
		r.wrong = map[int]time.Duration{}
		r.live(3*time.Second, 100*time.Millisecond, nothing)
		r.wrong[0] = off
		r.live(3*time.Second, 100*time.Millisecond, nothing)
		want := id.UniqueKey(r.register.Cluster().ID, "q", "key", convert.WindowStart(r.now.Wall, int64(time.Hour)), 0).String()
		s := spec("q")
		s.Key, s.KeyWindowSeconds = "key", 3600
		res := ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0]
		if res.Error != nil || res.Receipt.GetId() != want {
			t.Errorf("off by %v: %v, where the ID is %s", off, res, want)
		}
		key := ask[*nornv1.KeyReply](r, 0, &nornv1.KeyRequest{Queue: "q", Key: "key", WindowSeconds: 3600})
		if got := id.ID(key.GetId()).String(); got != want || key.GetState() == nornv1.State_STATE_UNSPECIFIED {
			t.Errorf("off by %v: asked for, the key has %s in state %v", off, got, key.GetState())
		}
	}
}

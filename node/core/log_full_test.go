package core

import (
	"slices"
	"testing"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// TestALogIsFullAtItsLimit: a worker that logs a line a second would go on for ever. Past
// the limit an update is refused, and says so; what was taken before may come again, and
// what another node has taken is kept.
func TestALogIsFullAtItsLimit(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(&nornv1.TaskSpec{Queue: "q"})[0]
	token := r.claim("q", 1)[0].GetToken()
	v, all := r.core.vnode(task), make([]crdt.Fact, proto.MaxLogUpdates-1)
	for seq := range all {
		all[seq] = crdt.Update{Token: token, Seq: uint64(seq)}.Fact(task)
	}
	if _, err := vnode.Merge(v, r.core.round.Tx, all, r.now); err != nil {
		t.Fatal(err)
	}
	update := func(seq uint64, data string) *nornv1.WriteResult {
		m, _ := r.core.settle.Update(r.now, &message.Request{}, &nornv1.UpdateRequest{Id: task.Bytes(), Token: token, Seq: seq, Data: []byte(data)})
		return m.(*nornv1.WriteReply).GetResults()[0]
	}
	if last := update(proto.MaxLogUpdates-1, "the last one"); last.GetError() != nil {
		t.Fatalf("the last one that fits: %v", last)
	}
	past := update(proto.MaxLogUpdates, "one too many")
	if e := past.GetError(); e.GetKind() != nornv1.ErrorKind_ERROR_KIND_CONFLICT || e.GetEffect() != nornv1.Effect_EFFECT_NONE || !e.GetLasting() || past.GetReceipt() != nil {
		t.Errorf("past the limit: %v", past)
	}
	if again := update(proto.MaxLogUpdates-1, "the last one"); !again.GetReceipt().GetExisted() {
		t.Errorf("the last one again: %v", again)
	}
	if got, err := vnode.Merge(v, r.core.round.Tx, []crdt.Fact{crdt.Update{Token: token, Seq: proto.MaxLogUpdates}.Fact(task)}, r.now); err != nil || got.Stored != 1 {
		t.Errorf("from another node: %v, %v", got, err)
	}
	if n := vnode.LogOf(r.core.round.Tx, ring.Of(task, testPartitions), task); n.Updates != proto.MaxLogUpdates+1 {
		t.Errorf("the log has %v", n)
	}
	// Of several none is taken behind one that has no room, and at last there is some.
	several := func(last bool) (refused []bool) {
		m, _ := r.core.settle.Update(r.now, &message.Request{}, &nornv1.UpdateRequest{
			Id: task.Bytes(), Token: token, Seq: proto.MaxLogUpdates - 1, Data: []byte("the last one"), Last: last,
			More: []*nornv1.FurtherUpdate{{Seq: proto.MaxLogUpdates + 1}, {Seq: proto.MaxLogUpdates - 1, Data: []byte("the last one")}, {Seq: proto.MaxLogUpdates + 2}},
		})
		for _, res := range m.(*nornv1.WriteReply).GetResults() {
			refused = append(refused, res.GetError() != nil)
		}
		return refused
	}
	if got := several(false); !slices.Equal(got, []bool{false, true, false, true}) {
		t.Errorf("of several these are refused: %v", got)
	}
	if got := several(true); !slices.Equal(got, []bool{false, false, false, false}) {
		t.Errorf("of the last ones these are refused: %v", got)
	}
}

package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/settle"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// TestAWriteThatNobodyElseCanKeep: a node that knows itself out of reach of too many
// others says soon that it cannot tell, so that somebody else can be asked; with enough
// of them in reach it waits for the one that is slow.
func TestAWriteThatNobodyElseCanKeep(t *testing.T) {
	for name, cut := range map[string][]int{"one in reach": {2}, "none": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			r := newTrio(t)
			for _, i := range cut {
				r.cut[[2]int{i, 0}], r.cut[[2]int{0, i}] = true, true
			}
			slow := func(l letter) bool { return l.from == 1 && l.to == 0 }
			r.tell()
			r.settleBut(slow)
			from := r.enqueue(0, r.in(0), nil)
			r.live(time.Second, 100*time.Millisecond, slow)
			res := r.result(0, from)
			if len(cut) == 1 {
				if res != nil {
					t.Errorf("with one in reach that has not answered: %v", res)
				}
				return
			}
			if e := res.GetError(); e.GetEffect() != nornv1.Effect_EFFECT_UNKNOWN || !strings.Contains(e.GetMessage(), "in reach") {
				t.Errorf("with nobody in reach: %v", res)
			}
		})
	}
}

// TestABatchThatComesAgain: what is sent again of it is what its receipts promise, once a
// round, and not the payloads of its tasks: of a hundred of 1 MiB it was more than any
// message may have, so that no repetition was ever acknowledged; of one ID that is named a
// thousand times, a thousand times its task (track record).
func TestABatchThatComesAgain(t *testing.T) {
	r := newTrio(t)
	s := spec("q")
	task := r.in(0)
	s.Id, s.Payload = task.Bytes(), make([]byte, 1<<20)
	from := r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	r.settle()
	if res := r.result(0, from); res.GetReceipt() == nil {
		t.Fatal(res)
	}
	g := ask[*nornv1.ClaimReply](r, 0, claimUpTo(1)).Grants[0]
	done := &nornv1.CompleteRequest{}
	for range settle.MaxSame {
		done.Completions = append(done.Completions, &nornv1.Completion{Id: task.Bytes(), Token: g.Token})
	}
	ids := &nornv1.CancelRequest{Ids: slices.Repeat([][]byte{r.put(0, 1).Bytes()}, 1000)}
	for range 3 {
		for _, m := range []gproto.Message{done, ids} {
			from := r.send(0, m)
			bytes := 0
			for _, l := range r.post {
				if f, is := l.message.(*message.Facts); is && l.to == 1 {
					for _, p := range f.Parts {
						for _, fact := range p.Facts {
							bytes += len(fact.Body) + replication.FactBytes
						}
					}
				}
			}
			r.settle()
			if bytes > 1<<10 {
				t.Errorf("%T: %d bytes are sent again", m, bytes)
			}
			for i, res := range r.peers[0].replies[from].Message.(*nornv1.WriteReply).Results {
				if res.GetReceipt().GetDurableCopies() < 2 {
					t.Fatalf("%T, item %d: %v", m, i, res)
				}
			}
		}
	}
	if n := r.copies(task); n != 3 {
		t.Errorf("%d copies", n)
	}
}

// TestManyCompletionsOfOneTask: a request has no more of them than it takes to read them
// all again for each, and each names a token that can have been granted (track record).
func TestManyCompletionsOfOneTask(t *testing.T) {
	r := newTrio(t)
	task, other := r.put(0, 0), r.put(0, 1)
	m := &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: other.Bytes(), Token: 99}}}
	for n := range 2 * settle.MaxSame {
		m.Completions = append(m.Completions, &nornv1.Completion{Id: task.Bytes(), Token: 1<<32 + uint64(n+1)})
	}
	m.Completions = append(m.Completions, &nornv1.Completion{Id: other.Bytes(), Token: 1<<32 + 1})
	for i, res := range ask[*nornv1.WriteReply](r, 0, m).Results {
		refused := res.GetError().GetKind() == nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT
		if want := i == 0 || i > settle.MaxSame && i <= 2*settle.MaxSame; refused != want {
			t.Fatalf("item %d of %d: %v", i, len(m.Completions), res)
		}
	}
}

// sentAgain is how many bytes of facts are on their way to a node.
func (r *trio) sentAgain(to int) (bytes int) {
	for _, l := range r.post {
		if f, is := l.message.(*message.Facts); is && l.to == to {
			for _, p := range f.Parts {
				bytes += int(vnode.AsideSize(p.Facts))
			}
		}
	}
	return bytes
}

// TestADecisionThatComesAgain: a repeated retry or cancel takes nothing with it of what
// was wrong before. Of a thousand dead tasks with 25 traces it was more than any message
// may have: none of them was ever acknowledged (track record).
func TestADecisionThatComesAgain(t *testing.T) {
	r := newTrio(t)
	task, trace := r.put(0, 1), strings.Repeat("x", 16<<10)
	facts := []crdt.Fact{crdt.Dead{At: r.now.Wall, Reason: trace}.Fact(task)}
	for n := range 25 {
		facts = append(facts, crdt.Failed{Token: uint64(n + 1), Error: trace, At: r.now.Wall, Counted: true}.Fact(task))
	}
	for j := range r.peers {
		r.say((j+1)%3, j, &message.Facts{Parts: []message.PartFacts{{Partition: 1, Epoch: r.state().Cells[1].Epoch, Facts: facts}}})
	}
	r.settle()
	i := r.leader(1)
	to := (i + 1) % 3
	for _, m := range []gproto.Message{&nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}}, &nornv1.CancelRequest{Ids: [][]byte{task.Bytes()}}} {
		for range 2 {
			from := r.send(i, m)
			for k := 0; k >= 0; { // a majority says that it leads
				if k = slices.IndexFunc(r.post, func(l letter) bool { _, facts := l.message.(*message.Facts); return !facts }); k >= 0 {
					r.deliver(k)
				}
			}
			if n := r.sentAgain(to); n == 0 || n > 4<<10 {
				t.Errorf("%T: %d bytes are sent", m, n)
			}
			r.settle()
			if res := r.peers[i].replies[from].Message.(*nornv1.WriteReply).Results[0]; res.GetReceipt().GetDurableCopies() < 2 {
				t.Errorf("%T: %v", m, res)
			}
		}
	}
}

// TestWhatIsRepeatedIsBounded: past the limit of a round nothing more is read and sent,
// and whoever asks is told to try again.
func TestWhatIsRepeatedIsBounded(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	i := r.leader(1)
	again := func() *nornv1.WriteResult {
		from := r.send(i, &nornv1.CancelRequest{Ids: [][]byte{task.Bytes()}})
		r.settle()
		return r.peers[i].replies[from].Message.(*nornv1.WriteReply).Results[0]
	}
	again()
	r.peers[i].core.replication.Writes.Resent = replication.MaxResent
	if e := again().GetError(); e.GetKind() != nornv1.ErrorKind_ERROR_KIND_OVERLOADED || e.GetEffect() != nornv1.Effect_EFFECT_UNKNOWN || e.GetRetryAfterSeconds() == 0 {
		t.Errorf("past the limit: %v", e)
	}
	if res := again(); res.GetReceipt().GetDurableCopies() < 2 {
		t.Errorf("in the next round: %v", res)
	}
}

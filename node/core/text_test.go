package core

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// TestALongErrorIsCutBetweenCharacters: what is cut within a character has no place in
// a message, so that its task could be neither read nor granted nor archived any more.
func TestALongErrorIsCutBetweenCharacters(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("a"))[0]
	text := strings.Repeat("é", proto.MaxErrorBytes/2) + "!"
	must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: r.claim("a", 1)[0].Token, Error: text, Discard: true}}})
	got := r.get(task)
	if _, err := gproto.Marshal(got); err != nil || !utf8.ValidString(got.Error) || !strings.HasSuffix(text, got.Error) || len(got.Error) < proto.MaxErrorBytes-utf8.UTFMax {
		t.Errorf("%d bytes of %d, valid %t, %v", len(got.Error), len(text), utf8.ValidString(got.Error), err)
	}
}

// TestATaskWithManyClaimsFitsAFrame: however often it was claimed and given back, by
// workers with the longest names, and with the largest payload. It could not be granted
// otherwise, and nothing else of its queue either.
func TestATaskWithManyClaimsFitsAFrame(t *testing.T) {
	claims := make([]claim.Record, 100_000)
	for i := range claims {
		claims[i] = claim.Record{Worker: strings.Repeat("w", proto.MaxWorkerName)}
		claims[i].Token, claims[i].Start, claims[i].End = 1<<32+uint64(i), 1<<60, 1<<60
	}
	task := id.NewGenerator(1, func() uint64 { return 1 }).Next(1 << 60)
	facts := func(yield func(crdt.Fact) bool) {
		for i := range uint64(5) {
			if !yield(crdt.Update{Token: claims[0].Token, Seq: i, Data: make([]byte, proto.MaxUpdateBytes)}.Fact(task)) {
				return
			}
		}
	}
	view, err := crdt.View(task, facts)
	if err != nil {
		t.Fatal(err)
	}
	view.Enqueued = &crdt.Enqueued{Queue: "q", Payload: make([]byte, proto.MaxPayloadCeiling)}
	d := &vnode.Detail{Task: view, Log: view.VisibleUpdates(), Claims: claims}
	got := convert.Task(d, proto.MaxUpdatesInTask)
	for what, m := range map[string]gproto.Message{"granted": &nornv1.ClaimReply{Grants: []*nornv1.Grant{convert.Grant(d, 0, proto.MaxUpdatesInList)}}, "read": &nornv1.GetReply{Task: got}} {
		if n := gproto.Size(m); n > proto.MaxFrame-64<<10 {
			t.Errorf("%s it has %d bytes, over a frame of %d", what, n, proto.MaxFrame)
		}
	}
	if last := got.Claims[len(got.Claims)-1].Token; last != claims[len(claims)-1].Token {
		t.Errorf("the newest claim that is shown has token %d", last)
	}
}

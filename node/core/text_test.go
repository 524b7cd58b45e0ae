package core

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

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

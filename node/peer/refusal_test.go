package peer

import (
	"errors"
	"strings"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// TestALongRefusalCanBePassedOn: it was cut in the middle of a character, and whatever told
// of it then could not be sent.
func TestALongRefusalCanBePassedOn(t *testing.T) {
	long := "x" + strings.Repeat("é", maxText)
	err := refusalOf(nornv1.PeerRefusal_PEER_REFUSAL_BUSY, &nornv1.Error{Message: long}, nil)
	var r *Refusal
	if !errors.As(err, &r) || len(r.Message) > maxText || len(r.Message) < maxText-1 || !strings.HasPrefix(long, r.Message) {
		t.Fatal(err)
	}
	if _, err := gproto.Marshal(&nornv1.Error{Message: err.Error()}); err != nil {
		t.Error(err)
	}
}

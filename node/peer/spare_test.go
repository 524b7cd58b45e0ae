package peer

import (
	"errors"
	"reflect"
	"testing"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// TestWhatIsSaidOfWhoIsNeeded travels whole; what cannot be is refused, and of who does not
// count nothing is said.
func TestWhatIsSaidOfWhoIsNeeded(t *testing.T) {
	a, b, c := who(1, 0), who(2, 0), who(3, 0)
	s := message.MayRetire{Sound: true, Revision: 7, Needs: [][]register.Member{{a, b, c}, {a, c}}}
	at := func(m register.Member) []string { return []string{m.Node + ":1"} }
	got, nodes, err := spareOf(spareProto(s, at))
	if err != nil || !reflect.DeepEqual(got, s) || len(nodes) != 3 || nodes[1].Member != b || nodes[1].Addresses[0] != b.Node+":1" {
		t.Errorf("it was %+v and is %+v, of %+v: %v", s, got, nodes, err)
	}
	if p := spareProto(message.MayRetire{Revision: 7}, at); p != nil {
		t.Errorf("of who does not count: %v", p)
	}
	broken := spareProto(s, at)
	broken.Needs[0].Members[0] = 3
	if _, _, err := spareOf(broken); !errors.Is(err, ErrMalformed) {
		t.Errorf("of three the fourth: %v", err)
	}
	broken = &nornv1.PeerSpare{Members: make([]*nornv1.PeerMember, register.MaxNodes+register.MaxRemoved+1)}
	if _, _, err := spareOf(broken); !errors.Is(err, ErrMalformed) {
		t.Errorf("of too many: %v", err)
	}
}

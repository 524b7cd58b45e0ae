package node

import (
	"testing"

	"github.com/norn-dev/norn/node/core/message"
)

// TestAcksTravelWithTheRound: what becomes durable while a round is gathered leaves with it,
// and everything else at once; nothing stays behind.
func TestAcksTravelWithTheRound(t *testing.T) {
	ack := func(n uint64) []message.Send { return []message.Send{{Message: &message.FactsTaken{Write: n}}} }
	var a acks
	if a.add(ack(1)) || len(a.take()) != 0 {
		t.Fatal("an ack is held back though no round is gathered")
	}
	a.hold()
	if !a.add(ack(2)) || !a.add(ack(3)) {
		t.Fatal("an ack leaves alone though a round is about to")
	}
	got := a.take()
	if len(got) != 2 || got[0].Message.(*message.FactsTaken).Write != 2 || got[1].Message.(*message.FactsTaken).Write != 3 {
		t.Fatalf("%d acks go with the round", len(got))
	}
	if a.add(ack(4)) || len(a.take()) != 0 {
		t.Fatal("an ack is held back after the round has left")
	}
}

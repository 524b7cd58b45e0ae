package peer

import (
	"errors"
	"slices"
	"testing"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// rawBody is a message as bytes.
type rawBody []byte

func (b rawBody) Size() int                           { return len(b) }
func (b rawBody) AppendTo(dst []byte) ([]byte, error) { return append(dst, b...), nil }

// roundOf gives the bytes of a round of one message.
func roundOf(method nornv1.PeerMethod, body []byte) []byte {
	var r round
	r.add(entry{method, rawBody(body)}, len(body))
	b, _ := r.AppendTo(nil)
	return b
}

// TestRound: messages leave in rounds, one per peer and lane as far as they are small, and
// come out as they were, in order.
func TestRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out outgoings
		sent := map[register.Member]map[Lane][]message.PeerMessage{}
		for range rapid.IntRange(1, 12).Draw(t, "messages") {
			to := who(rapid.IntRange(1, 3).Draw(t, "peer"), 0)
			m := drawMessage(t)
			method, p, which, err := encode(m)
			if err != nil {
				t.Fatal(err)
			}
			if sent[to] == nil {
				sent[to] = map[Lane][]message.PeerMessage{}
			}
			sent[to][which] = append(sent[to][which], m)
			out.add(to, which, entry{method, p})
		}
		got := map[register.Member]map[Lane][]message.PeerMessage{}
		for i := range out.all {
			o := &out.all[i]
			b, err := o.round.AppendTo([]byte("before"))
			if err != nil || string(b[:6]) != "before" {
				t.Fatalf("%v, %q", err, b[:6])
			}
			if b = b[6:]; len(b) > o.round.Size() {
				t.Fatalf("%d bytes, said to be %d at most", len(b), o.round.Size())
			}
			if len(o.round.entries) > 1 && len(b) > smallMessage {
				t.Fatalf("%d messages share %d bytes", len(o.round.entries), len(b))
			}
			var wire nornv1.PeerRound
			if err := gproto.Unmarshal(b, &wire); err != nil || len(wire.GetEntries()) != len(o.round.entries) {
				t.Fatalf("no PeerRound: %v, %d entries of %d", err, len(wire.GetEntries()), len(o.round.entries))
			}
			if got[o.to] == nil {
				got[o.to] = map[Lane][]message.PeerMessage{}
			}
			if err := decodeRound(b, func(method nornv1.PeerMethod, body []byte) {
				m, err := Decode(method, body)
				if err != nil {
					t.Fatal(err)
				}
				got[o.to][o.which] = append(got[o.to][o.which], m)
			}); err != nil {
				t.Fatal(err)
			}
		}
		for to, lanes := range sent {
			for which, all := range lanes {
				if !slices.EqualFunc(all, got[to][which], alike) {
					t.Fatalf("%s got %d messages on %s, %d were sent", to.Node, len(got[to][which]), which, len(all))
				}
			}
		}
	})
}

// TestRoundIsBounded: a frame of very many tiny messages is no round.
func TestRoundIsBounded(t *testing.T) {
	var r round
	for range maxEntries + 1 {
		r.add(entry{nornv1.PeerMethod_PEER_METHOD_HEADS, rawBody(nil)}, 0)
	}
	b, err := r.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	visited := 0
	if err := decodeRound(b, func(nornv1.PeerMethod, []byte) { visited++ }); !errors.Is(err, ErrMalformed) || visited != maxEntries {
		t.Errorf("%v after %d messages", err, visited)
	}
	var out outgoings
	for range maxEntries + 1 {
		out.add(who(1, 0), Control, entry{nornv1.PeerMethod_PEER_METHOD_HEADS, rawBody(nil)})
	}
	if len(out.all) != 2 || len(out.all[0].round.entries) != maxEntries {
		t.Errorf("%d rounds, of %d messages the first", len(out.all), len(out.all[0].round.entries))
	}
}

// TestARoundCutShort: of a round that was cut the messages before the cut are taken.
func TestARoundCutShort(t *testing.T) {
	var r round
	for range 2 {
		r.add(entry{nornv1.PeerMethod_PEER_METHOD_HEADS, rawBody("12345")}, 5)
	}
	b, _ := r.AppendTo(nil)
	for n := range len(b) {
		visited := 0
		err := decodeRound(b[:n], func(nornv1.PeerMethod, []byte) { visited++ })
		if whole := n == 0 || n == len(b)/2; whole != (err == nil) || visited != n/(len(b)/2) {
			t.Errorf("cut after %d of %d bytes: %v, %d messages", n, len(b), err, visited)
		}
	}
}

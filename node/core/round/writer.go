package round

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store"

	gproto "google.golang.org/protobuf/proto"
)

// Writer takes what the machines of a node want done in this round.
type Writer struct {
	// Now is the time of the call under way.
	Now clock.Time
	// Tx has the store as it is with all that was written up to now.
	Tx *store.Overlay
	// Ready is what was asked for in this round, but for what is in Tx.
	Ready message.Ready
	// Refused counts requests that were answered with an error.
	Refused uint64

	last  uint64 // number of the round that was taken last
	fatal error  // Invariant: once set it stays, and is the first
}

// New makes the writer of a process over the contents of a store.
func New(view store.Reader) *Writer { return &Writer{Tx: store.NewOverlay(view)} }

// This is the number of the round to which belongs what is written now.
func (w *Writer) This() uint64 { return w.last + 1 }

// After is the [message.Reply.After] of an answer that depends on nothing that was
// written here later than in a round; 0: in none.
func (w *Writer) After(round uint64) uint64 {
	if round >= w.This() {
		return 0
	}
	return max(round, 1)
}

// Take gives what was asked for in this round and begins the next one.
func (w *Writer) Take() message.Ready {
	r := w.Ready
	w.Ready = message.Ready{}
	if w.Tx.Pending() > 0 {
		r.Persist = w.Tx.Take()
	}
	w.last++
	r.Round = w.last
	return r
}

// Check keeps an error that must stop the node, and tells whether there was none.
func (w *Writer) Check(err error) bool {
	if err != nil && w.fatal == nil {
		w.fatal = err
	}
	return err == nil
}

// Fatal is the error that must stop the node; nil: there is none.
func (w *Writer) Fatal() error { return w.fatal }

// Answer gives a reply.
func (w *Writer) Answer(r message.Reply) { w.Ready.Replies = append(w.Ready.Replies, r) }

// Reply answers a request.
func (w *Writer) Reply(to message.Origin, m gproto.Message) {
	w.Answer(message.Reply{To: to, Message: m})
}

// Refuse answers a request with an error.
func (w *Writer) Refuse(to message.Origin, err *proto.Error) {
	w.Refused++
	w.Answer(message.Reply{To: to, Err: err})
}

// Done gives a client what came of its request: an error, an answer, or neither while that is
// still to come.
func (w *Writer) Done(to message.Origin, m gproto.Message, err *proto.Error) {
	switch {
	case err != nil:
		w.Refuse(to, err)
	case m != nil:
		w.Reply(to, m)
	}
}

// Send sends a message once what was written up to now is durable.
func (w *Writer) Send(to register.Member, m message.PeerMessage) {
	w.Ready.Send = append(w.Ready.Send, message.Send{To: to, Message: m})
}

// SendNow sends a message that promises nothing of what was written.
func (w *Writer) SendNow(to register.Member, m message.PeerMessage) {
	w.Ready.Early = append(w.Ready.Early, message.Send{To: to, Message: m})
}

// SendAfter sends a message that depends on nothing that was written here later than in a round.
func (w *Writer) SendAfter(to register.Member, m message.PeerMessage, round uint64) {
	w.Ready.Send = append(w.Ready.Send, message.Send{To: to, Message: m, After: w.After(round)})
}

// For is the message for a member among those that are gathered, an empty one at first.
func For[M any](mail map[register.Member]*M, to register.Member) *M {
	if mail[to] == nil {
		mail[to] = new(M)
	}
	return mail[to]
}

// SendAll sends with [Writer.Send] or [Writer.SendNow] what was gathered for some members.
func SendAll[M message.PeerMessage](send func(register.Member, message.PeerMessage), mail map[register.Member]M) {
	for _, to := range view.MembersOf(mail) {
		send(to, mail[to])
	}
}

// Read starts a read beside the machine, whose answer is still to come, or refuses it.
func (w *Writer) Read(r message.Read, refusal *proto.Error) (gproto.Message, *proto.Error) {
	if refusal == nil {
		w.Ready.Reads = append(w.Ready.Reads, r)
	}
	return nil, refusal
}

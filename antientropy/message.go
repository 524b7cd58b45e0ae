package antientropy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/norn-dev/norn/crdt"
)

// Kind says what a message is for. The numbers are sent: append only.
type Kind uint8

// Kinds of messages. The initiator sends hello and request, the responder one
// of the others for each.
const (
	KindHello   Kind = 1 // Hash: the newest one the sender has; Root
	KindWelcome Kind = 2 // Hash: the one to use; Root
	KindRequest Kind = 3 // Hash: the one in use; Push, Asks, Wants
	KindAnswer  Kind = 4 // New, Splits, Facts, Done, Next
	KindRefusal Kind = 5 // Reason
)

// Reason says why a peer refuses an exchange. The numbers are sent: append
// only.
type Reason uint8

// Reasons of a refusal.
const (
	ReasonVersion Reason = 1 // it has not the hash that was asked for
	ReasonAbsent  Reason = 2 // it does not hold the partition; its node says so
)

// Message is one message of an exchange. Which fields are in use depends on the
// kind; the others are zero.
type Message struct {
	Kind Kind
	// Session names the round and salts its tags; drawn by the initiator.
	Session uint64
	// Seq numbers what the initiator sends; the reply to it has the same.
	Seq  uint64
	Hash uint8
	Root Node
	// Push are facts that the responder seems to lack.
	Push []crdt.Fact
	// Asks are nodes of which the initiator wants to know what is below.
	Asks []Ask
	// Wants are facts that the initiator seems to lack.
	Wants []Want
	// New is how many facts of Push changed something.
	New uint64
	// Refused is how many facts of Push were not taken: neither stored nor here
	// already. It travels beside the bytes of the message; Told is false where the
	// peer's build does not say.
	Refused uint64
	Told    bool
	// Splits answer the asks in their order, perhaps not all of them.
	Splits []Split
	// Facts answer the wants in their order.
	Facts []crdt.Fact
	// Done is how many wants are answered in full; Next is the last place that
	// was looked at for the one after these.
	Done   uint64
	Next   Position
	Reason Reason
}

// Ask is a question for what is below a node: all, or with Bits > 0, of a leaf,
// only facts whose hashes begin with one of these patterns of so many bits.
type Ask struct {
	Path   Path
	Bits   uint8
	Slices []uint32 // ascending
}

// groups is the number of slices that are asked for; all of a node is one.
func (a *Ask) groups() int { return max(1, len(a.Slices)) }

// group says in which of the slices a fact is, by its hash.
func (a *Ask) group(h crdt.Sum) (int, bool) {
	if a.Bits == 0 {
		return 0, true
	}
	return slices.BinarySearch(a.Slices, sliceOf(h, a.Bits))
}

// slice gives the slice that a part of a split of the ask is.
func (a *Ask) slice(part uint32, bits uint8) uint32 {
	if a.Bits == 0 {
		return part
	}
	return a.Slices[part>>bits]<<bits | part&(1<<bits-1)
}

// Want is a question for facts of a node: those with one of the tags, or all
// when there are none; only what lies after a place.
type Want struct {
	Path  Path
	Tags  []uint32 // ascending
	After Position
}

// Split is what is below a node or slices of it. With Bits > 0 it is parts: the
// children of an inner node, or of a leaf 2^Bits smaller slices of each slice
// that was asked for, by the next bits of the facts' hashes. Parts says which
// have facts, counted through, and Tags has the tags of their sums. With 0 it
// is facts: Tags has their tags, ascending.
type Split struct {
	Bits   uint8
	Groups uint32   // slices that were asked for, at least 1; 0 with a list
	Parts  []uint32 // ascending
	Tags   []uint32
}

// Bounds of slices: bits of the finest, bits of one split, and how many are
// asked for at once.
const (
	maxBits   = 24
	maxSplit  = 8
	maxSlices = 256
)

// tag is what stands for a sum in a message: 32 bits, mixed with the salt of
// the round. Where two that differ have the same tag, which is one in 4*10^9,
// the roots still differ, and the next round has another salt.
func tag(salt uint64, s crdt.Sum) uint32 {
	x := (salt ^ s[0]) * 0x9e3779b97f4a7c15
	x = (x ^ x>>32 ^ s[1]) * 0xd6e8feb86659fd93
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return uint32(x >> 32)
}

// sliceOf is the slice of a fact's hash.
func sliceOf(s crdt.Sum, bits uint8) uint32 { return uint32(s[0] >> (64 - bits)) }

// String gives a message in one line, without sums and tags.
func (m *Message) String() string {
	var b strings.Builder
	switch m.Kind {
	case KindHello:
		fmt.Fprintf(&b, "hello hash=%d count=%d", m.Hash, m.Root.Count)
	case KindWelcome:
		fmt.Fprintf(&b, "welcome hash=%d count=%d", m.Hash, m.Root.Count)
	case KindRefusal:
		fmt.Fprintf(&b, "refusal reason=%d", m.Reason)
	case KindRequest:
		fmt.Fprintf(&b, "request #%d push=%d", m.Seq, len(m.Push))
		for _, a := range m.Asks {
			fmt.Fprintf(&b, " ask(%v", a.Path)
			if a.Bits > 0 {
				fmt.Fprintf(&b, " slices=%d/%d", len(a.Slices), 1<<a.Bits)
			}
			b.WriteByte(')')
		}
		for _, w := range m.Wants {
			fmt.Fprintf(&b, " want(%v", w.Path)
			if len(w.Tags) > 0 {
				fmt.Fprintf(&b, " tags=%d", len(w.Tags))
			}
			b.WriteByte(')')
		}
	case KindAnswer:
		fmt.Fprintf(&b, "answer #%d new=%d", m.Seq, m.New)
		for _, s := range m.Splits {
			if s.Bits > 0 {
				fmt.Fprintf(&b, " parts=%d/%d", len(s.Parts), s.Groups<<s.Bits)
				continue
			}
			fmt.Fprintf(&b, " list=%d", len(s.Tags))
		}
		fmt.Fprintf(&b, " facts=%d done=%d", len(m.Facts), m.Done)
	default:
		fmt.Fprintf(&b, "kind %d", m.Kind)
	}
	return b.String()
}

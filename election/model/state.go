package model

// state is everything a cluster of the model is: what the nodes hold on disk,
// the register, and the network. The network is a set of messages that are
// never taken out, so that each may be delivered at any time, late, twice or
// never. Messages are not listed: one exists as soon as what it was sent from
// exists (a candidacy, a pushed union, a grant), and that is never changed.
//
// Sets of nodes and of slots are masks of four bits. A claim is numbered
// grant*slots + slot; a table of claims has four bits for each (see [table]).
type state struct {
	node [MaxNodes]node
	slot [slots]slot

	granted  uint32        // acks of grants, a mask of nodes per claim
	renewed  [slots]uint32 // acks of the renewals by the leader of the slot, likewise
	released [slots]uint8  // claims whose release the leader of the slot has broadcast

	over   uint8 // claims that have really ended: no worker believes in them
	handed uint8 // claims that a worker has been given

	// Claims that had committed when the completion was acknowledged: handing
	// them out later is a matter of slow messages, not a grant.
	earlyGranted uint8
	earlyRenewed [slots]uint8

	cell uint8 // slot of the registered epoch

	// named has, for each node whose ack of the completion some coordinator may
	// count, the proposals the ack named: a mask of slots, bit 0 for the ack
	// itself; no candidacy has slot 0.
	named [MaxNodes]uint8
	flags uint8
}

// Flags of a state.
const (
	acknowledged = 1 << iota // the completion reached its quorums
	restarted                // an omission's restart has happened
)

// node is what one vnode has on disk.
type node struct {
	k     table
	p     uint8 // promise: an epoch
	props uint8 // proposals persisted with promises: a mask of slots
	flags uint8
}

// Flags of a node.
const (
	present = 1 << iota // it has the vnode; without it refuses claims and facts
	done                // it holds the completion
)

// slot is one candidacy, and the epoch it may become.
type slot struct {
	pushed  table           // the union, from the push on
	snap    [MaxNodes]table // the voters' snapshots, until then
	who     uint8
	e       uint8 // its epoch
	old     uint8 // slot of the cell it started from
	target  uint8 // index of its cohort C'
	phase   uint8
	votes   uint8 // who promised (until the union)
	fetched uint8 // whose snapshot came without a promise (an omission)
	acks    uint8 // who has stored the push
	facts   uint8 // which snapshots hold the completion; bit 4: the union does
	dead    uint8 // its process has restarted
}

const unionDone = 1 << 4 // in slot.facts

// Phases of a slot.
const (
	unused = iota
	voting
	pushing
	leading // registered, as far as its candidate knows
)

// table is a set of claims: for each the epoch of the leader that wrote the
// record last, and whether it was released then, as epoch<<1 | released; 0 is
// no record. Within an epoch a release comes last, for a leader never renews
// what it has released; so the join of two records is the larger.
type table uint32

const (
	lows  = 0x11111111 // the lowest bit of each record
	relea = 1          // the released bit of a record
)

func (t table) at(c int) uint8 { return uint8(t>>(4*c)) & 15 }

func (t table) with(c int, v uint8) table {
	return t&^(15<<(4*c)) | table(v)<<(4*c)
}

// known has the lowest bit of each record that exists.
func (t table) known() table { return (t | t>>1 | t>>2 | t>>3) & lows }

// open has the lowest bit of each record that is not released.
func (t table) open() table { return t.known() &^ t }

// raise joins a record into t.
func (t table) raise(c int, v uint8) table {
	if v > t.at(c) {
		return t.with(c, v)
	}
	return t
}

// spread has, for a mask of claims, the lowest bits of their records.
func spread(mask uint8) table {
	t := table(mask)
	t = (t | t<<12) & 0x000f000f
	t = (t | t<<6) & 0x03030303
	return (t | t<<3) & lows
}

// nodes of the acks of a round on claim c.
func ackers(acks uint32, c int) uint8 { return uint8(acks>>(4*c)) & 15 }

func slotOf(claim int) int { return claim % slots }

// token orders claims as their tokens do: by epoch, then by sequence.
func (s *state) token(claim int) int { return int(s.slot[slotOf(claim)].e)<<4 | claim/slots }

// higher has the records of claims with a higher token than claim.
func (s *state) higher(claim int) (t table) {
	mine := s.token(claim)
	for c := range claims {
		if s.granted>>(4*c)&15 != 0 && s.token(c) > mine {
			t |= 1 << (4 * c)
		}
	}
	return t
}

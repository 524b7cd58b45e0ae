package core

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"

	"github.com/cespare/xxhash/v2"
)

// ErrForgot is returned when others know that this node's disk held more than it
// does: it was set back, or has lost the end of its log. The node has to become
// another incarnation, and the others can spare it (K4).
var ErrForgot = errors.New("core: this disk has lost what it had acknowledged; the node needs a new incarnation")

// The keys of marks, beside those of partitions.
var (
	ownMarkKey   = []byte("!mark/own")
	seenMarksKey = []byte("!mark/seen")
	lostMarkKey  = []byte("!mark/lost")
)

const (
	// seenEvery is the least pause between two writes of what was seen of others:
	// they are part of a batch that is written anyway.
	seenEvery = time.Second
	// seenAfter is when they are written though nothing else is.
	seenAfter = 3 * time.Second
	// spareAfter is for how long others are asked what they know of their disks before it
	// counts: those that were set back together find out at about the same time.
	spareAfter = 2 * beatEvery
	// markEvery is the least pause between two times that all others hear how far this disk is.
	// What one of them alone knows decides nothing ([words]), so it is short.
	markEvery = 100 * time.Millisecond
	// maxMark is beyond the mark of any disk: a million a second for two thousand years.
	// maxMarkJump is by how much one may be ahead of what was last seen of that node.
	maxMark     = 1 << 56
	maxMarkJump = 1 << 40
	// maxMarks bounds the members whose marks are kept.
	maxMarks = register.MaxNodes + register.MaxRemoved
)

// durability have a node notice that its disk was set back (protocol (a) 3). Each
// batch that an acknowledgement depends on carries a number that only grows, and
// so does the acknowledgement. The others remember the highest they have seen,
// and tell a node that starts. Until a majority of a cohort has told, the node
// neither votes nor takes claims there: with its old promises it could help two
// leaders, or forget a claim. Detection is best effort: who knew better may be
// away, and what nobody was told is not missed.
type durability struct {
	c           *Core
	durable     uint64
	base        uint64 // when this process began
	last        uint64 // when the others were last told
	tellAt      int64  // they are not told again before, mono ns
	heardOf     map[register.Member]uint64
	dirty       int64                    // since when seen is not on disk, mono ns; 0: it is
	at          int64                    // it is not written again before, mono ns
	confirmedBy map[register.Member]bool // who has said what it has seen of this node
	sure        []bool                   // by partition: enough of its cohort have
	peers       peerHealth               // who of the others has forgotten nothing
	lost        uint64                   // a mark that others know and this disk does not; 0: none
	by          register.Member          // who knows it
	since       int64                    // when that was found out, mono ns; 0: at the start
	why         string                   // it was found out otherwise than by a mark, in these words
	asked       bool                     // that is somebody's word, and is asked back about: nothing is decided by it here
	firm        bool                     // this node has found it out itself, or its operator's register has: it is no word of one
	words       words                    // of others
	noted       bool                     // all that is on disk: by its own mark the disk will get there again
	written     bool                     // there is something of it on disk
}

func openDurability(c *Core, view store.View) (*durability, error) {
	m := &durability{c: c, heardOf: make(map[register.Member]uint64), confirmedBy: make(map[register.Member]bool), sure: make([]bool, c.cfg.Cluster.Partitions), words: newWords()}
	m.peers = peerHealth{m: m, of: make(map[register.Member]health), look: true}
	if b, ok := view.Get(ownMarkKey); ok {
		if len(b) != 16 || binary.BigEndian.Uint64(b) != xxhash.Sum64(b[8:]) {
			return nil, fmt.Errorf("core: %w: the mark of this disk", vnode.ErrDamaged)
		}
		m.durable = binary.BigEndian.Uint64(b[8:])
		m.base, m.words.base = m.durable, m.durable
	}
	if c.cfg.SetBack || m.durable < c.cfg.Mark {
		m.lost, m.by.Node, m.firm = max(c.cfg.Mark, 1), "its superblock", true
	}
	if b, ok := view.Get(seenMarksKey); ok {
		r := wire.NewReader(b)
		for range r.Count(maxMarks) {
			member := register.ReadMember(r)
			m.heardOf[member] = r.Uint()
		}
		if sum := r.Uint(); r.End() != nil || sum != m.sum() {
			return nil, fmt.Errorf("core: %w: the marks of other nodes", vnode.ErrDamaged)
		}
	}
	return m, m.recall(view, c.now)
}

// MarkOf is how far a core's disk is once what was last asked to be written is on
// it.
func MarkOf(c *Core) uint64 { return c.durability.durable }

// ReadMarks gives the mark of a disk, 0 for one that has none, and those of other
// nodes that it remembers; an error for a damaged one. It is for whoever looks at
// a disk from outside, as a simulator does.
func ReadMarks(view store.View) (own uint64, seen map[register.Member]uint64, err error) {
	m, err := openDurability(&Core{}, view)
	if err != nil {
		return 0, nil, err
	}
	return m.durable, m.heardOf, nil
}

// ReadForgotten tells whether a disk has lost what it had acknowledged, as far as it shows by
// itself, and who has found that out; empty: its superblock, or the register's group. mark and
// setBack are what the superblock says.
func ReadForgotten(view store.View, self register.Member, mark uint64, setBack bool) (by string, lost bool, err error) {
	m, err := openDurability(&Core{cfg: Config{Self: self, Mark: mark, SetBack: setBack}}, view)
	if err != nil || m.lost == 0 {
		return "", false, err
	}
	if m.by == self || m.by.Incarnation == (register.Incarnation{}) {
		return "", true, nil
	}
	return m.by.Node, true, nil
}

// sum is a checksum of what was seen.
func (m *durability) sum() (sum uint64) {
	for _, member := range membersOf(m.heardOf) {
		sum = sum*31 + xxhash.Sum64(binary.BigEndian.AppendUint64([]byte(member.Node+string(member.Incarnation[:])), m.heardOf[member]))
	}
	return sum
}

// stamp numbers a round that writes, and what leaves when that is durable. What
// waits for an earlier round only is not stamped, and neither is what goes to
// somebody who has not told yet what it knows of this node before this process, or who
// says that this disk has lost something: hearing of nothing newer it says what it had seen
// before, and takes back what was not so, however far the disk is by then.
func (m *durability) stamp(sends []message.Send) {
	if m.c.round.Tx.Pending() > 0 && !m.c.view.Alone {
		m.durable++
		b := binary.BigEndian.AppendUint64(make([]byte, 8, 16), m.durable)
		binary.BigEndian.PutUint64(b, xxhash.Sum64(b[8:]))
		m.c.round.Tx.Set(ownMarkKey, b)
	}
	for i := range sends {
		if at := message.DurabilityIn(sends[i].Message); at != nil && sends[i].After == 0 && m.confirmedBy[sends[i].To] && !m.words.says(sends[i].To) {
			*at = m.durable
		}
	}
}

// tell has the others hear how far this disk is, where they do not by what this
// node acknowledges: a leader's own copy counts too.
func (m *durability) tell(now clock.Time) {
	if m.durable == m.last || m.c.view.Alone || now.Mono < m.tellAt {
		return
	}
	m.last, m.tellAt = m.durable, now.Mono+int64(markEvery)
	for _, o := range m.c.clocks.company() {
		if m.c.view.Up(o) {
			m.c.round.Ready.Send = append(m.c.round.Ready.Send, message.Send{To: o, Message: &message.DurabilityEpoch{}})
		}
	}
}

// saw notes how far another node's disk was.
func (m *durability) saw(now clock.Time, from register.Member, mark uint64) {
	old, known := m.heardOf[from]
	if mark > maxMark || known && mark > old+maxMarkJump || mark <= old || !known && !m.room() {
		return
	}
	m.heardOf[from] = mark
	if m.dirty == 0 {
		m.dirty = max(now.Mono, 1)
	}
}

// room makes some for one member more. Who is neither a member nor remembered as a
// removed one never comes back as the same, and there is always one such among too many.
func (m *durability) room() bool {
	if len(m.heardOf) < maxMarks {
		return true
	}
	for _, member := range membersOf(m.heardOf) {
		if _, known := m.c.view.State.Find(member); !known {
			delete(m.heardOf, member)
			return true
		}
	}
	return false
}

// save writes what was seen, now and then.
func (m *durability) save(now clock.Time) {
	if m.dirty == 0 || mutant.MarksUnsaved.On() || now.Mono < m.at || m.c.round.Tx.Pending() == 0 && now.Mono < m.dirty+int64(seenAfter) {
		return
	}
	m.dirty, m.at = 0, now.Mono+int64(seenEvery)
	var w wire.Writer
	w.Uint(uint64(len(m.heardOf)))
	for _, member := range membersOf(m.heardOf) {
		register.AppendMember(&w, member)
		w.Uint(m.heardOf[member])
	}
	w.Uint(m.sum())
	m.c.round.Tx.Set(seenMarksKey, w.B)
}

// hurry writes what was seen with the next round: this process is about to end.
func (m *durability) hurry() {
	if m.dirty != 0 {
		m.dirty, m.at = -int64(seenAfter), 0
	}
}

// next is when something is due, mono ns.
func (m *durability) next() int64 {
	at := m.words.at
	if m.dirty != 0 {
		at = min(at, m.dirty+int64(seenAfter))
	}
	if m.durable != m.last && !m.c.view.Alone {
		at = min(at, m.tellAt)
	}
	return at
}

// heard takes what another node has seen of this one.
func (m *durability) heard(from register.Member, mark uint64) {
	m.words.hear(m, from, mark)
	if !m.confirmedBy[from] {
		m.confirmedBy[from], m.peers.look = true, true
		m.c.elector.look()
		m.c.deferredAcks.look = true
		if !m.c.view.Alone { // what it was acknowledged so far had no mark
			m.c.round.Ready.Send = append(m.c.round.Ready.Send, message.Send{To: from, Message: &message.DurabilityEpoch{}})
		}
	}
}

// lose ends what this node stands for: others know of more than this disk has.
func (m *durability) lose(mark uint64, by register.Member) {
	if m.lost != 0 {
		return
	}
	m.lost, m.by, m.since = mark, by, m.c.now.Mono
	clear(m.peers.of)
	m.c.view.Changes++
	for p := range m.c.view.Cells {
		m.c.elector.unlead(ring.Partition(p))
		m.c.elector.runs.Abort(ring.Partition(p), "this disk has lost what it had acknowledged")
	}
}

// found takes that it was found out otherwise. There is another node then, whatever this
// disk says, so that it is noted as known by somebody who has an incarnation.
func (m *durability) found(why string, asked bool) {
	m.why, m.asked, m.firm, m.noted = why, asked && m.lost == 0, true, false
	m.lose(1, m.c.cfg.Self)
}

// changed looks at the cohorts anew.
func (m *durability) changed() {
	clear(m.sure)
	m.c.deferredAcks.look, m.peers.look = true, true
}

// trusts tells whether this node may vote and take claims of a partition: a
// majority of its cohort does not know that it has forgotten something. Which cohort
// that is, the register has to have said to this process: what its own disk says of
// the register may be set back too, to when the cohort was another one or none.
func (m *durability) trusts(p ring.Partition) bool {
	return m.c.view.Current && m.intact(p) || mutant.TrustsAlways.On()
}

// counts tells whether this node's copies of facts, and what it answers to reads, count
// in a cohort, which is that of a cell of some epoch: also an ack names the cohorts that
// were voted for, and who has forgotten those names none. Facts go on without the
// register (design 7.1), so that the cell here will do, unless a later one is asked for.
func (m *durability) counts(p ring.Partition, epoch uint64) bool {
	if !m.c.view.Current && m.c.view.Cells[p].Epoch < epoch {
		return false
	}
	if !slices.Contains(m.c.view.Cells[p].Cohort, m.c.cfg.Self) && m.c.transfer.incoming[p] == nil {
		return !m.forgetful(p) // nobody tells a node of a partition that it does not keep
	}
	return m.intact(p)
}

// intact tells whether a majority of a partition's cohort says that this disk is as
// they know it.
func (m *durability) intact(p ring.Partition) bool {
	if m.lost != 0 {
		return !m.forgetful(p)
	}
	n := len(m.c.view.Cells[p].Cohort)
	m.sure[p] = m.sure[p] || n > 0 && m.telling(p) >= quorum.Majority(n)
	return m.sure[p]
}

// forgetful tells whether what this disk has lost may matter for a partition: others
// went by it. So neither does its copy of a fact count any more: it does not know for
// which cohorts it has voted, and an acknowledgement has to name them (design 5). A node
// that is alone goes on with what it has; one that another has told is not alone,
// whatever its disk says.
func (m *durability) forgetful(p ring.Partition) bool {
	return m.lost != 0 && (len(m.c.view.Cells[p].Cohort) > 1 || m.c.view.Company() || m.by.Incarnation != register.Incarnation{})
}

// telling counts those of a cohort that have told, and this node.
func (m *durability) telling(p ring.Partition) int {
	n := 1
	for _, o := range m.c.view.Cells[p].Cohort {
		if o != m.c.cfg.Self && m.confirmedBy[o] {
			n++
		}
	}
	return n
}

// work ends the process of a node that has forgotten something, when the others
// can go on without it. Else it stays for what it has, and an operator decides.
func (m *durability) work(now clock.Time) {
	m.tell(now)
	m.words.work(m)
	m.note()
	if m.lost != 0 && !m.asked && m.ends() { // else it is asked back whether it is so
		m.c.round.Check(m.forgot())
	}
}

// ends tells whether what was lost is certain enough, and the others can do without this node.
func (m *durability) ends() bool { return (m.firm || m.words.enough(m)) && m.mayRetire() }

// Forgotten says what the disk of a node has lost while the others cannot do
// without what it still has; nil: nothing, or they can, and it ends.
func Forgotten(c *Core) error {
	if m := c.durability; m.lost != 0 && (c.view.Current || m.why != "") && !m.ends() {
		return m.forgot()
	}
	return nil
}

func (m *durability) forgot() error {
	return fmt.Errorf("%w: %s", ErrForgot, m.shown())
}

// shown is how it was found out.
func (m *durability) shown() string {
	switch {
	case m.why != "" || m.by == m.c.cfg.Self:
		return cmp.Or(m.why, "as was found out before it started again")
	case m.by.Incarnation == (register.Incarnation{}):
		return m.by.Node + " knows of more than its stores have"
	}
	alone := ""
	if !m.words.enough(m) {
		alone = "; as long as nobody else says so the node stands aside and keeps its incarnation"
	}
	return fmt.Sprintf("it began with mark %d, and %s has seen %d%s", m.base, m.by.Node, m.lost, alone)
}

// mayRetire tells whether a majority of each cohort is in reach and intact without
// this node, as far as it tells ([peerHealth]), and one of the register's voters. Where that
// is not known here, the others are asked ([MayRetire]).
func (m *durability) mayRetire() bool {
	if !m.c.view.Current || len(m.c.view.Voters) == 0 {
		return false // whose majority it would be is not known yet
	}
	if m.since != 0 && m.c.now.Mono < m.since+int64(spareAfter) {
		return false // nor may those know who have forgotten something, too
	}
	self, counts := m.c.cfg.Self, m.peers.counts
	if !without(self, m.c.view.Voters, counts) || !without(self, m.c.view.Outgoing, counts) {
		return false // the register would stand still, for good
	}
	return !slices.ContainsFunc(m.c.view.Cells, func(c register.Cell) bool { return !without(self, c.Cohort, counts) })
}

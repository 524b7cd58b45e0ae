package standing

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/view"
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
	OwnMarkKey   = []byte("!mark/own")
	SeenMarksKey = []byte("!mark/seen")
	LostMarkKey  = []byte("!mark/lost")
)

const (
	// seenEvery is the least pause between two writes of what was seen of others:
	// they are part of a batch that is written anyway.
	seenEvery = time.Second
	// SeenAfter is when they are written though nothing else is.
	SeenAfter = 3 * time.Second
	// spareAfter is for how long others are asked what they know of their disks before it
	// counts: those that were set back together find out at about the same time.
	spareAfter = 2 * beatEvery
	// markAfter is after what time others hear how far this disk is where its own copy counts, as
	// they are sent what it writes: a disk that is set back further is known to them. What one of
	// them alone knows decides nothing ([words]), so that all others hear as well, with the beats.
	markAfter = 100 * time.Millisecond
	// maxMark is beyond the mark of any disk: a million a second for two thousand years.
	// maxMarkJump is by how much one may be ahead of what was last seen of that node.
	maxMark     = 1 << 56
	maxMarkJump = 1 << 40
	// MaxMarks bounds the members whose marks are kept.
	MaxMarks = register.MaxNodes + register.MaxRemoved
)

// Disk have a node notice that its disk was set back (protocol (a) 3). Each
// batch that an acknowledgement depends on carries a number that only grows, and
// so does the acknowledgement. The others remember the highest they have seen,
// and tell a node that starts. Until a majority of a cohort has told, the node
// neither votes nor takes claims there: with its old promises it could help two
// leaders, or forget a claim. Detection is best effort: who knew better may be
// away, and what nobody was told is not missed.
type Disk struct {
	env *Env
	// Invariant: Durable grows by one with each batch that an acknowledgement depends on, and
	// never falls while the process runs: the others take a lower number for a disk that was
	// set back.
	Durable uint64
	Base    uint64                     // when this process began
	round   uint64                     // that has that number; 0: it is of before this process
	owed    map[register.Member]bool   // who was sent what counts with this disk's copy, and has not heard of its mark since
	tellAt  int64                      // when they are told, mono ns
	told    map[register.Member]uint64 // the highest mark that each has been told
	before  map[register.Member]uint64 // of these, those that each had been told when it was asked last
	quiet   bool                       // this round writes what was seen of others alone
	// Invariant: a number in HeardOf only grows, and there are at most [MaxMarks] of them
	// (Audit). To forget one is to let its disk be set back unnoticed.
	HeardOf     map[register.Member]uint64
	dirty       int64                    // since when seen is not on disk, mono ns; 0: it is
	at          int64                    // it is not written again before, mono ns
	ConfirmedBy map[register.Member]bool // who has said what it has seen of this node
	// Invariant: sure is cleared whenever the cells change: a majority of another cohort has
	// said nothing yet.
	sure    []bool          // by partition: enough of its cohort have
	Peers   peerHealth      // who of the others has forgotten nothing
	Lost    uint64          // a mark that others know and this disk does not; 0: none
	By      register.Member // who knows it
	since   int64           // when that was found out, mono ns; 0: at the start
	why     string          // it was found out otherwise than by a mark, in these words
	asked   bool            // that is somebody's word, and is asked back about: nothing is decided by it here
	firm    bool            // this node has found it out itself, or its operator's register has: it is no word of one
	Words   words           // of others
	noted   bool            // all that is on disk: by its own mark the disk will get there again
	Written bool            // there is something of it on disk
}

// openDisk reads what this disk says of itself and of others. An error wraps
// [vnode.ErrDamaged]: a record that cannot be read is not taken for one that is absent, since
// that would be to forget a loss.
func openDisk(env *Env, view store.View, now clock.Time) (*Disk, error) {
	partitions := 0
	if env.View != nil { // who only reads the disk has none
		partitions = len(env.View.Cells)
	}
	m := &Disk{env: env, HeardOf: make(map[register.Member]uint64), ConfirmedBy: make(map[register.Member]bool), sure: make([]bool, partitions), Words: newWords(), owed: make(map[register.Member]bool), told: make(map[register.Member]uint64), before: make(map[register.Member]uint64)}
	m.Peers = peerHealth{m: m, Of: make(map[register.Member]health), Look: true}
	if b, ok := view.Get(OwnMarkKey); ok {
		if len(b) != 16 || binary.BigEndian.Uint64(b) != xxhash.Sum64(b[8:]) {
			return nil, fmt.Errorf("core: %w: the mark of this disk", vnode.ErrDamaged)
		}
		m.Durable = binary.BigEndian.Uint64(b[8:])
		m.Base, m.Words.base = m.Durable, m.Durable
	}
	if env.SetBack || m.Durable < env.Mark {
		m.Lost, m.By.Node, m.firm = max(env.Mark, 1), "its superblock", true
	}
	if b, ok := view.Get(SeenMarksKey); ok {
		r := wire.NewReader(b)
		for range r.Count(MaxMarks) {
			member := register.ReadMember(r)
			m.HeardOf[member] = r.Uint()
		}
		if sum := r.Uint(); r.End() != nil || sum != m.sum() {
			return nil, fmt.Errorf("core: %w: the marks of other nodes", vnode.ErrDamaged)
		}
	}
	return m, m.recall(view, now)
}

// ReadMarks gives the mark of a disk, 0 for one that has none, and those of other
// nodes that it remembers; an error for a damaged one. It is for whoever looks at
// a disk from outside, as a simulator does.
func ReadMarks(view store.View) (own uint64, seen map[register.Member]uint64, err error) {
	m, err := openDisk(&Env{Ground: &ground.Ground{}}, view, clock.Time{})
	if err != nil {
		return 0, nil, err
	}
	return m.Durable, m.HeardOf, nil
}

// ReadForgotten tells whether a disk has lost what it had acknowledged, as far as it shows by
// itself, and who has found that out; empty: its superblock, or the register's group. mark and
// setBack are what the superblock says.
func ReadForgotten(view store.View, self register.Member, mark uint64, setBack bool) (by string, lost bool, err error) {
	m, err := openDisk(&Env{Ground: &ground.Ground{Self: self}, Mark: mark, SetBack: setBack}, view, clock.Time{})
	if err != nil || m.Lost == 0 {
		return "", false, err
	}
	if m.By == self || m.By.Incarnation == (register.Incarnation{}) {
		return "", true, nil
	}
	return m.By.Node, true, nil
}

// sum is a checksum of what was seen.
func (m *Disk) sum() (sum uint64) {
	for _, member := range view.MembersOf(m.HeardOf) {
		sum = sum*31 + xxhash.Sum64(binary.BigEndian.AppendUint64([]byte(member.Node+string(member.Incarnation[:])), m.HeardOf[member]))
	}
	return sum
}

// Stamp numbers a round that writes, and what leaves when that is durable. What
// waits for an earlier round only is not stamped, and neither is what goes to
// somebody who has not told yet what it knows of this node before this process, or who
// says that this disk has lost something: hearing of nothing newer it says what it had seen
// before, and takes back what was not so, however far the disk is by then. A round that
// writes only what was seen of others is not numbered: nobody goes by it, and each number
// would have the others write what they have seen.
//
// A message that says something of this disk bears the number of the batch that it waits for.
// Who cannot be told a number (it has not said yet what it knows) gets 0, which means nothing.
func (m *Disk) Stamp(ready *message.Ready) {
	if m.env.Round.Tx.Pending() > 0 && !m.env.View.Alone && !m.quiet {
		m.Durable++
		m.round = m.env.Round.This()
		b := binary.BigEndian.AppendUint64(make([]byte, 8, 16), m.Durable)
		binary.BigEndian.PutUint64(b, xxhash.Sum64(b[8:]))
		m.env.Round.Tx.Set(OwnMarkKey, b)
	}
	for _, sends := range [][]message.Send{ready.Early, ready.Send} {
		for i := range sends {
			if message.OwnCopyCounts(sends[i].Message) {
				m.owe(sends[i].To)
			}
		}
	}
	for i := range ready.Send {
		s := &ready.Send[i]
		if at := message.DurabilityIn(s.Message); at != nil && s.After == 0 && m.ConfirmedBy[s.To] && !m.Words.says(s.To) {
			*at = m.Durable
			m.told[s.To] = m.Durable
			delete(m.owed, s.To)
		}
	}
}

// owe has a node told soon how far this disk is.
func (m *Disk) owe(to register.Member) {
	if len(m.owed) == 0 {
		m.tellAt = m.env.Round.Now.Mono + int64(markAfter)
	}
	m.owed[to] = true
}

// tell has those hear how far this disk is with whom its own copy counts, a leader's too, and
// who do not hear it by what this node acknowledges.
func (m *Disk) tell(now clock.Time) {
	if len(m.owed) == 0 || now.Mono < m.tellAt {
		return
	}
	to := view.MembersOf(m.owed)
	clear(m.owed)
	m.tellThem(to)
}

// tellAll has all others hear it together with what they are asked: in the same frames.
func (m *Disk) tellAll(others []register.Member) {
	clear(m.before)
	maps.Copy(m.before, m.told)
	to := slices.Concat(others, view.MembersOf(m.owed))
	slices.SortFunc(to, register.Member.Compare)
	clear(m.owed)
	m.tellThem(slices.Compact(to))
}

// tellThem tells how far this disk was before this round: where that is durable by now, it
// leaves at once, with whatever else goes to the same node.
func (m *Disk) tellThem(to []register.Member) {
	if m.env.View.Alone {
		return
	}
	for _, o := range to {
		if !m.env.View.Up(o) || m.told[o] >= m.Durable || !m.ConfirmedBy[o] || m.Words.says(o) {
			continue
		}
		m.told[o] = m.Durable
		m.env.Round.SendAfter(o, &message.DurabilityEpoch{Mark: m.Durable}, m.round)
	}
}

// Saw notes how far another node's disk was.
//
// A number that is out of all proportion is dropped: it would make this member's own disk look
// set back for ever.
func (m *Disk) Saw(now clock.Time, from register.Member, mark uint64) {
	old, known := m.HeardOf[from]
	if mark > maxMark || known && mark > old+maxMarkJump || mark <= old || !known && !m.room() {
		return
	}
	m.HeardOf[from] = mark
	if m.dirty == 0 {
		m.dirty = max(now.Mono, 1)
	}
}

// room makes some for one member more. Who is neither a member nor remembered as a
// removed one never comes back as the same, and there is always one such among too many.
func (m *Disk) room() bool {
	if len(m.HeardOf) < MaxMarks {
		return true
	}
	for _, member := range view.MembersOf(m.HeardOf) {
		if _, known := m.env.View.State.Find(member); !known {
			delete(m.HeardOf, member)
			return true
		}
	}
	return false
}

// save writes what was seen, now and then.
func (m *Disk) save(now clock.Time) {
	m.quiet = false
	if m.dirty == 0 || m.env.Policy.MarksUnsaved || now.Mono < m.at || m.env.Round.Tx.Pending() == 0 && now.Mono < m.dirty+int64(SeenAfter) {
		return
	}
	m.dirty, m.at = 0, now.Mono+int64(seenEvery)
	m.quiet = m.env.Round.Tx.Pending() == 0
	var w wire.Writer
	w.Uint(uint64(len(m.HeardOf)))
	for _, member := range view.MembersOf(m.HeardOf) {
		register.AppendMember(&w, member)
		w.Uint(m.HeardOf[member])
	}
	w.Uint(m.sum())
	m.env.Round.Tx.Set(SeenMarksKey, w.B)
}

// Hurry writes what was seen with the next round: this process is about to end.
func (m *Disk) Hurry() {
	if m.dirty != 0 {
		m.dirty, m.at = -int64(SeenAfter), 0
	}
}

// next is when something is due, mono ns.
func (m *Disk) next() int64 {
	at := m.Words.at
	if m.dirty != 0 {
		at = min(at, m.dirty+int64(SeenAfter))
	}
	if len(m.owed) > 0 {
		at = min(at, m.tellAt)
	}
	return at
}

// Heard takes what another node has seen of this one.
func (m *Disk) Heard(from register.Member, mark uint64) {
	m.Words.hear(m, from, mark)
	// It has forgotten what it was told, or was never told: it is to know (K4). What it has been
	// told since it was asked may not be there yet.
	if _, known := m.told[from]; known && mark < m.before[from] || !known && mark < m.Durable {
		m.told[from], m.before[from] = 0, 0
		m.owe(from)
	}
	if !m.ConfirmedBy[from] {
		m.ConfirmedBy[from], m.Peers.Look = true, true
		m.env.say(Review, 0)
		m.env.say(Recount, 0)
		if !m.env.View.Alone { // what it was acknowledged so far had no mark
			m.env.Round.Send(from, &message.DurabilityEpoch{})
		}
	}
}

// lose ends what this node stands for: others know of more than this disk has.
//
// It stands for nothing from here on. Only [Disk.regain] takes that back, when nobody says so
// any more.
func (m *Disk) lose(mark uint64, by register.Member) {
	if m.Lost != 0 {
		return
	}
	m.Lost, m.By, m.since = mark, by, m.env.Round.Now.Mono
	clear(m.Peers.Of)
	m.env.View.Changes++
	for p := range m.env.View.Cells {
		m.env.say(Lost, ring.Partition(p))
	}
}

// Found takes that it was found out otherwise. There is another node then, whatever this
// disk says, so that it is noted as known by somebody who has an incarnation.
func (m *Disk) Found(why string, asked bool) {
	m.why, m.asked, m.firm, m.noted = why, asked && m.Lost == 0, true, false
	m.lose(1, m.env.Self)
}

// Changed looks at the cohorts anew.
func (m *Disk) Changed() {
	clear(m.sure)
	maps.DeleteFunc(m.told, func(who register.Member, _ uint64) bool {
		_, known := m.env.View.State.Find(who)
		return !known
	})
	m.Peers.Look = true
	m.env.say(Recount, 0)
}

// Trusts tells whether this node may vote and take claims of a partition: a
// majority of its cohort does not know that it has forgotten something. Which cohort
// that is, the register has to have said to this process: what its own disk says of
// the register may be set back too, to when the cohort was another one or none.
func (m *Disk) Trusts(p ring.Partition) bool {
	return m.env.View.Current && m.intact(p) || m.env.Policy.TrustsAlways
}

// Counts tells whether this node's copies of facts, and what it answers to reads, count
// in a cohort, which is that of a cell of some epoch: also an ack names the cohorts that
// were voted for, and who has forgotten those names none. Facts go on without the
// register (design 7.1), so that the cell here will do, unless a later one is asked for.
func (m *Disk) Counts(p ring.Partition, epoch uint64) bool {
	if !m.env.View.Current && m.env.View.Cells[p].Epoch < epoch {
		return false
	}
	if !slices.Contains(m.env.View.Cells[p].Cohort, m.env.Self) && !m.env.View.Arriving[p] {
		return !m.Forgetful(p) // nobody tells a node of a partition that it does not keep
	}
	return m.intact(p) || m.env.Policy.CountsForgotten
}

// intact tells whether a majority of a partition's cohort says that this disk is as
// they know it.
func (m *Disk) intact(p ring.Partition) bool {
	if m.Lost != 0 {
		return !m.Forgetful(p)
	}
	n := len(m.env.View.Cells[p].Cohort)
	m.sure[p] = m.sure[p] || n > 0 && m.Telling(p) >= quorum.Majority(n)
	return m.sure[p]
}

// Forgetful tells whether what this disk has lost may matter for a partition: others
// went by it. So neither does its copy of a fact count any more: it does not know for
// which cohorts it has voted, and an acknowledgement has to name them (design 5). A node
// that is alone goes on with what it has; one that another has told is not alone,
// whatever its disk says.
func (m *Disk) Forgetful(p ring.Partition) bool {
	return m.Lost != 0 && (len(m.env.View.Cells[p].Cohort) > 1 || m.env.View.Company() || m.By.Incarnation != register.Incarnation{})
}

// Told tells whether a majority of the members that are to be a cohort has told, so that this
// node can lead it. Else the partition would have no leader from the votes on until they tell.
func (m *Disk) Told(to []register.Member) bool {
	n := 0
	for _, o := range to {
		if o == m.env.Self || m.ConfirmedBy[o] {
			n++
		}
	}
	return n >= quorum.Majority(len(to)) || m.env.Policy.TrustsAlways
}

// Telling counts those of a cohort that have told, and this node.
func (m *Disk) Telling(p ring.Partition) int {
	n := 1
	for _, o := range m.env.View.Cells[p].Cohort {
		if o != m.env.Self && m.ConfirmedBy[o] {
			n++
		}
	}
	return n
}

// work ends the process of a node that has forgotten something, when the others
// can go on without it. Else it stays for what it has, and an operator decides.
func (m *Disk) work(now clock.Time) {
	m.tell(now)
	m.Words.spread(m)
	m.note()
	if m.Lost != 0 && !m.asked && m.ends() { // else it is asked back whether it is so
		m.env.Round.Check(m.forgot())
	}
}

// ends tells whether what was lost is certain enough, and the others can do without this node.
func (m *Disk) ends() bool {
	return (m.firm || m.env.Policy.OneWord || m.Words.enough(m)) && m.MayRetire()
}

// LostButNeeded says what was lost while the others cannot do without what is still here; nil:
// nothing, or they can, and the node ends.
func (m *Disk) LostButNeeded() error {
	if m.Lost != 0 && (m.env.View.Current || m.why != "") && !m.ends() {
		return m.forgot()
	}
	return nil
}

// forgot is the error that ends the incarnation; it wraps [ErrForgot].
func (m *Disk) forgot() error {
	return fmt.Errorf("%w: %s", ErrForgot, m.Shown())
}

// Shown is how it was found out.
func (m *Disk) Shown() string {
	switch {
	case m.why != "" || m.By == m.env.Self:
		return cmp.Or(m.why, "as was found out before it started again")
	case m.By.Incarnation == (register.Incarnation{}):
		return m.By.Node + " knows of more than its stores have"
	}
	alone := ""
	if !m.Words.enough(m) {
		alone = "; as long as nobody else says so the node stands aside and keeps its incarnation"
	}
	return fmt.Sprintf("it began with mark %d, and %s has seen %d%s", m.Base, m.By.Node, m.Lost, alone)
}

// MayRetire tells whether a majority of each cohort is in reach and intact without
// this node, as far as it tells ([peerHealth]), and one of the register's voters. Where that
// is not known here, the others are asked ([MayEnd]).
func (m *Disk) MayRetire() bool {
	if !m.env.View.Current || len(m.env.View.Voters) == 0 {
		return false // whose majority it would be is not known yet
	}
	if m.since != 0 && m.env.Round.Now.Mono < m.since+int64(spareAfter) {
		return false // nor may those know who have forgotten something, too
	}
	self, counts := m.env.Self, m.Peers.Counts
	if !without(self, m.env.View.Voters, counts) || !without(self, m.env.View.Outgoing, counts) {
		return false // the register would stand still, for good
	}
	return !slices.ContainsFunc(m.env.View.Cells, func(c register.Cell) bool { return !without(self, c.Cohort, counts) })
}

package standing

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"

	"github.com/cespare/xxhash/v2"
)

const (
	// denyAfter is for how long others have to know nothing of what one member says before
	// the node goes on: in that time they are heard, and who has said it can take it back.
	denyAfter = 10 * time.Second
	// MostUnseen is by how much one member may know more of a disk than all others: so many
	// rounds are not written in the moments between two times that all are told.
	MostUnseen = 1 << 16
)

// words are what other members say that this disk has lost. One of them is enough to stand
// aside at once (K4), and not to end: it may lie, or its own disk may be wrong. Two who say
// so are enough, or the only one who has ever heard of this disk. A word is gone when its
// member takes it back or is replaced, or when the others know nothing of what cannot have
// escaped them.
type words struct {
	// Invariant: of has at most [MaxMarks] words, the newest of each member (Audit).
	of  map[register.Member]word
	saw map[register.Member]uint64 // what each of those in reach has last said that it has seen, of any mark
	at  int64                      // when to look again whether they are denied, mono ns
	// base is how far the disk was when the first of them was said, or at this start; met are
	// the nodes that have been heard since, under any incarnation. Who has not can know of
	// nothing newer, however far the disk is by now.
	base uint64
	met  map[string]bool
}

// word is that a member has seen a mark that this disk should have.
//
// The quorum for ending is two words, or more than those that deny it: with one word a single
// damaged disk could end every other incarnation of its cohorts.
type word struct {
	mark   uint64
	since  int64 // that it says so, mono ns of this process
	late   bool  // it had been heard before by this process, which has lost nothing since
	denied bool
}

// newWords makes the record of a process about which nobody has said anything.
func newWords() words {
	return words{of: make(map[register.Member]word), saw: make(map[register.Member]uint64), at: clock.Never, met: make(map[string]bool)}
}

// hear takes what a member has seen of this disk.
func (w *words) hear(m *Disk, from register.Member, mark uint64) {
	now, limit, late := m.env.Round.Now.Mono, m.Durable, w.met[from.Node]
	if !w.met[from.Node] && len(w.met) < MaxMarks {
		limit, w.met[from.Node] = w.base, true
		m.noted = m.noted && len(w.of) == 0
	}
	beyond := mark > limit && mark <= maxMark
	w.saw[from] = mark
	old, known := w.of[from]
	switch {
	case beyond && !known && len(w.of) < MaxMarks:
		w.of[from] = word{mark: mark, since: now, late: late}
	case known && mark < old.mark:
		delete(w.of, from)
	default:
		return
	}
	w.judge(m)
}

// says tells whether a member says that this disk has lost something, and is not denied.
func (w *words) says(who register.Member) bool {
	said, says := w.of[who]
	return says && !said.denied
}

// judge looks what the words come to, and whether this node still stands aside by them.
//
// One word is enough to stand aside. Whether the node ends is decided by [Disk.ends].
func (w *words) judge(m *Disk) {
	m.noted = false
	if m.firm {
		return
	}
	most, by := w.most()
	switch {
	case most == 0 && m.Lost == 0:
	case most == 0:
		m.regain()
	case m.Lost != 0:
		m.Lost, m.By = most, by
	default:
		w.at = m.env.Round.Now.Mono + int64(denyAfter)
		m.lose(most, by)
	}
}

// most is the highest mark that somebody says, and who; 0: nothing is said that counts.
func (w *words) most() (mark uint64, by register.Member) {
	for _, who := range view.MembersOf(w.of) {
		if said := w.of[who]; (!said.denied || len(w.of) > 1) && said.mark > mark {
			mark, by = said.mark, who
		}
	}
	return mark, by
}

// enough tells whether what is said is enough to end: by two, or by more than half of those
// in reach who have ever seen anything of this disk.
func (w *words) enough(m *Disk) bool {
	deny := 0
	for who, mark := range w.saw { // Any order: they are counted.
		if _, says := w.of[who]; !says && mark > 0 && m.env.View.Up(who) {
			deny++
		}
	}
	return len(w.of) >= 2 || len(w.of) > deny
}

// spread looks whether a word is denied: others know nothing of it, for a while, and it is about
// more than can have escaped them, or about what this process has not lost.
func (w *words) spread(m *Disk) {
	now := m.env.Round.Now.Mono
	if w.at > now {
		return
	}
	w.at = clock.Never
	if m.firm || len(w.of) != 1 {
		return
	}
	most, deny := m.Base, false
	for who, mark := range w.saw { // Any order: the most counts.
		if _, says := w.of[who]; !says && mark > 0 && m.env.View.Up(who) {
			most, deny = max(most, mark), true
		}
	}
	for who, said := range w.of { // Any order: there is one.
		if said.denied {
			return
		}
		w.at = now + int64(denyAfter)
		if deny && now-said.since >= int64(denyAfter) && (said.late || said.mark > most+MostUnseen) {
			said.denied = true
			w.of[who] = said
			w.judge(m)
		}
	}
}

// Keep drops the words of those who are no members any more, while others are left who could
// say the same: where the register was forced to begin anew with this node alone nobody is.
func (w *words) Keep(m *Disk) {
	if len(w.saw)+len(w.of) == 0 || !m.env.View.Company() {
		return
	}
	gone := func(who register.Member) bool {
		have, known := m.env.View.State.Find(who)
		kept := func(c register.Cell) bool { return slices.Contains(c.Cohort, who) }
		return known && have.Status == register.Removed || !known && !slices.ContainsFunc(m.env.View.Cells, kept)
	}
	maps.DeleteFunc(w.saw, func(who register.Member, _ uint64) bool { return gone(who) })
	before := len(w.of)
	maps.DeleteFunc(w.of, func(who register.Member, _ word) bool { return gone(who) })
	if len(w.of) < before {
		w.judge(m)
	}
}

// regain has the node stand for what it stood for: nobody says any more that it has lost
// something.
func (m *Disk) regain() {
	m.Lost, m.By, m.since = 0, register.Member{}, 0
	clear(m.Peers.Of)
	m.Changed()
	m.env.View.Changes++
	m.env.say(Review, 0)
}

// lostRecord is what is written down of what a disk has lost, as it shows itself, and of who
// says that it has.
func lostRecord(self register.Member, m *Disk) []byte {
	var w wire.Writer
	register.AppendMember(&w, self)
	firm := m.firm && !m.asked
	w.Bool(firm)
	if firm {
		register.AppendMember(&w, m.By)
		w.Uint(m.Lost)
	}
	w.Uint(m.Words.base)
	w.Uint(uint64(len(m.Words.met)))
	for _, name := range slices.Sorted(maps.Keys(m.Words.met)) {
		w.String(name)
	}
	w.Uint(uint64(len(m.Words.of)))
	for _, who := range view.MembersOf(m.Words.of) {
		register.AppendMember(&w, who)
		w.Uint(m.Words.of[who].mark)
		w.Bool(m.Words.of[who].late)
		w.Bool(m.Words.of[who].denied)
	}
	return binary.BigEndian.AppendUint64(w.B, xxhash.Sum64(w.B))
}

// recall reads it. What was written by another incarnation of the directory says nothing.
func (m *Disk) recall(view store.View, now clock.Time) error {
	b, ok := view.Get(LostMarkKey)
	if !ok {
		return nil
	}
	damaged := fmt.Errorf("core: %w: what this disk has lost", vnode.ErrDamaged)
	if len(b) < 8 || binary.BigEndian.Uint64(b[len(b)-8:]) != xxhash.Sum64(b[:len(b)-8]) {
		return damaged
	}
	r := wire.NewReader(b[:len(b)-8])
	self, firm := register.ReadMember(r), r.Bool()
	var by register.Member
	var lost uint64
	if firm {
		by, lost = register.ReadMember(r), r.Uint()
	}
	base, met := r.Uint(), make(map[string]bool)
	for range r.Count(MaxMarks) {
		met[r.String(register.MaxName)] = true
	}
	said := make(map[register.Member]word)
	for range r.Count(MaxMarks) {
		who := register.ReadMember(r)
		said[who] = word{mark: r.Uint(), late: r.Bool(), denied: r.Bool(), since: now.Mono}
	}
	if r.End() != nil {
		return damaged
	}
	m.Written = true
	if self != m.env.Self {
		return nil
	}
	m.noted, m.Words.of, m.Words.base, m.Words.met = true, said, base, met
	switch most, who := m.Words.most(); {
	case firm:
		m.firm, m.Lost, m.By = true, lost, by
	case !m.firm && most > 0:
		m.Lost, m.By, m.Words.at = most, who, now.Mono+int64(denyAfter)
	}
	return nil
}

// note writes it down: the disk goes on, and once it is further than anybody has seen it
// nothing tells any more that something before that is missing. What others are asked about
// is not written: whoever has said it will say so again.
func (m *Disk) note() {
	if m.noted {
		return
	}
	m.noted = true
	switch {
	case m.firm && !m.asked || len(m.Words.of) > 0:
		m.env.Round.Tx.Set(LostMarkKey, lostRecord(m.env.Self, m))
		m.Written = true
	case m.Written:
		m.env.Round.Tx.Delete(LostMarkKey)
		m.Written = false
	}
}

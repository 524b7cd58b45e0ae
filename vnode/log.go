package vnode

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// LogSize is how much there is of a log.
type LogSize struct {
	Updates uint64 // the hidden ones too
	Bytes   uint64 // as stored
}

// LogOf is how much this replica has of the log of a task, of all its claims. It costs a
// read, however long the log is.
func LogOf(view store.View, p ring.Partition, task id.ID) LogSize {
	return LogAt(view, appendTask(nil, tableLogs, p, task))
}

// LogAt is how much is counted under a key of the table of logs.
func LogAt(view store.View, key []byte) (n LogSize) {
	if b, ok := view.Get(key); ok && len(b) == 16 {
		n = LogSize{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
	}
	return n
}

func (n LogSize) encode() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, n.Updates), n.Bytes)
}

// logged counts an update that is stored; old is the body that it replaces, nil: none.
func logged(tx store.Tx, p ring.Partition, f crdt.Fact, old []byte) {
	for _, key := range [][]byte{appendTask(nil, tableLogs, p, f.Task), appendClaim(nil, tableLogs, p, f.Task, f.Key.A)} {
		n := LogAt(tx, key)
		if n.Bytes += uint64(len(f.Body)) - uint64(len(old)); old == nil {
			n.Updates++
		}
		tx.Set(key, n.encode())
	}
}

// visible is how many updates of a claim are visible: the number after the last one that
// is. Where as many are here as the highest number says there is no hole among them.
func visible(view store.View, p ring.Partition, task id.ID, token, top uint64) uint64 {
	if n := LogAt(view, appendClaim(nil, tableLogs, p, task, token)).Updates; n == top+1 || mutant.GapShown.On() {
		return top + 1
	}
	next, prefix := uint64(0), logKey(p, task, token, 0)
	for key := range view.Scan(prefix, after(prefix[:len(prefix)-8])) {
		if binary.BigEndian.Uint64(key[len(key)-8:]) != next {
			break
		}
		next++
	}
	return next
}

// top is the highest number of an update of a claim.
func top(view store.View, p ring.Partition, task id.ID, token uint64) (seq uint64, ok bool) {
	prefix := logKey(p, task, token, 0)
	for key := range view.Back(prefix, after(prefix[:len(prefix)-8])) {
		return binary.BigEndian.Uint64(key[len(key)-8:]), true
	}
	return 0, false
}

func logKey(p ring.Partition, task id.ID, token, seq uint64) []byte {
	return appendFact(nil, p, task, crdt.Key{Kind: crdt.KindUpdate, A: token, B: seq})
}

// NextSeq is the number after the last visible update of a claim: where
// `complete` without a sequence number puts the completion.
func NextSeq(view store.View, p ring.Partition, task id.ID, token uint64) uint64 {
	if seq, ok := top(view, p, task, token); ok {
		return visible(view, p, task, token, seq)
	}
	return 0
}

// Shows tells whether an update of a task is visible.
func Shows(view store.View, p ring.Partition, task id.ID, token, seq uint64) bool {
	return HasKey(view, logKey(p, task, token, seq)) && NextSeq(view, p, task, token) > seq
}

// tail reads a log from its end.
type tail struct {
	limit int    // bytes of updates that are given; the newest one is in any case, unless it is 0
	until uint64 // token below which a checkpoint is looked for; 0: none is

	log        []crdt.Update // newest first
	size       int
	checkpoint *crdt.Update
}

// take looks at a visible update, and tells whether more is to be read.
func (t *tail) take(u *crdt.Update) bool {
	if t.checkpoint == nil && u.Token < t.until && !u.Output {
		t.checkpoint = u
	}
	if t.size <= t.limit {
		if t.size += len(u.Data) + len(u.Further) + updateFixed; t.size <= t.limit || len(t.log) == 0 && t.limit > 0 {
			t.log = append(t.log, *u)
		}
	}
	return t.size <= t.limit || t.until != 0 && t.checkpoint == nil
}

// updateFixed is about what an update takes in an answer beside its data.
const updateFixed = 64

// read walks the visible updates of a task, the newest first.
func (t *tail) read(view store.View, p ring.Partition, task id.ID) error {
	first := logKey(p, task, 0, 0)
	for end := appendFact(nil, p, task, crdt.Key{Kind: crdt.KindCompleted}); ; {
		newest := crdt.Key{} // of those before the end
		for key := range view.Back(first, end) {
			var err error
			if newest, err = crdt.DecodeKey(key[prefixSize+id.Size:]); err != nil {
				return fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
			}
			break
		}
		if newest == (crdt.Key{}) {
			return nil
		}
		end = logKey(p, task, newest.A, 0) // of what is older than its claim
		shown := visible(view, p, task, newest.A, newest.B)
		for key, value := range view.Back(end, logKey(p, task, newest.A, shown)) {
			u, err := updateOf(key, value)
			if err != nil {
				return err
			}
			if !t.take(&u) {
				return nil
			}
		}
	}
}

// updateOf reads an update that is stored, with bytes of its own.
func updateOf(key, value []byte) (u crdt.Update, err error) {
	f, err := intactFact(key, append([]byte(nil), value...))
	if err != nil {
		return u, err
	}
	if u, err = crdt.DecodeUpdate(f.Body); err != nil {
		err = fmt.Errorf("%w: task %s: %w", ErrDamaged, f.Task, err)
	}
	return u, err
}

// Saved gives the update where a claim with this token may go on, see
// [crdt.Task.Checkpoint]; nil: there is none. It returns ErrDamaged when one cannot be read.
func Saved(view store.View, p ring.Partition, task id.ID, token uint64) (*crdt.Update, error) {
	if LogOf(view, p, task).Updates == 0 {
		return nil, nil
	}
	log := tail{until: token}
	err := log.read(view, p, task)
	return log.checkpoint, err
}

// SavedBefore is the fact that [Saved] is about, for a claim that is not known here yet. Of
// a task that was never claimed, as most are that are granted, it reads nothing.
func SavedBefore(v *Vnode, view store.View, task id.ID, token uint64) (f crdt.Fact, ok bool, err error) {
	if v.claims.Lookup(task).Of(token) != nil || !v.recent.Maybe(task) {
		return f, false, nil
	}
	if _, r := spot(v, task); r != nil && r.Fresh {
		return f, false, nil
	}
	u, err := Saved(view, v.Partition, task, token)
	if err != nil || u == nil {
		return f, false, err
	}
	f, ok = FactOf(view, v.Partition, task, crdt.Key{Kind: crdt.KindUpdate, A: u.Token, B: u.Seq})
	return f, ok, nil
}

// LogAfter is a place in the log of a task, behind an update; the zero value is its begin.
type LogAfter struct {
	Is         bool // there is such an update
	Token, Seq uint64
}

// Log gives visible updates of a task (see [crdt.Task.VisibleUpdates]) from a place on, up
// to a number of them and until they have so many bytes, and whether there are more. It
// reads no more than that, however long the log is. Who has seen the update at that place
// has seen those of its claim before it. It returns ErrDamaged when one cannot be read.
func Log(view store.View, p ring.Partition, task id.ID, from LogAfter, limit, bytes int) (all []crdt.Update, more bool, err error) {
	log := crdt.Contiguous{Token: from.Token}
	if from.Is {
		switch key := appendFact(nil, p, task, crdt.Key{Kind: crdt.KindUpdate, A: from.Token, B: from.Seq}); {
		case from.Seq < math.MaxUint64 && HasKey(view, key):
			log.Next = from.Seq + 1
		case from.Token == math.MaxUint64:
			return nil, false, nil
		default: // what comes after it in its claim is hidden
			log.Token++
		}
	}
	begin := appendFact(nil, p, task, crdt.Key{Kind: crdt.KindUpdate, A: log.Token, B: log.Next})
	end := appendFact(nil, p, task, crdt.Key{Kind: crdt.KindCompleted})
	size := 0
	for key, value := range view.Scan(begin, end) {
		u, err := updateOf(key, value)
		if err != nil {
			return nil, false, err
		}
		if !log.Shows(&u) {
			continue
		}
		if len(all) == limit || size >= bytes {
			return all, !mutant.LogPage.On(), nil
		}
		size += len(u.Data) + len(u.Further)
		all = append(all, u)
	}
	return all, false, nil
}

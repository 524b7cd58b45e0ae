package vnode

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Detail is a task as a reader sees it.
type Detail struct {
	Task   *crdt.Task
	State  crdt.State
	Claims []claim.Record // by ascending token
	// Log are the visible updates, as many of the newest as were asked for.
	Log []crdt.Update
	// Checkpoint is where the claim that was asked about may go on, see [crdt.Task.Checkpoint].
	Checkpoint []byte
	// Attempts are those that have ended, oldest first, where they were asked for.
	Attempts []crdt.Attempt
	// Lean says that its payload, results and updates were left out, or some of them.
	Lean bool
}

// ReadOptions say what a reader can do without. A log may be long: who leaves nothing of
// it away reads all of it.
type ReadOptions struct {
	// NoClaims leaves the claim history away.
	NoClaims bool
	// Claims gives so many of the newest claims that have ended, and reads no others: a task
	// may have been claimed and given back thousands of times. 0: MaxClaims.
	Claims int
	// NoLog leaves the updates away.
	NoLog bool
	// Log gives the newest visible updates that have so many bytes, and one at least. No
	// more is read, and the task itself has none of them. 0: all.
	Log int
	// Attempts gives the attempts that have ended, the first three and the last 47.
	Attempts bool
	// Until is the token of a claim: then its checkpoint is given, and of the log no more
	// than Log says. 0: none is.
	Until uint64
}

// LoadTask reads the facts of a task, but for its updates, and builds its view:
// enough for everything but its log, which may be long. The view owns its
// bytes. It returns ErrDamaged when a fact cannot be read.
func LoadTask(view store.View, p ring.Partition, task id.ID) (*crdt.Task, error) {
	return load(view, p, task, appendFact(nil, p, task, crdt.Key{Kind: crdt.KindEnqueued}))
}

// LoadOutcome reads what says how a task ended, and nothing that can be large.
func LoadOutcome(view store.View, p ring.Partition, task id.ID) (*crdt.Task, error) {
	t, err := load(view, p, task, nil)
	if err == nil && HasKey(view, appendFact(nil, p, task, crdt.Key{Kind: crdt.KindEnqueued})) {
		t.Enqueued = &crdt.Enqueued{}
	}
	return t, err
}

// Heard tells whether the task is known here: its enqueue, or that it was collected.
func Heard(view store.View, p ring.Partition, task id.ID) (bool, error) {
	if HasKey(view, appendFact(nil, p, task, crdt.Key{Kind: crdt.KindEnqueued})) {
		return true, nil
	}
	t, err := load(view, p, task, nil)
	return err == nil && t.Collected(), err
}

// Outcome tells how a task ended; unknown while it has not, or nothing is known
// of it.
func Outcome(view store.View, p ring.Partition, task id.ID) (crdt.State, error) {
	t, err := LoadOutcome(view, p, task)
	if err != nil {
		return 0, err
	}
	return t.Outcome(), nil
}

// load reads the fact under the first key, if there is one, and those that come
// after the updates.
func load(view store.View, p ring.Partition, task id.ID, first []byte) (*crdt.Task, error) {
	v, n := crdt.NewViewer(task), 0
	for key, value := range late(view, p, task, first) {
		kind := kindIn(key)
		if err := addStored(&v, key, value); err != nil {
			return nil, err
		}
		if kind != crdt.KindFailed && kind != crdt.KindExpired {
			continue
		}
		if n++; n == mostEnds+1 {
			if e, ok := endsOf(view, p, task); ok {
				if t, ok, err := brief(view, p, task, first, e); ok || err != nil {
					return t, err
				}
			}
		}
	}
	return v.Task, nil
}

// late walks the fact under the first key, if there is one, and those that come
// after the updates.
func late(view store.View, p ring.Partition, task id.ID, first []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if first != nil {
			if value, ok := view.Get(first); ok && !yield(first, value) {
				return
			}
		}
		end := after(appendTask(nil, tableFacts, p, task))
		for key, value := range view.Scan(appendFact(nil, p, task, crdt.Key{Kind: crdt.KindCompleted}), end) {
			if !yield(key, value) {
				return
			}
		}
	}
}

// loadAll reads all facts of a task.
func loadAll(view store.View, p ring.Partition, task id.ID) (*crdt.Task, error) {
	prefix := appendTask(nil, tableFacts, p, task)
	return build(task, view.Scan(prefix, after(prefix)))
}

func build(task id.ID, facts iter.Seq2[[]byte, []byte]) (*crdt.Task, error) {
	v := crdt.NewViewer(task)
	for key, value := range facts {
		if err := addStored(&v, key, value); err != nil {
			return nil, err
		}
	}
	return v.Task, nil
}

// addStored adds a fact as it is stored.
func addStored(v *crdt.Viewer, key, value []byte) error {
	f, err := StoredFact(key, append([]byte(nil), value...))
	if err != nil {
		return err
	}
	if err = v.Add(f); err != nil {
		return fmt.Errorf("%w: task %s: %w", ErrDamaged, f.Task, err)
	}
	return nil
}

// Facts gives all facts of a task, by key. It returns ErrDamaged when a key
// cannot be read.
func Facts(view store.View, p ring.Partition, task id.ID) ([]crdt.Fact, error) {
	return factsOf(view, p, task, func(crdt.Key, []byte) bool { return true })
}

// Decisions gives the facts of a task that say where it is: all but those of which there
// may be much, its updates, completions and failures, what it was given up for, and an
// enqueue of over 4 KiB. About the failure of a claim it gives that one, and what the task
// was given up for, too. It returns ErrDamaged when a key cannot be read.
func Decisions(view store.View, p ring.Partition, task id.ID, about crdt.Key) ([]crdt.Fact, error) {
	return factsOf(view, p, task, func(k crdt.Key, body []byte) bool {
		switch k.Kind {
		case crdt.KindEnqueued:
			return len(body) <= 4<<10
		case crdt.KindUpdate, crdt.KindCompleted:
			return false
		case crdt.KindFailed:
			return k == about
		case crdt.KindDead:
			return about.Kind == crdt.KindFailed
		}
		return true
	})
}

func factsOf(view store.View, p ring.Partition, task id.ID, wanted func(crdt.Key, []byte) bool) (facts []crdt.Fact, err error) {
	prefix := appendTask(nil, tableFacts, p, task)
	for key, value := range view.Scan(prefix, after(prefix)) {
		f, err := intactFact(key, value)
		if err != nil {
			return nil, err
		}
		if wanted(f.Key, f.Body) {
			f.Body = bytes.Clone(f.Body)
			facts = append(facts, f)
		}
	}
	return facts, nil
}

// Newest gives the facts of a task, by key, but for old ones of its updates, completions
// and failures, of which there may be very many: of either kind the newest that have so many
// bytes, and one at least, and the completion that counts. It reads little more than it
// gives. It returns ErrDamaged when a key cannot be read.
func Newest(view store.View, p ring.Partition, task id.ID, most int) ([]crdt.Fact, error) {
	return newestFrom(view, p, task, crdt.KindEnqueued, most)
}

// newestFrom is the same for the kinds from one on.
func newestFrom(view store.View, p ring.Partition, task id.ID, kind crdt.Kind, most int) (facts []crdt.Fact, err error) {
	var size [256]int // of a kind
	cut := false      // completions were left out
	first := appendFact(nil, p, task, crdt.Key{Kind: kind})
	for end := after(appendTask(nil, tableFacts, p, task)); end != nil; {
		upTo := end
		end = nil
		for key, value := range view.Back(first, upTo) {
			f, err := intactFact(key, value)
			if err != nil {
				return nil, err
			}
			k := f.Key
			many := k.Kind == crdt.KindUpdate || k.Kind == crdt.KindCompleted || k.Kind == crdt.KindFailed
			if n := &size[k.Kind]; many {
				if *n += asideFixed + len(f.Body); *n > most && *n > asideFixed+len(f.Body) {
					cut = cut || k.Kind == crdt.KindCompleted
					end = appendFact(nil, p, task, crdt.Key{Kind: k.Kind}) // the rest of them is passed over
					break
				}
			}
			f.Body = bytes.Clone(f.Body)
			facts = append(facts, f)
		}
	}
	if cut {
		f, err := counting(view, p, task)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(facts, func(o crdt.Fact) bool { return o.Key == f.Key }) {
			facts = append(facts, f)
		}
	}
	slices.SortFunc(facts, func(a, b crdt.Fact) int { return a.Key.Compare(b.Key) })
	return facts, nil
}

// counting gives the completion of a task that counts (see [crdt.Task.Completion]).
func counting(view store.View, p ring.Partition, task id.ID) (f crdt.Fact, err error) {
	at := int64(0)
	first, end := appendFact(nil, p, task, crdt.Key{Kind: crdt.KindCompleted}), appendFact(nil, p, task, crdt.Key{Kind: crdt.KindCancelled})
	for key, value := range view.Scan(first, end) {
		is, err := intactFact(key, value)
		if err != nil {
			return f, err
		}
		c, err := crdt.DecodeCompleted(is.Body)
		if err != nil {
			return f, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
		}
		if f.Body == nil || c.At < at {
			is.Body = bytes.Clone(is.Body)
			f, at = is, c.At
		}
	}
	return f, nil
}

// FactOf gives one fact of a task. Who uses it looks whether it fits its CRC.
func FactOf(view store.View, p ring.Partition, task id.ID, key crdt.Key) (crdt.Fact, bool) {
	value, ok := view.Get(appendFact(nil, p, task, key))
	f, err := crdt.Stored(task, key, bytes.Clone(value))
	if err != nil { // as it is: nobody takes it
		f.CRC = 0
	}
	return f, ok
}

// ReadTask reads a task with its claims, from any view of the store: a reader
// beside the vnode sees a claim as held until the vnode has ended it.
func ReadTask(view store.View, p ring.Partition, task id.ID, o ReadOptions) (*Detail, error) {
	d, err := readLog(view, p, task, o)
	if err != nil {
		return nil, err
	}
	if o.Attempts {
		if d.Attempts, err = attemptsOf(view, p, d.Task); err != nil {
			return nil, err
		}
	}
	held := false
	if !o.NoClaims {
		if d.Claims, err = readClaims(view, tableEnded, p, task, cmp.Or(o.Claims, MaxClaims), nil); err != nil {
			return nil, err
		}
	}
	ended := len(d.Claims)
	if d.Claims, err = readClaims(view, tableActive, p, task, MaxClaims, d.Claims); err != nil {
		return nil, err
	}
	held = len(d.Claims) > ended
	d.State = stateOf(view, d.Task, p, held)
	if !o.NoClaims {
		oldest := uint64(0) // of which the claims are told
		if o.Claims > 0 && ended == o.Claims {
			oldest = d.Claims[0].Token
		}
		d.recall(oldest)
	}
	return d, nil
}

// readLog reads the facts of a task, and of its log what is asked for.
func readLog(view store.View, p ring.Partition, task id.ID, o ReadOptions) (*Detail, error) {
	part := o.NoLog || o.Log > 0 || o.Until > 0
	if !part {
		t, err := loadAll(view, p, task)
		if err != nil {
			return nil, err
		}
		return &Detail{Task: t, Log: t.VisibleUpdates()}, nil
	}
	first := appendFact(nil, p, task, crdt.Key{Kind: crdt.KindEnqueued})
	load := load
	if !o.NoClaims && o.Claims == 0 { // all claims are told
		load = func(view store.View, p ring.Partition, task id.ID, first []byte) (*crdt.Task, error) {
			return build(task, late(view, p, task, first))
		}
	}
	t, err := load(view, p, task, first)
	if err != nil {
		return nil, err
	}
	d, log := &Detail{Task: t}, tail{limit: o.Log, until: o.Until}
	if o.Log > 0 || o.Until > 0 {
		if err := log.read(view, p, task); err != nil {
			return nil, err
		}
	}
	if slices.Reverse(log.log); log.checkpoint != nil {
		d.Checkpoint = log.checkpoint.Data
	}
	d.Log = log.log
	return d, nil
}

// recall brings the claims into their order, and adds those of which there is no record
// here, as far as the task's facts speak of them: of one that was completed they say it all, and of
// others not every member has heard. Older ones than the oldest that was asked for are left out.
func (d *Detail) recall(oldest uint64) {
	outcomes := map[crdt.Kind]claim.Outcome{crdt.KindFailed: claim.Failed, crdt.KindExpired: claim.Expired, crdt.KindCompleted: claim.Completed}
	known := make(map[uint64]int, len(d.Claims))
	for i := range d.Claims {
		known[d.Claims[i].Token] = i
	}
	d.Task.EachEnd(func(a crdt.Attempt) {
		i, ok := known[a.Token]
		switch {
		case a.Token == 0 || a.Token < oldest:
		case !ok:
			known[a.Token] = len(d.Claims)
			d.Claims = append(d.Claims, claim.Record{Token: a.Token, Worker: a.Worker, Principal: a.Principal, Start: a.Start, End: a.End, Outcome: outcomes[a.By]})
		case d.Claims[i].Outcome == claim.Active:
		case a.By != crdt.KindCompleted || a.Counted && d.Task.Outcome() == crdt.StateCompleted:
			// It may have ended otherwise here, and a completion that came late counts.
			d.Claims[i].Outcome = outcomes[a.By]
		}
	})
	// An older claim may be held here that a newer one has outlived elsewhere.
	slices.SortFunc(d.Claims, func(a, b claim.Record) int { return cmp.Compare(a.Token, b.Token) })
}

// MaxClaims is how many claims of a task that have ended are read, the newest: one may
// have been claimed and given back very often.
const MaxClaims = 8192

func readClaims(view store.View, table byte, p ring.Partition, task id.ID, most int, to []claim.Record) ([]claim.Record, error) {
	prefix, had := appendTask(nil, table, p, task), len(to)
	for key, value := range view.Back(prefix, after(prefix)) {
		if len(to) == had+most {
			break
		}
		r, err := claim.DecodeRecord(binary.BigEndian.Uint64(key[len(key)-8:]), value)
		if err != nil {
			return nil, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
		}
		to = append(to, r)
	}
	slices.Reverse(to[had:])
	return to, nil
}

// stateOf gives the state as the indexes of this view have it, so that lists,
// counts and reads agree.
func stateOf(view store.View, t *crdt.Task, p ring.Partition, held bool) crdt.State {
	switch s := t.Outcome(); {
	case s != crdt.StateUnknown:
		return s
	case t.Enqueued == nil:
		return crdt.StateUnknown
	case held:
		return crdt.StateClaimed
	case t.Waiting():
		return crdt.StateWaiting
	case t.NotBefore() == 0 || !scheduled(view, p, t.NotBefore(), t.ID):
		return crdt.StateReady
	}
	return crdt.StateScheduled
}

// NextTask gives the first task of a partition after the given one in ID
// order, orphans included; the zero ID starts at the beginning. It costs one
// seek, however many facts lie between.
func NextTask(view store.View, p ring.Partition, last id.ID) (task id.ID, ok bool) {
	prefix := appendPrefix(nil, tableFacts, p)
	from := prefix
	if last != (id.ID{}) {
		from = after(appendTask(nil, tableFacts, p, last))
	}
	for key := range view.Scan(from, after(prefix)) {
		return id.ID(key[prefixSize:]), true
	}
	return task, false
}

// RankOf is the place of a task in its queue; the task has an enqueue fact.
func RankOf(t *crdt.Task) claim.Rank { return rankOf(t) }

// Ahead counts, up to limit, the ready tasks of a queue in one partition that
// are handed out before rank.
func Ahead(view store.View, p ring.Partition, queue string, rank *claim.Rank, limit int) (n int) {
	prefix := appendQueue(nil, tableReady, p, queue)
	for range view.Scan(prefix, appendReady(nil, p, queue, rank)) {
		if n++; n >= limit {
			break
		}
	}
	return n
}

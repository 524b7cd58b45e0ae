package uniquekeys

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// Holder is the ID that a key has now.
type Holder struct {
	Task  id.ID
	State crdt.State // unknown: the key is free
	First id.ID      // of generation 0: names the record; zero with a window
	Next  uint64     // generation to be remembered once the task is there; 0: none
	Past  []id.ID    // finished tasks that had the key before
	Begun int64      // of a launch, wall ns
}

// Look finds the ID that a task with this key has now.
func (k *Machine) Look(now clock.Time, queue, key string, window int64) Holder {
	cluster := k.Cluster
	if window > 0 {
		h := Holder{Task: id.UniqueKey(cluster, queue, key, convert.WindowStart(k.Standing.Clocks.Wall(now), window), 0)}
		h.State = k.State(h.Task)
		return h
	}
	first := id.UniqueKey(cluster, queue, key, 0, 0)
	generation := vnode.KeyGeneration(k.Round.Tx, ring.Of(first, len(k.View.Cells)), first)
	h := Holder{First: first, Task: k.Nth(first, queue, key, generation)}
	// Mostly one step; more where the record was forgotten and some of the tasks
	// were kept. Each is a read, so there is an end to it.
	for range maxGenerations {
		if h.State = k.State(h.Task); !h.State.Finished() {
			break
		}
		h.Past = append(h.Past, h.Task)
		generation++
		h.Next = generation
		h.Task = k.Nth(first, queue, key, generation)
	}
	return h
}

// Nth is the ID of a key's task of some generation. All of them are in the
// partition of the first one: whoever keeps that knows whether the key is free,
// however many nodes share the others. The last four bytes make it so.
func (k *Machine) Nth(first id.ID, queue, key string, generation uint64) id.ID {
	if generation == 0 {
		return first
	}
	task := id.UniqueKey(k.Cluster, queue, key, 0, generation)
	home, last := ring.Of(first, len(k.View.Cells)), binary.BigEndian.Uint32(task[id.Size-4:])
	for n := uint32(1); ring.Of(task, len(k.View.Cells)) != home; n++ {
		binary.BigEndian.PutUint32(task[id.Size-4:], last+n)
	}
	return task
}

// maxGenerations bounds the tasks of one key that are looked at in one go.
const maxGenerations = 10_000

// Resume makes an older task of a key the one that holds it, because it is to
// Run again. It refuses when another one holds it.
func (k *Machine) Resume(now clock.Time, t *crdt.Task) *proto.Error {
	e := t.Enqueued
	if t.ID.Kind() != id.KindKey || e.KeyWindow > 0 {
		return nil
	}
	if bad := k.heard(now, k.Partitions.Use(ring.Of(t.ID, len(k.View.Cells))).Partition); bad != nil {
		return bad
	}
	h := k.Look(now, e.Queue, e.Key, 0)
	if h.Task != t.ID && h.State != crdt.StateUnknown {
		return refusal.Conflict("unique key %.100q is taken by task %s, which is %s", e.Key, h.Task, h.State)
	}
	p := k.Partitions.Use(ring.Of(h.First, len(k.View.Cells))).Partition
	generation, ok := k.generation(t.ID, e, max(h.Next, vnode.KeyGeneration(k.Round.Tx, p, h.First)))
	if ok {
		k.Bar(now, h.Past, t.ID)
		vnode.SetKey(k.Round.Tx, p, vnode.Key{First: h.First, Generation: generation, Current: t.ID, Changed: now.Wall})
		return nil
	}
	return refusal.Conflict("unique key %.100q has been used too often since; enqueue the task anew", e.Key)
}

// Run is the generation that a retry of a task begins. That of a task with a key is of its
// leader's epoch: see [Machine.Bar].
func (k *Machine) Run(v *vnode.Vnode, t *crdt.Task) uint64 {
	n := t.NextGeneration()
	if t.ID.Kind() == id.KindKey {
		n = max(n, v.Leading()<<32)
	}
	return n
}

// Bar has tasks that had a key stay as they ended, but for one, because the key is given
// away: a leader before this one may have retried one of them, for itself or with too few
// others, and that may become known at any time. It has done so in an epoch before.
func (k *Machine) Bar(now clock.Time, past []id.ID, but id.ID) {
	for _, task := range past {
		v := k.Partitions.Use(ring.Of(task, len(k.View.Cells)))
		if task == but || v.Leading() == 0 {
			continue // who does not lead has nothing to say about that
		}
		_, err := v.Decide(k.Round.Tx, task, now, func(t *crdt.Task) (crdt.Fact, bool) { return t.GivenUpIn(k.Run(v, t)) })
		k.Round.Check(err)
	}
}

// State is unknown when nothing is known of the task.
func (k *Machine) State(task id.ID) crdt.State {
	d, err := vnode.ReadTask(k.Round.Tx, ring.Of(task, len(k.View.Cells)), task, vnode.ReadOptions{NoClaims: true, NoLog: true})
	if !k.Round.Check(err) {
		return crdt.StateUnknown
	}
	return d.State
}

// Resolve gives the ID of a task with a key: the one the client has made, which
// must be one that this key can have, or the present one.
func (k *Machine) Resolve(now clock.Time, t *nornv1.TaskSpec) (Holder, *proto.Error) {
	window := int64(proto.Seconds(t.GetKeyWindowSeconds()))
	if len(t.GetId()) == 0 {
		return k.Look(now, t.GetQueue(), t.GetKey(), window), nil
	}
	task := id.ID(t.GetId())
	h := Holder{Task: task}
	switch {
	case task.Kind() != id.KindKey:
		return h, proto.Invalid("ID %s is not one of unique key %.100q; ask for it (KeyRequest), or send none", task, t.GetKey())
	case vnode.Known(k.Round.Tx, ring.Of(task, len(k.View.Cells)), task):
		return h, k.legitimate(now, t, task) // whatever it is: the specs are compared
	case window > 0:
		return h, k.checkWindow(now, t, task, window)
	}
	if h = k.Look(now, t.GetQueue(), t.GetKey(), 0); h.Task != task {
		return h, proto.Refused(nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW,
			"ID %s is not the one that key %.100q has now (%s): its task was finished long ago, or the ID belongs to another key; ask for it again", task, t.GetKey(), h.Task)
	}
	return h, nil
}

// legitimate refuses to acknowledge a task that is known here once more when it came after
// an older one of its key had been retried, see [Machine.late].
func (k *Machine) legitimate(now clock.Time, t *nornv1.TaskSpec, task id.ID) *proto.Error {
	if t.GetKeyWindowSeconds() > 0 {
		return nil
	}
	d, err := vnode.LoadTask(k.Round.Tx, ring.Of(task, len(k.View.Cells)), task)
	if !k.Round.Check(err) || d.Finished() && !d.RuledOut() {
		return nil
	}
	h := k.Look(now, t.GetQueue(), t.GetKey(), 0)
	if h.Task == task {
		return nil
	}
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW,
		"ID %s is not the one that key %.100q has now (%s): an older task of the key was retried before this one was known; ask for it again", task, t.GetKey(), h.Task)
}

// Sure refuses to give a key without a window to a new task while its leader may not
// have heard yet of a task that has had the same ID, and be it finished: then the new one
// would never run (design 3). It is known once this node has been compared with enough of
// the others, see [retention.Tombstones.CaughtUp].
func (k *Machine) Sure(now clock.Time, h *Holder) *proto.Error {
	p := ring.Of(h.Task, len(k.View.Cells))
	v := k.Partitions.See(p)
	if bad := k.Leaders.StillLeads(p, "unique keys"); bad != nil && !h.First.IsZero() {
		return bad
	}
	if h.First.IsZero() || h.State != crdt.StateUnknown || v.Leading() == 0 {
		return nil
	}
	return k.heard(now, p)
}

// heard refuses to decide who has a key while the leader of its partition may not know all
// that a majority has acknowledged.
func (k *Machine) heard(now clock.Time, p ring.Partition) *proto.Error {
	if vnode.Tree(k.Partitions.See(p)) == nil || k.Leaders.Alone(p) || k.Proofs.CaughtUp(p) || k.Policy.KeyUnheard {
		return nil
	}
	k.Proofs.Demand(now, p)
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE,
		"node %s leads partition %d since a moment ago, and has to hear first from another replica whether the unique key is free; try again", k.Self.Node, p).Keeping("unique keys").Again(50 * time.Millisecond)
}

// checkWindow judges an ID that is not known here by its window.
func (k *Machine) checkWindow(now clock.Time, t *nornv1.TaskSpec, task id.ID, window int64) *proto.Error {
	start, wall := task.Nanos(), k.Standing.Clocks.Wall(now)
	switch {
	case start%window != 0 || id.UniqueKey(k.Cluster, t.GetQueue(), t.GetKey(), start, 0) != task:
		return proto.Invalid("ID %s is not one of key %.100q with a window of %v in this cluster", task, t.GetKey(), proto.Seconds(t.GetKeyWindowSeconds()))
	case start-wall > int64(k.Eta):
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW, "the window of ID %s begins more than eta (%v) from now; set the clock of the client", task, k.Eta)
	case wall-start-window > int64(k.GCGrace), k.Policy.WindowByStart && wall-start > int64(k.GCGrace):
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW, "the window of ID %s ended more than gc-grace (%v) ago: its task may have been finished and forgotten; ask for the ID of the present window (KeyRequest), or send none", task, k.GCGrace)
	}
	return nil
}

// Taken remembers the generation once its task is there, and that it is.
func (k *Machine) Taken(now clock.Time, h *Holder) {
	if h.First.IsZero() {
		return // of a window: the ID says it all
	}
	p := k.Partitions.Use(ring.Of(h.First, len(k.View.Cells))).Partition
	if h.Next > 0 {
		vnode.SetKey(k.Round.Tx, p, vnode.Key{First: h.First, Generation: h.Next, Current: h.Task, Changed: now.Wall})
		return
	}
	k.renew(now, p, h.First, h.Task)
}

// renew notes that the generation on record, if there is a record, has a task.
func (k *Machine) renew(now clock.Time, p ring.Partition, first, task id.ID) {
	if old, ok := vnode.KeyTask(k.Round.Tx, p, first); ok && old != task {
		vnode.SetKey(k.Round.Tx, p, vnode.Key{First: first, Generation: vnode.KeyGeneration(k.Round.Tx, p, first), Current: task, Changed: now.Wall})
	}
}

// learnGenerations bounds the IDs tried to find out which generation a task is.
const learnGenerations = 1 << 17

// isNth tells whether a task is the one of a key of some generation. All but the last
// four bytes of its name say it, without looking for its partition.
func (k *Machine) isNth(task id.ID, queue, key string, generation uint64) bool {
	name := id.UniqueKey(k.Cluster, queue, key, 0, generation)
	return bytes.Equal(name[:id.Size-4], task[:id.Size-4])
}

// generation finds out which generation of its key a task is, by the one that is on record.
// It may be an older one, which is dead, and a younger one where the record was forgotten.
func (k *Machine) generation(task id.ID, e *crdt.Enqueued, record uint64) (generation uint64, found bool) {
	for n := range uint64(learnGenerations + 1) {
		switch {
		case k.isNth(task, e.Queue, e.Key, record+n):
			return record + n, true
		case n <= record && k.isNth(task, e.Queue, e.Key, record-n):
			return record - n, true
		}
	}
	return 0, false
}

// Learn takes over from another replica that a task holds its key: the next one
// who asks, whoever leads then, must not be given an older ID that is forgotten.
func (k *Machine) Learn(now clock.Time, task id.ID, e *crdt.Enqueued) {
	if task.Kind() != id.KindKey || e.Key == "" || e.KeyWindow > 0 {
		return
	}
	first := id.UniqueKey(k.Cluster, e.Queue, e.Key, 0, 0)
	p := k.Partitions.Use(ring.Of(first, len(k.View.Cells))).Partition
	from := vnode.KeyGeneration(k.Round.Tx, p, first)
	switch generation, found := k.generation(task, e, from); {
	case !found:
	case generation == from:
		k.renew(now, p, first, task)
	case generation > from:
		if !k.late(now, first, task) {
			vnode.SetKey(k.Round.Tx, p, vnode.Key{First: first, Generation: generation, Current: task, Changed: now.Wall})
		}
	default: // An older one: it was retried, or a node has begun anew that knew no later one.
		if h := k.Look(now, e.Queue, e.Key, 0); h.State == crdt.StateUnknown && !k.State(task).Finished() {
			vnode.SetKey(k.Round.Tx, p, vnode.Key{First: first, Generation: generation, Current: task, Changed: now.Wall})
		}
	}
}

// late tells whether an older task holds the key of one that has become known: then that
// one has it until it is finished. It may be finished elsewhere, which comes to be known
// later. Where the leader itself has retried the older one in its epoch, the key was given
// away in vain, by a leader before it: no majority knew of that, or this one would have
// heard, and nothing was acknowledged ([replication.Confirmations.awaitConfirmation]). Or it was by a side without a
// leader, whose tasks may lose against others (docs/reference/protocol.md). So the late one stays
// among the dead, and may be retried when the key is free.
func (k *Machine) late(now clock.Time, first, task id.ID) bool {
	v := k.Partitions.Use(ring.Of(first, len(k.View.Cells)))
	holder, ok := vnode.KeyTask(k.Round.Tx, v.Partition, first)
	if !ok {
		holder = first
	}
	t, err := vnode.LoadTask(k.Round.Tx, v.Partition, holder)
	if !k.Round.Check(err) || t.Enqueued == nil || t.Finished() || k.Policy.KeyGivenTwice {
		return false
	}
	if v.Leading() != 0 && t.Generation()>>32 == v.Leading() {
		_, err := v.Decide(k.Round.Tx, task, now, func(late *crdt.Task) (crdt.Fact, bool) {
			return crdt.Dead{
				Generation: k.Run(v, late), At: k.Standing.Clocks.Stamp(now, task),
				Reason: fmt.Sprintf("its unique key was given back to task %s, which was retried, before this one was known", holder),
			}.Fact(task), !late.Finished()
		})
		k.Round.Check(err)
	}
	return true
}

// Answer tells a client which ID a key has.
func (k *Machine) Answer(now clock.Time, m *nornv1.KeyRequest) (gproto.Message, *proto.Error) {
	if err := cmp.Or(proto.CheckQueue(m.GetQueue()), proto.CheckKey(m.GetKey(), m.GetWindowSeconds())); err != nil {
		return nil, err
	}
	if m.GetKey() == "" {
		return nil, proto.Invalid("the key is empty")
	}
	h := k.Look(now, m.GetQueue(), m.GetKey(), int64(proto.Seconds(m.GetWindowSeconds())))
	if bad := k.Leaders.StillLeads(ring.Of(h.Task, len(k.View.Cells)), "unique keys"); bad != nil && !h.First.IsZero() {
		return nil, bad
	}
	return &nornv1.KeyReply{Id: h.Task.Bytes(), State: nornv1.State(h.State)}, nil
}

// Pass moves a unique key without a window on to the next generation, because the
// task of this one was collected. It is remembered for as long as that is: a key
// that begins anew at an ID forgotten long ago, while somebody else still knows a
// later one, would be taken twice.
func (k *Machine) Pass(now clock.Time, task id.ID, e *crdt.Enqueued) {
	if h := k.Look(now, e.Queue, e.Key, 0); h.Next > 0 {
		vnode.SetKey(k.Round.Tx, k.Partitions.Use(ring.Of(h.First, len(k.View.Cells))).Partition, vnode.Key{First: h.First, Generation: h.Next, Current: k.Nth(h.First, e.Queue, e.Key, h.Next-1), Changed: now.Wall})
	}
}

// Buried gives the spec of a task with such a key that another node has collected,
// before its facts go; nil when it is none. The key has to move on here, too: the
// next one who asks for it may ask this node, when the tombstone is forgotten.
func (k *Machine) Buried(p ring.Partition, facts []crdt.Fact) *crdt.Enqueued {
	task := facts[0].Task
	stone := func(f crdt.Fact) bool { return f.Key.Kind == crdt.KindTombstone }
	if task.Kind() != id.KindKey || !slices.ContainsFunc(facts, stone) {
		return nil
	}
	t, err := vnode.LoadTask(k.Round.Tx, p, task)
	if !k.Round.Check(err) || t.Enqueued == nil || t.Enqueued.KeyWindow > 0 {
		return nil
	}
	return t.Enqueued
}

package dump

import (
	"iter"
	"slices"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// PageBytes is about how much is on a page: a page ends with the fact that makes it as much.
const PageBytes = 1 << 20

// firstBytes is what is made room for at first: in an incremental backup most pages are small.
const firstBytes = 64 << 10

// SessionSize is the length of the name of a session in bytes.
const SessionSize = 16

// Session is what pages of a request are read as of; nil where it does not say.
func Session(m *nornv1.BackupRequest) *[SessionSize]byte {
	if len(m.GetSession()) != SessionSize {
		return nil
	}
	s := [SessionSize]byte(m.GetSession())
	return &s
}

// Check refuses a request that makes no sense.
func Check(m *nornv1.BackupRequest, partitions int) *proto.Error {
	if n := len(m.GetSession()); n != 0 && n != SessionSize {
		return proto.Invalid("a session of %d bytes, not %d", n, SessionSize)
	}
	if int(m.GetPartition()) >= partitions {
		return proto.Invalid("there is no partition %d: they are numbered 0 to %d", m.GetPartition(), partitions-1)
	}
	if _, err := backup.DecodePosition(m.GetAfter()); err != nil {
		return proto.Invalid("after: %v; send next of the page before", err)
	}
	for _, b := range [][]byte{m.GetFrom(), m.GetBefore()} {
		if n := len(b); n != 0 && n != id.Size {
			return proto.Invalid("an ID of %d bytes, not %d", n, id.Size)
		}
	}
	if _, err := backup.DecodeBounds(m.GetBounds()); err != nil {
		return proto.Invalid("bounds: %v", err)
	}
	return nil
}

// Read answers a request that was checked. ErrDamaged of package vnode: it cannot be read.
func Read(view store.View, p ring.Partition, m *nornv1.BackupRequest) (*nornv1.BackupReply, error) {
	after, _ := backup.DecodePosition(m.GetAfter()) // it was checked, and so was what follows
	bounds, _ := backup.DecodeBounds(m.GetBounds())
	var from, before id.ID
	copy(from[:], m.GetFrom())
	copy(before[:], m.GetBefore())
	switch {
	case len(bounds) > 0 && m.GetClaims():
		reply, err := held(view, p, after.Task)
		if err == nil {
			reply.Sums, err = sums(view, p, bounds)
		}
		return reply, err
	case len(bounds) > 0:
		all, err := sums(view, p, bounds)
		return &nornv1.BackupReply{Sums: all}, err
	case m.GetDivide() > 0:
		return divided(view, p, uint64(m.GetDivide())), nil
	case m.GetClaims():
		return held(view, p, after.Task)
	case after.IsZero():
		after.Task = from
	}
	return page(view, p, after, before)
}

// sums sums up runs of IDs: by the tree where one is kept that counts every fact, and else, and where
// some of that cannot be read, by the facts.
func sums(view store.View, p ring.Partition, bounds []id.ID) ([]byte, error) {
	var all []antientropy.Node
	tree := vnode.Counted(view, p)
	if tree != nil {
		all = tree.Ranges(view, bounds, func(span antientropy.Span) iter.Seq[crdt.Fact] {
			return vnode.FactsAfter(p, view, antientropy.Position{Task: span.From}, span.To)
		})
	}
	if tree == nil || tree.Damaged() > 0 {
		all = make([]antientropy.Node, len(bounds))
		for f, err := range vnode.EachFact(view, p, antientropy.Position{}, id.ID{}) {
			if err != nil {
				return nil, err
			}
			n := &all[antientropy.RunOf(bounds, f.Task)]
			n.Sum, n.Count = n.Sum.Add(crdt.HashFact(f)), n.Count+1
		}
	}
	out := make([]byte, 0, len(all)*backup.SumSize)
	for i := range all {
		out = backup.AppendSum(out, all[i].Sum, all[i].Count)
	}
	return out, nil
}

// divided gives where runs of about so many facts begin; without a tree all of them are one.
func divided(view store.View, p ring.Partition, most uint64) *nornv1.BackupReply {
	all := []id.ID{{}}
	if tree := vnode.Counted(view, p); tree != nil {
		all = tree.Divide(view, most, backup.MaxRanges)
	}
	m := &nornv1.BackupReply{Bounds: make([]byte, 0, len(all)*id.Size)}
	for _, one := range all {
		m.Bounds = append(m.Bounds, one[:]...)
	}
	return m
}

// held is a page of the claims that are held, of tasks behind one.
func held(view store.View, p ring.Partition, after id.ID) (*nornv1.BackupReply, error) {
	all, err := vnode.Active(view, p)
	if err != nil {
		return nil, err
	}
	var page backup.Page
	size := 0
	for i := range all {
		h := &all[i]
		if h.Task.Compare(after) <= 0 {
			continue
		}
		n := len(page.Tasks)
		if n == 0 || page.Tasks[n-1].ID != h.Task {
			if size >= PageBytes {
				page.Next = backup.Position{Task: page.Tasks[n-1].ID, Key: crdt.Key{Kind: crdt.KindEnqueued}}
				break
			}
			page.Tasks = append(page.Tasks, backup.Task{ID: h.Task})
			n++
		}
		t := &page.Tasks[n-1]
		t.Claims = append(t.Claims, claimOf(h))
		size += t.Size()
	}
	return Reply(&page), nil
}

func claimOf(h *vnode.Held) backup.Claim {
	return backup.Claim{Token: h.Record.Token, End: h.Record.End, Worker: h.Record.Worker}
}

// page reads what is behind a position, of tasks before one.
func page(view store.View, p ring.Partition, from backup.Position, before id.ID) (*nornv1.BackupReply, error) {
	m := &nornv1.BackupReply{}
	out, held := backup.Gatherer{Bytes: make([]byte, 0, firstBytes)}, claims{view: view, partition: p}
	end := func() error {
		task, open := out.Open()
		if !open {
			return nil
		}
		some, err := held.of(task)
		if err == nil {
			out.End(some)
		}
		return err
	}
	for f, err := range vnode.EachFact(view, p, antientropy.Position(from), before) {
		if err != nil {
			return nil, err
		}
		task, open := out.Open()
		if open && len(out.Bytes) >= PageBytes {
			m.Next = backup.Position{Task: task, Key: out.Last}.Encode()
			break
		}
		if open && task != f.Task {
			if err := end(); err != nil {
				return nil, err
			}
		}
		if room := cap(out.Bytes); len(out.Bytes) > room/2 && room < PageBytes {
			out.Bytes = append(make([]byte, 0, min(4*room, PageBytes+PageBytes/16)), out.Bytes...)
		}
		out.Add(&f)
	}
	err := end()
	m.Tasks = out.Bytes
	return m, err
}

// claims gives the claims of tasks, which ascend, that have not ended.
type claims struct {
	view      store.View
	partition ring.Partition
	read      bool
	held      []vnode.Held // of the task that was asked for last, and behind
}

// of gives those of one task.
func (c *claims) of(task id.ID) (all []backup.Claim, err error) {
	if !c.read {
		if c.held, err = vnode.Active(c.view, c.partition); err != nil {
			return nil, err
		}
		c.read = true
		n, _ := slices.BinarySearchFunc(c.held, task, func(h vnode.Held, task id.ID) int { return h.Task.Compare(task) })
		c.held = c.held[n:]
	}
	for len(c.held) > 0 && c.held[0].Task.Compare(task) < 0 {
		c.held = c.held[1:]
	}
	for len(c.held) > 0 && c.held[0].Task == task {
		all, c.held = append(all, claimOf(&c.held[0])), c.held[1:]
	}
	return all, nil
}

// Reply is a page as it travels.
func Reply(page *backup.Page) *nornv1.BackupReply {
	size := 0
	for i := range page.Tasks {
		size += page.Tasks[i].Size()
	}
	m := &nornv1.BackupReply{Tasks: make([]byte, 0, size), Next: page.Next.Encode()}
	for i := range page.Tasks {
		m.Tasks = backup.AppendTask(m.Tasks, &page.Tasks[i])
	}
	return m
}

// Pages gathers the answers of replicas.
type Pages struct {
	// Epoch is that of the cell whose cohort is asked, Cohort the members it has, Need how
	// many of them have to answer.
	Epoch        uint64
	Cohort, Need int

	first *nornv1.BackupReply // not read as long as it is the only one: then it is the answer
	pages []backup.Page
	nodes []string // who has answered
	sums  []byte   // over those that have answered
	err   *proto.Error
}

// Take takes the answer of one.
func (j *Pages) Take(m *nornv1.BackupReply) {
	if len(j.nodes) == 0 && j.first == nil {
		j.first, j.sums = m, m.GetSums()
		if j.nodes = append(j.nodes, m.GetNodes()...); j.Need > 1 {
			j.decode(m)
		}
		return
	}
	if !backup.SameSums(j.sums, m.GetSums()) {
		j.Fail(proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "replicas have summed up other runs"))
		return
	}
	if len(j.pages) == 0 {
		j.decode(j.first)
	}
	j.nodes = append(j.nodes, m.GetNodes()...)
	j.decode(m)
}

// decode reads a page, which is to be joined with others.
func (j *Pages) decode(m *nornv1.BackupReply) {
	page, err := backup.DecodePage(m.GetTasks(), m.GetNext())
	if err != nil {
		j.Fail(proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "a replica's page: %v", err))
		return
	}
	j.pages = append(j.pages, page)
}

// Fail notes that one has not answered, and why.
func (j *Pages) Fail(err *proto.Error) { j.err = err }

// Answer is the union of what those hold that have answered.
func (j *Pages) Answer() (*nornv1.BackupReply, *proto.Error) {
	if j.Need == 1 && j.first != nil && len(j.pages) == 0 {
		m := j.first
		m.Epoch, m.Cohort, m.Replicas = j.Epoch, uint32(j.Cohort), 1
		return m, nil
	}
	if len(j.pages) < j.Need || len(j.pages) == 0 {
		why := "too few of them are in reach"
		if j.err != nil {
			why = j.err.Message
		}
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "%d of %d replicas have answered, and it takes %d: %s", len(j.pages), j.Cohort, j.Need, why)
	}
	page := backup.Union(j.pages)
	m := Reply(&page)
	m.Sums, m.Nodes = j.sums, j.nodes
	m.Epoch, m.Cohort, m.Replicas = j.Epoch, uint32(j.Cohort), uint32(len(j.pages))
	return m, nil
}

// Bulk is how many bytes of facts of one partition make a table of the store by themselves, in a row as they
// are where nothing was.
const Bulk = 512 << 10

// MaxRestore bounds the tasks in one request to restore, bytes, but for one that is larger
// by itself: then it is a fact of it.
const MaxRestore = 8 << 20

// Restored reads the tasks of a request to restore, and refuses those that belong to another partition. Whoever
// merges their facts looks what these are.
func Restored(m *nornv1.RestoreRequest, partitions int) (tasks []backup.Task, bad *proto.Error) {
	if int(m.GetPartition()) >= partitions {
		return nil, proto.Invalid("there is no partition %d: they are numbered 0 to %d", m.GetPartition(), partitions-1)
	}
	for t, err := range backup.Tasks(m.GetTasks()) {
		switch {
		case err != nil:
			return nil, proto.Invalid("%v", err)
		case ring.Of(t.ID, partitions) != ring.Partition(m.GetPartition()):
			return nil, proto.Invalid("task %s is in partition %d, not %d", t.ID, ring.Of(t.ID, partitions), m.GetPartition())
		case len(t.Claims) > 0 || len(t.Facts) == 0:
			return nil, proto.Invalid("task %s has %d facts and %d claims: facts are restored, claims are not", t.ID, len(t.Facts), len(t.Claims))
		}
		tasks = append(tasks, t)
	}
	if len(tasks) == 0 || len(m.GetTasks()) > MaxRestore && len(tasks) > 1 {
		return nil, proto.Invalid("%d tasks of %d bytes; a request has at least one task, and at most %d bytes", len(tasks), len(m.GetTasks()), MaxRestore)
	}
	return tasks, nil
}

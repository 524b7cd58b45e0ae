package peer

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"
)

// What each message has, by the numbers of proto/norn/v1/peer.proto.

// facts is the format of a write, or of facts that repair brings.
func facts(c *coder, m *message.Facts) {
	whole(c, 1, &m.Write, anything)
	repeated(c, 2, &m.Parts, ring.MaxPartitions, partFacts)
	c.flag(3, &m.Aside)
}

func partFacts(c *coder, p *message.PartFacts) {
	c.partition(1, &p.Partition)
	c.facts(2, 3, &p.Facts)
	whole(c, 4, &p.Epoch, anything)
}

// factsTaken is the answer: which partitions were refused, and what other cohorts have to have
// it.
func factsTaken(c *coder, m *message.FactsTaken) {
	whole(c, 1, &m.Write, anything)
	c.partitions(2, &m.Refused)
	repeated(c, 3, &m.Fences, ring.MaxPartitions, fence)
	whole(c, 4, &m.Mark, anything)
}

func fence(c *coder, f *message.Fence) {
	c.partition(1, &f.Partition)
	repeated(c, 2, &f.Cohorts, message.MaxFence, cohort)
}

func cohort(c *coder, all *[]register.Member) { repeated(c, 1, all, register.MaxCohort, memberFields) }

func memberFields(c *coder, m *register.Member) {
	c.text(1, &m.Node)
	c.exact(2, m.Incarnation[:])
}

// cohort is one, unless it has no members.
func (c *coder) cohort(n protowire.Number, all *[]register.Member) {
	if c.phase == reading || len(*all) > 0 {
		nested(c, n, all, cohort)
	}
}

// repair carries a message of package antientropy. Field 3 is beside it, because older builds
// skip what they do not know and go on.
func repair(c *coder, m *message.Repair) {
	if c.phase == sizing && m.Message == nil {
		c.fail(fmt.Errorf("%w: a repair that says nothing", ErrUnknown))
		return
	}
	c.partition(1, &m.Partition)
	c.blob(2, m.Message != nil, func() int { return m.Message.Size() }, func(dst []byte) []byte { return m.Message.AppendTo(dst) }, func(b []byte) error {
		c.raw = b
		return nil
	})
	switch {
	case c.comes(3):
		c.count = c.in.value
	case c.phase != reading && m.Message.Told:
		c.varint(3, m.Message.Refused)
	case c.ends() && len(c.raw) > antientropy.MaxMessage:
		c.fail(malformed("anti-entropy of %d bytes", len(c.raw)))
	case c.ends():
		var err error
		if m.Message, err = antientropy.Decode(c.raw); err != nil {
			c.fail(malformed("%w", err))
		} else if m.Message.Kind == antientropy.KindAnswer {
			m.Message.Refused, m.Message.Told = c.count, c.came&(1<<3) != 0
		}
	}
}

func fetch(c *coder, m *message.Fetch) {
	whole(c, 1, &m.Number, anything)
	c.exact(2, m.Task[:])
	whole(c, 3, &m.Epoch, anything)
}

func fetched(c *coder, m *message.Fetched) {
	whole(c, 1, &m.Number, anything)
	c.facts(2, 3, &m.Facts)
	f := message.Fence{Cohorts: m.Cohorts}
	if c.comes(4) || c.phase != reading && len(m.Cohorts) > 0 {
		nested(c, 4, &f, fence)
		m.Cohorts = f.Cohorts
	}
}

// forward carries a request for another node. With a scope its method is in field 8 instead of
// 2, so that a build that knows no scopes finds no method, and refuses.
func forward(c *coder, m *message.Forward) {
	whole(c, 1, &m.Number, anything)
	if c.phase == reading || m.Scope == nil {
		whole(c, 2, &m.Method, math.MaxUint16)
	}
	whole(c, 3, &m.Wait, math.MaxInt64)
	c.partitions(4, &m.Partitions)
	c.flag(6, &m.Choosy)
	if c.comes(7) || c.phase != reading && m.Scope != nil {
		if m.Scope == nil {
			m.Scope = &guard.Scope{}
		}
		nested(c, 7, m.Scope, scope)
	}
	if c.phase == reading || m.Scope != nil {
		whole(c, 8, &m.Method, math.MaxUint16) // in the place of 2: a build that knows no scopes refuses it
	}
	c.text(9, &m.By)
	of := methodOf(c, m.Method)
	if of != nil && c.phase == sizing && !of.Asks(m.Body) {
		c.fail(fmt.Errorf("%w: a request %T of method %d", ErrUnknown, m.Body, m.Method))
	}
	if of != nil && c.ends() {
		m.Body = of.Request()
	}
	c.body(5, m.Body)
}

func scope(c *coder, s *guard.Scope) {
	c.text(1, &s.Name)
	c.text(2, &s.Prefix)
	repeated(c, 3, &s.Rules, maxScopeRules, scopeRule)
}

func scopeRule(c *coder, r *guard.Rule) {
	whole(c, 1, &r.Verbs, uint64(guard.All))
	c.text(2, &r.Pattern)
}

// maxScopeRules bounds the rules of a scope: those of all roles of a principal.
const maxScopeRules = guard.MaxRules * guard.MaxRoles

// forwarded carries the answer to it: a message, or an error.
func forwarded(c *coder, m *message.Forwarded) {
	whole(c, 1, &m.Number, anything)
	whole(c, 2, &m.Method, math.MaxUint16)
	repeated(c, 5, &m.Grants, manyElements, grant)
	c.flag(6, &m.Declined)
	if c.comes(4) {
		var e nornv1.Error
		c.fail(unmarshal(c.in.bytes, &e))
		m.Err = proto.FromProto(&e)
	}
	switch {
	case m.Err != nil && c.phase != reading:
		c.body(4, m.Err.Proto())
		return
	case m.Err != nil:
		return
	}
	of := methodOf(c, m.Method)
	if of != nil && c.phase == sizing && !of.Answers(m.Message) {
		c.fail(fmt.Errorf("%w: a reply %T of method %d", ErrUnknown, m.Message, m.Method))
	}
	if of != nil && c.ends() {
		m.Message = of.Reply()
	}
	c.body(3, m.Message)
}

// methodOf is the method of a forwarded message, once its number is known.
func methodOf(c *coder, method uint16) *message.Method {
	of := message.MethodOf(nornv1.Method(method))
	if of != nil && of.Forwarded {
		return of
	}
	if c.phase == sizing || c.ends() {
		c.fail(fmt.Errorf("%w: a forwarded message of method %d", ErrUnknown, method))
	}
	return nil
}

// body is a message of the client port. It is read into m once all fields have come.
func (c *coder) body(n protowire.Number, m gproto.Message) {
	switch {
	case c.comes(n):
		c.raw = c.in.bytes
	case c.err != nil:
	case c.ends():
		c.fail(unmarshal(c.raw, m))
	case c.phase == sizing:
		c.head(n, gproto.Size(m))
	case c.phase == writing:
		size := c.sizes[c.next]
		c.head(n, size)
		at := len(c.out)
		var err error
		if c.out, err = (gproto.MarshalOptions{}).MarshalAppend(c.out, m); err == nil && len(c.out)-at != size {
			err = malformed("a %s changed while it waited", m.ProtoReflect().Descriptor().Name())
		}
		c.fail(err)
	}
}

// maxElements bounds the elements of lists in a forwarded message, so that few bytes do not
// become many: no request may have more than a batch of tasks with some fields each, no answer
// more than a page or the counters of all queues (config.MostQueues).
const maxElements = 16 * proto.MaxBatchTasks

// unmarshal reads a message of the client port. Clients' requests are weighed before they are
// decoded; what a member forwards was, so it is bounded by its bytes and the elements of its
// lists here.
func unmarshal(b []byte, m gproto.Message) error {
	if len(b) > proto.MaxFrame {
		return malformed("a forwarded message of %d bytes, over %d", len(b), proto.MaxFrame)
	}
	elements := 0
	err := fields(b, func(field) error {
		if elements++; elements > maxElements {
			return malformed("over %d elements", maxElements)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err = gproto.Unmarshal(b, m); err != nil {
		return malformed("%w", err)
	}
	return nil
}

func withdraw(c *coder, m *message.Withdraw) { whole(c, 1, &m.Number, anything) }

func dropped(c *coder, m *message.Dropped) { repeated(c, 1, &m.Grants, manyElements, grant) }

func grant(c *coder, g *message.GrantRef) {
	c.partition(1, &g.Partition)
	c.exact(2, g.Task[:])
	whole(c, 3, &g.Token, anything)
	c.exact(4, g.Ask.Session[:])
	whole(c, 5, &g.Ask.Request, anything)
	whole(c, 6, &g.Answer, anything)
}

func queueHeads(c *coder, m *message.QueueHeads) {
	repeated(c, 1, &m.Heads, register.MaxNamed, queueHead)
}

// rankSize is the length of a place in a queue, bytes.
const rankSize = len(message.QueueHead{}.Rank)

// queueHead is what a node tells of a queue; its rank is bytes in the order of the queue.
func queueHead(c *coder, h *message.QueueHead) {
	c.text(1, &h.Queue)
	c.blob(2, h.Ready, func() int { return rankSize }, func(dst []byte) []byte { return append(dst, h.Rank[:]...) }, func(b []byte) error {
		if h.Ready = len(b) > 0; !h.Ready {
			return nil
		}
		return fill(h.Rank[:], b)
	})
	m := &h.Marks
	c.blob(3, m.N > 0, func() int { return m.N * rankSize }, func(dst []byte) []byte {
		for i := range m.N {
			dst = append(dst, m.Ranks[i][:]...)
		}
		return dst
	}, func(b []byte) error {
		if len(b)%rankSize != 0 || len(b) > len(m.Ranks)*rankSize {
			return malformed("marks of %d bytes", len(b))
		}
		m.N = len(b) / rankSize
		for i := range m.N {
			copy(m.Ranks[i][:], b[i*rankSize:])
		}
		return nil
	})
	c.flag(4, &h.Full)
	whole(c, 6, &h.Marks.Seen, math.MaxInt32)
	whole(c, 7, &h.Few, math.MaxInt32)
	c.flag(8, &h.Asks)
}

func watch(c *coder, m *message.Watch) {
	c.tasks(1, &m.Tasks)
	c.tasks(2, &m.Keep)
	whole(c, 3, &m.Number, anything)
}

// tasks are IDs, one after the other.
func (c *coder) tasks(n protowire.Number, all *[]id.ID) {
	records(c, n, all, id.Size, func(dst []byte, task *id.ID) []byte { return append(dst, task[:]...) }, func(task *id.ID, b []byte) { copy(task[:], b) })
}

func outcomes(c *coder, m *message.Outcomes) {
	records(c, 1, &m.Outcomes, id.Size+1, func(dst []byte, o *message.Outcome) []byte {
		return append(append(dst, o.Task[:]...), byte(o.State))
	}, func(o *message.Outcome, b []byte) {
		copy(o.Task[:], b)
		o.State = crdt.State(b[id.Size])
	})
	whole(c, 2, &m.Number, anything)
}

func repairCompleted(c *coder, m *message.RepairCompleted) {
	c.partition(1, &m.Partition)
	whole(c, 2, &m.Session, anything)
	whole(c, 3, &m.Age, math.MaxInt64)
}

// rootBytes is what one root takes: partition and sum.
const rootBytes = 2 + 16

func roots(c *coder, m *message.Roots) {
	whole(c, 1, &m.Session, anything)
	whole(c, 2, &m.Hash, math.MaxUint8)
	records(c, 3, &m.Roots, rootBytes, func(dst []byte, r *message.Root) []byte {
		dst = binary.BigEndian.AppendUint16(dst, uint16(r.Partition))
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, r.Sum[0]), r.Sum[1])
	}, func(r *message.Root, b []byte) {
		r.Partition = ring.Partition(binary.BigEndian.Uint16(b))
		r.Sum = crdt.Sum{binary.BigEndian.Uint64(b[2:]), binary.BigEndian.Uint64(b[10:])}
	})
	if c.ends() && len(m.Roots) > ring.MaxPartitions {
		c.fail(malformed("%d roots", len(m.Roots)))
	}
}

func sameRoots(c *coder, m *message.SameRoots) {
	whole(c, 1, &m.Session, anything)
	c.partitions(2, &m.Partitions)
}

func rootsCompleted(c *coder, m *message.RootsCompleted) {
	whole(c, 1, &m.Session, anything)
	whole(c, 2, &m.Age, math.MaxInt64)
	c.partitions(3, &m.Partitions)
}

func purge(c *coder, m *message.Purge) {
	c.partition(1, &m.Partition)
	whole(c, 2, &m.Epoch, anything)
	c.tasks(3, &m.Tasks)
}

func quarantineFacts(c *coder, m *message.QuarantineFacts) { purge(c, (*message.Purge)(m)) }

func ballots(c *coder, m *message.Ballots) { repeated(c, 1, &m.Ballots, ring.MaxPartitions, ballot) }

func ballot(c *coder, b *message.Ballot) {
	c.partition(1, &b.Partition)
	whole(c, 2, &b.Epoch, anything)
	c.fixed64(3, &b.Nonce)
	whole(c, 4, &b.Old, anything)
	c.cohort(5, &b.From)
	c.cohort(6, &b.To)
	c.flag(7, &b.Pre)
	c.flag(8, &b.Transfer)
}

func votes(c *coder, m *message.Votes) {
	repeated(c, 1, &m.Votes, ring.MaxPartitions, castVote)
	whole(c, 2, &m.Mark, anything)
}

// castVote is a vote with the claims that its member knows, in a format of package vnode.
func castVote(c *coder, v *message.CastVote) {
	vote(c, &v.Vote)
	c.data(7, &v.Claims)
}

func vote(c *coder, v *message.Vote) {
	c.partition(1, &v.Partition)
	whole(c, 2, &v.Epoch, anything)
	c.fixed64(3, &v.Nonce)
	c.flag(4, &v.Pre)
	c.flag(5, &v.Granted)
	whole(c, 6, &v.Promise, anything)
}

func pushes(c *coder, m *message.Pushes) { repeated(c, 1, &m.Pushes, ring.MaxPartitions, pushed) }

func pushed(c *coder, p *message.Pushed) {
	c.partition(1, &p.Partition)
	whole(c, 2, &p.Epoch, anything)
	c.fixed64(3, &p.Nonce)
	c.data(4, &p.Claims)
}

func pushesTaken(c *coder, m *message.PushesTaken) {
	repeated(c, 1, &m.Votes, ring.MaxPartitions, vote)
	whole(c, 2, &m.Mark, anything)
}

func elect(c *coder, m *message.Elect) { repeated(c, 1, &m.Stand, ring.MaxPartitions, stand) }

func stand(c *coder, s *message.Stand) {
	c.partition(1, &s.Partition)
	whole(c, 2, &s.Epoch, anything)
	c.fixed64(3, &s.Nonce)
	c.cohort(4, &s.To)
	whole(c, 5, &s.Floor, anything)
}

func claims(c *coder, m *message.Claims) {
	whole(c, 1, &m.Round, anything)
	partClaims(c, &m.Parts)
}

func askOrphans(c *coder, m *message.AskOrphans)     { partClaims(c, &m.Parts) }
func notHeld(c *coder, m *message.NotHeld)           { partClaims(c, &m.Parts) }
func reclaimLease(c *coder, m *message.ReclaimLease) { partClaims(c, &m.Parts) }

// partClaims is the claims of some partitions.
func partClaims(c *coder, all *[]message.PartClaims) {
	repeated(c, 2, all, ring.MaxPartitions, func(c *coder, p *message.PartClaims) {
		c.partition(1, &p.Partition)
		whole(c, 2, &p.Epoch, anything)
		c.data(3, &p.Claims)
	})
}

func claimsTaken(c *coder, m *message.ClaimsTaken) {
	whole(c, 1, &m.Round, anything)
	repeated(c, 2, &m.Parts, ring.MaxPartitions, partTaken)
	repeated(c, 3, &m.Facts, manyElements, partFacts)
	whole(c, 4, &m.Mark, anything)
}

func partTaken(c *coder, t *message.PartTaken) {
	c.partition(1, &t.Partition)
	c.flag(2, &t.No)
	whole(c, 3, &t.Promise, anything)
	repeated(c, 4, &t.Refused, manyElements, func(c *coder, r *message.Refusal) {
		whole(c, 1, &r.Index, math.MaxUint32)
		whole(c, 2, &r.Verdict, uint64(message.MaxVerdict))
		c.data(3, &r.Claim)
		whole(c, 4, &r.Left, anything)
	})
}

func abandonClaims(c *coder, m *message.AbandonClaims) {
	repeated(c, 1, &m.Asks, manyElements, func(c *coder, a *message.AskKey) {
		c.exact(1, a.Session[:])
		whole(c, 2, &a.Request, anything)
	})
}

func beatFields(c *coder, m *message.Beat) {
	whole(c, 1, &m.Sent.Wall, anything)
	whole(c, 2, &m.Sent.Mono, anything)
	c.flag(3, &m.Prompt)
}

func beaten(c *coder, m *message.Beaten) {
	whole(c, 1, &m.Sent.Wall, anything)
	whole(c, 2, &m.Sent.Mono, anything)
	c.fixed64(3, &m.Boot)
	whole(c, 4, &m.Received, anything)
	whole(c, 5, &m.Answered, anything)
	whole(c, 6, &m.Seen, anything)
	c.flag(7, &m.Whole)
	c.flag(8, &m.Sound)
}

func durabilityEpoch(c *coder, m *message.DurabilityEpoch) { whole(c, 1, &m.Mark, anything) }

func work(c *coder, m *message.Work) {
	repeated(c, 1, &m.Items, manyElements, func(c *coder, x *message.WorkItem) {
		whole(c, 1, &x.Kind, math.MaxUint8)
		c.exact(2, x.Instance[:])
		repeated(c, 3, &x.Claims, manyElements, workClaim)
		whole(c, 4, &x.Association, anything)
	})
}

func workClaim(c *coder, w *message.WorkClaim) {
	c.exact(1, w.Task[:])
	whole(c, 2, &w.Token, anything)
	whole(c, 3, &w.Lease, math.MaxInt64)
	whole(c, 4, &w.Cause, math.MaxUint8)
}

// cells is a question about cells, or what is known of them.
func cells(c *coder, m *message.Cells) {
	c.flag(1, &m.Ask)
	repeated(c, 2, &m.Cells, ring.MaxPartitions, func(c *coder, k *message.KnownCell) {
		c.partition(1, &k.Partition)
		whole(c, 2, &k.Cell.Epoch, anything)
		c.cohort(3, &k.Cell.Cohort)
		if c.phase == reading || k.Cell.Leader != (register.Member{}) {
			nested(c, 4, &k.Cell.Leader, memberFields)
		}
		whole(c, 5, &k.Cell.Nonce, anything)
	})
}

// factBytes is the least that a fact takes: ID, kind, two numbers, length, CRC.
const factBytes = id.Size + 4 + 4

// facts are their number and, in the field after it, the facts one after the other.
func (c *coder) facts(count, n protowire.Number, all *[]crdt.Fact) {
	if c.comes(count) {
		c.count = c.in.value
	} else if len(*all) > 0 {
		c.varint(count, uint64(len(*all)))
	}
	c.blob(n, len(*all) > 0, func() int { return sizeFacts(*all) }, func(dst []byte) []byte { return appendFacts(dst, *all) }, func(b []byte) error {
		c.raw = b
		return nil
	})
	if c.ends() {
		var err error
		*all, err = decodeList(c.count, c.raw)
		c.fail(err)
	}
}

// sizeFacts is how many bytes facts take.
func sizeFacts(facts []crdt.Fact) (n int) {
	for i := range facts {
		f := &facts[i]
		n += id.Size + 1 + 4 + protowire.SizeVarint(f.Key.A) + protowire.SizeVarint(f.Key.B) + protowire.SizeBytes(len(f.Body))
	}
	return n
}

// appendFacts appends each fact as ID, kind, two varints, body with its length, and its CRC32C,
// which was made where the fact was made and is never made anew on the way.
func appendFacts(dst []byte, facts []crdt.Fact) []byte {
	for i := range facts {
		f := &facts[i]
		dst = append(append(dst, f.Task[:]...), byte(f.Key.Kind))
		dst = protowire.AppendVarint(protowire.AppendVarint(dst, f.Key.A), f.Key.B)
		dst = binary.BigEndian.AppendUint32(protowire.AppendBytes(dst, f.Body), f.CRC)
	}
	return dst
}

// decodeList reads so many facts. Nothing is made for more facts than there are bytes for.
func decodeList(count uint64, b []byte) (facts []crdt.Fact, err error) {
	if count > uint64(len(b)/factBytes) {
		return nil, malformed("%d facts in %d bytes", count, len(b))
	}
	facts = make([]crdt.Fact, count)
	for i := range facts {
		if b, err = decodeFact(&facts[i], b); err != nil {
			return nil, err
		}
	}
	if len(b) > 0 {
		return nil, malformed("%d bytes after the last fact", len(b))
	}
	return facts, nil
}

// decodeFact reads one fact and gives the bytes after it.
func decodeFact(f *crdt.Fact, b []byte) ([]byte, error) {
	if len(b) < factBytes {
		return nil, malformed("a fact cut short")
	}
	f.Task = id.ID(b[:id.Size])
	f.Key.Kind = crdt.Kind(b[id.Size])
	b = b[id.Size+1:]
	var size uint64
	for _, v := range []*uint64{&f.Key.A, &f.Key.B, &size} {
		n := 0
		if *v, n = binary.Uvarint(b); n <= 0 {
			return nil, malformed("a number of a fact")
		}
		b = b[n:]
	}
	if size > crdt.MaxBody || size+4 > uint64(len(b)) {
		return nil, malformed("a body of %d bytes", size)
	}
	f.Body = b[:size:size]
	f.CRC = binary.BigEndian.Uint32(b[size:])
	return b[size+4:], nil
}

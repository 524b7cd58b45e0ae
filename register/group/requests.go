package group

import (
	"encoding/binary"
	"maps"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/norn-dev/norn/register"
)

// maxWaiting is how many requests of one node may wait, reads and changes
// alike.
const maxWaiting = 4 * window

// maxBatches is how many batches of reads may wait for a majority at a time;
// what is asked meanwhile joins the next one.
const maxBatches = 4

// proposal is a change of ours that is not decided yet, as far as we know.
type proposal struct {
	request register.Request
	own     bool // asked by the machine itself: nobody waits for the result
	data    []byte
	retryAt int64
	pause   int64 // before that, ns: twice as long each time
	endAt   int64
	early   bool // this member leads, and may not propose it yet
}

// reading is a batch of reads that one question to a majority answers.
type reading struct {
	tags    []uint64
	ends    []int64
	index   uint64 // what must be applied before the answer; 0: not known yet
	known   bool
	number  uint64 // of the last question
	first   uint64 // number of the first question
	retryAt int64
}

// requests are what this node waits for. The session and a running number name
// a question in the whole group and for ever: an answer to an older one can
// never be taken for an answer to a newer.
type requests struct {
	m       *Machine
	session uint64
	next    uint64               // number of the next proposal
	open    map[uint64]*proposal // by number
	queue   []*proposal          // beyond the window
	number  uint64               // of the next question
	fresh   *reading             // collects reads, not asked yet
	asked   []*reading           // oldest first
	reads   int
	early   []*pb.Message // of others: what came before this leader may answer, or take it
	waits   bool          // something of this member did
}

// maxEarly bounds the messages of others that a new leader keeps: one or two of
// each member.
const maxEarly = 64

func (q *requests) init(m *Machine, session uint64) {
	q.m, q.session, q.next, q.number = m, session, 1, 1
	q.open = map[uint64]*proposal{}
}

// ask takes a request of this node.
func (q *requests) ask(r register.Request) {
	m := q.m
	if len(q.open)+len(q.queue)+q.reads >= maxWaiting {
		m.out.Results = append(m.out.Results, register.Result{Tag: r.Tag, Err: ErrBusy})
		return
	}
	end := m.now + int64(m.cfg.Timeout)
	if r.Reads() {
		if q.fresh == nil {
			q.fresh = &reading{}
		}
		q.fresh.tags, q.fresh.ends = append(q.fresh.tags, r.Tag), append(q.fresh.ends, end)
		q.reads++
		return
	}
	q.change(&proposal{request: r, endAt: end})
}

func (q *requests) change(p *proposal) {
	floor := q.floor()
	if q.next-floor >= window {
		q.queue = append(q.queue, p)
		return
	}
	c := command{session: q.session, seq: q.next, floor: floor, request: p.request}
	if p.data = c.encode(); len(p.data) > maxCommand {
		q.answer(p, register.Result{Tag: p.request.Tag, Err: ErrTooLarge})
		return
	}
	q.open[q.next] = p
	q.next++
	q.propose(p)
}

// floor is the oldest proposal that is not settled. No proposal is made that is
// a window ahead of it: the replicas remember what came of so many and no more.
func (q *requests) floor() uint64 {
	floor := q.next
	for seq := range q.open { // Any order: the least is looked for.
		floor = min(floor, seq)
	}
	return floor
}

// propose sends a proposal on its way, again if need be: whoever decides it
// knows its number.
func (q *requests) propose(p *proposal) {
	m := q.m
	// Each time is one more entry for all of them to write: where that takes longer
	// than the pause, nothing else would come of it.
	p.pause = max(2*p.pause, int64(m.cfg.Retry))
	p.retryAt = m.now + p.pause
	msg := &pb.Message{Type: pb.MsgProp.Enum(), From: new(m.id), Entries: []*pb.Entry{{Data: p.data}}}
	v := m.screen.propose(m, msg)
	if p.early = v == early; v != accepted {
		p.retryAt, p.pause = m.now+int64(m.cfg.Heartbeat), 0
	}
	q.waits = q.waits || p.early
}

// deaf has the time not count in which no answer could be heard.
func (q *requests) deaf(d int64) {
	for _, p := range q.open { // Any order: each by itself.
		p.retryAt += d
	}
	for _, r := range q.asked {
		r.retryAt += d
	}
}

func (q *requests) answer(p *proposal, r register.Result) {
	m := q.m
	switch {
	case !p.own:
		m.out.Results = append(m.out.Results, r)
	case m.leading != nil:
		m.leading.asked = false
	}
}

// decided applies a command and answers it if it is ours.
func (q *requests) decided(index uint64, data []byte) error {
	m := q.m
	d, err := m.rep.apply(index, data)
	if d.changed {
		m.out.Changes = append(m.out.Changes, m.rep.state)
	}
	m.screen.applied(&d.command)
	p := q.open[d.seq]
	if err != nil || d.session != q.session || p == nil || d.again && d.wins == nil {
		return err
	}
	q.settle(d.seq, p, d.wins)
	return nil
}

func (q *requests) settle(seq uint64, p *proposal, wins []bool) {
	m := q.m
	delete(q.open, seq)
	q.answer(p, resultOf(&p.request, wins, m.rep.state))
	q.refill()
}

func (q *requests) refill() {
	for len(q.queue) > 0 && q.next-q.floor() < window {
		p := q.queue[0]
		q.queue = q.queue[1:]
		q.change(p)
	}
}

// caughtUp looks for what a snapshot says about our proposals: the entries that
// decided them are not seen here any more.
func (q *requests) caughtUp() {
	m := q.m
	s := m.rep.sessions[q.session]
	if s == nil {
		return
	}
	for _, seq := range q.numbers() {
		if wins, ok := s.done[seq]; ok {
			q.settle(seq, q.open[seq], wins)
		}
	}
}

// retry sends again what was not answered, and gives up what waited too long.
func (q *requests) retry() {
	m := q.m
	for _, seq := range q.numbers() {
		switch p := q.open[seq]; {
		case m.now >= p.endAt:
			delete(q.open, seq)
			q.answer(p, register.Result{Tag: p.request.Tag, Err: ErrUnknown})
		case m.now >= p.retryAt:
			q.propose(p)
		}
	}
	q.queue = slices.DeleteFunc(q.queue, func(p *proposal) bool {
		if m.now < p.endAt {
			return false
		}
		// It was never proposed.
		q.answer(p, register.Result{Tag: p.request.Tag, Err: ErrBusy})
		return true
	})
	q.refill()
	if q.fresh != nil {
		q.expire(q.fresh)
	}
	for _, r := range q.asked {
		if q.expire(r); !r.known && m.now >= r.retryAt {
			q.question(r)
		}
	}
	q.asked = slices.DeleteFunc(q.asked, func(r *reading) bool { return len(r.tags) == 0 })
}

func (q *requests) expire(r *reading) {
	m := q.m
	for i := 0; i < len(r.tags); {
		if m.now < r.ends[i] {
			i++
			continue
		}
		m.out.Results = append(m.out.Results, register.Result{Tag: r.tags[i], Err: ErrUnknown})
		r.tags, r.ends = slices.Delete(r.tags, i, i+1), slices.Delete(r.ends, i, i+1)
		q.reads--
	}
}

// askReads asks a majority for the reads that were collected.
func (q *requests) askReads() {
	m := q.m
	if q.fresh == nil || len(q.fresh.tags) == 0 || len(q.asked) >= maxBatches || m.failed != nil {
		return
	}
	r := q.fresh
	q.fresh = nil
	r.first = q.number
	q.asked = append(q.asked, r)
	q.question(r)
}

func (q *requests) question(r *reading) {
	m := q.m
	r.number, r.retryAt = q.number, m.now+int64(m.cfg.Retry)
	q.number++
	if !m.mayAnswer() {
		r.retryAt = m.now + int64(m.cfg.Heartbeat)
		q.waits = true
		return
	}
	ctx := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, q.session), r.number)
	m.guard(func() error {
		m.node.ReadIndex(ctx)
		return nil
	})
}

// keep holds a message of another member until this leader may answer or take it.
func (q *requests) keep(msg *pb.Message) {
	if len(q.early) < maxEarly { // else it is asked again
		q.early = append(q.early, msg)
	}
}

// offered takes a proposal of another member.
func (q *requests) offered(msg *pb.Message) {
	if q.m.screen.propose(q.m, msg) == early {
		q.keep(msg)
	}
}

// answerable puts what came too early, once the leader has committed
// an entry of its term. That takes a sync or two; whoever waits for elections of
// partitions would wait for ten times that otherwise.
func (q *requests) answerable() {
	m := q.m
	if len(q.early) == 0 && !q.waits || m.failed != nil || !m.mayAnswer() {
		return
	}
	early := q.early
	q.early, q.waits = nil, false
	for _, msg := range early {
		switch {
		case m.timers.role != raft.StateLeader || msg.GetTerm() > m.timers.term:
		case msg.GetType() == pb.MsgProp:
			q.offered(msg)
		default:
			m.step(msg)
		}
	}
	for _, seq := range q.numbers() {
		if p := q.open[seq]; p.early {
			q.propose(p)
		}
	}
	for _, r := range q.asked {
		if !r.known {
			q.question(r)
		}
	}
}

// mayAnswer is false on a leader that has not committed an entry of its own
// term. Raft makes most leaders wait for it; the only voter of a group answers
// at once from a commit index that may be older than what it has acknowledged,
// because the commit index is not synced.
func (m *Machine) mayAnswer() bool {
	st := m.node.BasicStatus()
	if st.RaftState != raft.StateLeader {
		return true
	}
	term, err := m.disk.Term(st.GetCommit())
	return err == nil && term == st.GetTerm()
}

// readable notes what has to be applied for the reads that were confirmed, and
// answers those that can be.
func (q *requests) readable(states []raft.ReadState) {
	m := q.m
	for _, s := range states {
		if len(s.RequestCtx) != 16 || binary.BigEndian.Uint64(s.RequestCtx) != q.session {
			continue
		}
		number := binary.BigEndian.Uint64(s.RequestCtx[8:])
		for _, r := range q.asked {
			// Any question of the batch will do: each was put after its reads.
			if !r.known && r.first <= number && number <= r.number && q.owns(r, number) {
				r.index, r.known = s.Index, true
			}
		}
	}
	q.asked = slices.DeleteFunc(q.asked, func(r *reading) bool {
		if !r.known || m.applied < r.index {
			return false
		}
		for _, tag := range r.tags {
			m.out.Results = append(m.out.Results, register.Result{Tag: tag, State: m.rep.state})
		}
		q.reads -= len(r.tags)
		return true
	})
}

// owns tells the numbers of interleaved batches apart: only the first and the
// last question of a batch are remembered.
func (q *requests) owns(r *reading, number uint64) bool {
	return number == r.first || number == r.number
}

// numbers are those of the open proposals, in order. Most often there are none.
func (q *requests) numbers() []uint64 {
	if len(q.open) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(q.open))
}

// urge sends everything at once: there is a leader now.
func (q *requests) urge() {
	for _, seq := range q.numbers() {
		q.propose(q.open[seq])
	}
	for _, r := range q.asked {
		if !r.known {
			q.question(r)
		}
	}
}

// foreign says that a forwarded message is not one that a member may send.
func foreign(msg *pb.Message) bool {
	if msg.GetType() != pb.MsgProp && msg.GetType() != pb.MsgReadIndex {
		return false
	}
	for _, e := range msg.GetEntries() {
		if e.GetType() != pb.EntryNormal || len(e.GetData()) == 0 || len(e.GetData()) > maxCommand {
			return true
		}
	}
	return len(msg.GetEntries()) != 1
}

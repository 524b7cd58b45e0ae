package group

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
)

// entry makes one of the log.
func entry(term, index uint64) *pb.Entry {
	return &pb.Entry{Term: new(term), Index: new(index), Type: pb.EntryNormal.Enum(), Data: []byte{byte(index)}}
}

// TestWhatAMessageShows of the disk of who has sent it: else nobody would notice that it was set
// back to before that.
func TestWhatAMessageShows(t *testing.T) {
	of := func(kind pb.MessageType, reject bool) *pb.Message {
		return &pb.Message{Type: kind.Enum(), Term: new(uint64(4)), Index: new(uint64(7)), Commit: new(uint64(5)), Reject: new(reject), Entries: []*pb.Entry{entry(4, 8), entry(4, 9)}}
	}
	for _, c := range []struct {
		m    *pb.Message
		want shown
	}{
		{of(pb.MsgApp, false), shown{4, false, 9}}, {of(pb.MsgHeartbeat, false), shown{4, false, 5}}, {of(pb.MsgAppResp, false), shown{4, false, 7}},
		{of(pb.MsgAppResp, true), shown{4, false, 0}}, {of(pb.MsgVote, false), shown{4, true, 0}}, {of(pb.MsgVoteResp, false), shown{4, true, 0}},
		{of(pb.MsgVoteResp, true), shown{4, false, 0}}, {of(pb.MsgPreVote, false), shown{}}, {of(pb.MsgPreVoteResp, false), shown{}},
	} {
		if got := shownBy(c.m); got != c.want {
			t.Errorf("%v, rejected %v: %+v, not %+v", c.m.GetType(), c.m.GetReject(), got, c.want)
		}
	}
	var p peer
	p.meet(life{1, 1}, 1)
	p.now = shown{4, true, 9}
	p.meet(life{2, 1}, 1)
	p.now = shown{4, false, 3}
	if p.meet(life{3, 1}, 1); p.before != (shown{4, true, 9}) || p.now != (shown{}) {
		t.Errorf("of two starts before %+v is remembered, of this one %+v", p.before, p.now)
	}
	if p.meet(life{3, 1}, 2); p.before != (shown{}) {
		t.Errorf("of another register %+v", p.before)
	}
}

// TestWhatAMemberMaySend for others: one proposal, of a size, or a question.
func TestWhatAMemberMaySend(t *testing.T) {
	change := entry(1, 1)
	change.Type = pb.EntryConfChangeV2.Enum()
	long, empty := entry(1, 1), entry(1, 1)
	long.Data, empty.Data = make([]byte, maxCommand+1), nil
	for what, all := range map[string][]*pb.Entry{"": {entry(1, 1)}, "a change of voters": {change}, "much": {long}, "nothing": {empty}, "two": {entry(1, 1), entry(1, 2)}, "none": nil} {
		for _, kind := range []pb.MessageType{pb.MsgProp, pb.MsgReadIndex, pb.MsgApp} {
			if got := foreign(&pb.Message{Type: kind.Enum(), Entries: all}); got != (what != "" && kind != pb.MsgApp) {
				t.Errorf("%s in %v: foreign %v", what, kind, got)
			}
		}
	}
}

// TestTheLogOnTheDisk: what raft cuts off is gone, nothing is left out, and what a disk has changed
// is damaged.
func TestTheLogOnTheDisk(t *testing.T) {
	s := memstore.New()
	write := func(f func(b *store.Batch)) {
		var b store.Batch
		f(&b)
		s.Commit(&b)()
	}
	d := &disk{hard: &pb.HardState{}, snap: &pb.SnapshotMetadata{}}
	put := func(all ...*pb.Entry) (err error) {
		write(func(b *store.Batch) { err = d.append(b, all) })
		return err
	}
	read := func() (*disk, error) {
		again := &disk{hard: &pb.HardState{}, snap: &pb.SnapshotMetadata{}}
		return again, again.loadLog(s)
	}
	if err := put(entry(1, 1), entry(1, 2), entry(1, 3), entry(1, 4)); err != nil {
		t.Fatal(err)
	}
	if err := put(entry(2, 2)); err != nil || d.last() != 2 || d.size != 2 {
		t.Errorf("%v: the log ends at %d, with %d bytes", err, d.last(), d.size)
	}
	if got, err := read(); err != nil || got.last() != 2 || got.entries[1].GetTerm() != 2 || got.size != 2 {
		t.Errorf("%v: on the disk it ends at %d", err, got.last())
	}
	if err := put(entry(2, 4)); !errors.Is(err, ErrBroken) || d.last() != 2 {
		t.Errorf("an entry that does not follow: %v", err)
	}
	write(func(b *store.Batch) {
		raw, _ := proto.Marshal(entry(2, 4))
		b.Set(logKey(4), sealed(raw))
	})
	if _, err := read(); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("a log with a hole: %v", err)
	}
	rep := newReplica(register.State{Cluster: register.Cluster{ID: register.UUID{0xab}}})
	snap := &pb.Snapshot{Data: rep.encode(), Metadata: &pb.SnapshotMetadata{Index: new(uint64(3)), Term: new(uint64(2)), ConfState: &pb.ConfState{}}}
	write(func(b *store.Batch) { _ = d.setSnapshot(b, snap) })
	raw, _ := s.Get([]byte(snapKey))
	if _, err := d.loadSnapshot(s, raw); err != nil {
		t.Errorf("a snapshot: %v", err)
	}
	write(func(b *store.Batch) {
		piece := slices.Clone(snap.GetData())
		piece[slices.Index(piece, 0xab)]++
		b.Set(dataKey(0), piece)
	})
	if _, err := d.loadSnapshot(s, raw); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("one that was changed: %v", err)
	}
}

// TestWhatIsSaidOfRequestsThatEnd: what was proposed may have been decided, what was not was not.
// What a snapshot says was decided is.
func TestWhatIsSaidOfRequestsThatEnd(t *testing.T) {
	m := &Machine{now: 100, rep: newReplica(register.State{})}
	q := &m.requests
	q.init(m, 7)
	of := func(tag uint64) *proposal {
		return &proposal{request: register.Request{Tag: tag}, endAt: 50, retryAt: 1 << 40}
	}
	q.open[1], q.open[2], q.queue, q.next = of(1), of(2), []*proposal{of(3)}, 3
	q.open[2].endAt = 200
	q.fresh, q.reads = &reading{tags: []uint64{4, 5}, ends: []int64{50, 200}}, 2
	q.retry()
	errs := map[uint64]error{}
	for _, r := range m.out.Results {
		errs[r.Tag] = r.Err
	}
	if len(errs) != 3 || !errors.Is(errs[1], ErrUnknown) || !errors.Is(errs[3], ErrBusy) || !errors.Is(errs[4], ErrUnknown) {
		t.Errorf("%v", errs)
	}
	if q.reads != 1 || len(q.fresh.tags) != 1 {
		t.Errorf("%d reads wait, counted are %d", len(q.fresh.tags), q.reads)
	}
	m.out.Results = nil
	m.rep.sessions[7] = &session{done: map[uint64][]bool{2: {true, false}}}
	if q.caughtUp(); len(q.open) != 0 || len(m.out.Results) != 1 || !m.out.Results[0].PlanWon {
		t.Errorf("%d are open, answered: %+v", len(q.open), m.out.Results)
	}
}

// TestWhoseReadsAreAnswered: those of this start, by the answer to their own question, and when what
// it says is applied.
func TestWhoseReadsAreAnswered(t *testing.T) {
	m := &Machine{applied: 10, rep: newReplica(register.State{})}
	q := &m.requests
	q.init(m, 7)
	q.asked, q.reads = []*reading{{tags: []uint64{5}, first: 1, number: 3}}, 1
	says := func(session, number, index uint64) int {
		ctx := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, session), number)
		q.readable([]raft.ReadState{{Index: index, RequestCtx: ctx}})
		return len(m.out.Results)
	}
	if says(8, 1, 4)+says(7, 2, 4)+says(7, 4, 4) != 0 {
		t.Error("answered by what is about something else")
	}
	if says(7, 3, 11) != 0 {
		t.Error("answered before that is applied")
	}
	m.applied = 11
	if says(8, 1, 4) != 1 || q.reads != 0 {
		t.Errorf("never answered, and %d reads are counted", q.reads)
	}
}

// TestForHowLongAPeerWasSilent: no longer than this leader leads, or knows of it.
func TestForHowLongAPeerWasSilent(t *testing.T) {
	l := &leading{m: &Machine{now: 100}, since: 90, known: map[uint64]int64{}, heard: map[uint64]int64{}}
	if got := l.silent(1); got != 10 {
		t.Errorf("since it leads: %d", got)
	}
	if l.known[1] = 95; l.silent(1) != 5 {
		t.Errorf("since it is known: %d", l.silent(1))
	}
	if l.heard[1] = 97; l.silent(1) != 3 {
		t.Errorf("since it was heard: %d", l.silent(1))
	}
}

// TestAStartThatIsNotOver: before this member has gone through what it knew to be decided, which may
// name others to ask; and the only voter that lacks what others know to be decided has lost it.
func TestAStartThatIsNotOver(t *testing.T) {
	m := &Machine{id: 7, applied: 5, life: life{1, 2}, conf: &pb.ConfState{Voters: []uint64{7}}, disk: &disk{hard: &pb.HardState{}, snap: &pb.SnapshotMetadata{}, base: 5}}
	m.start = start{decided: 6, until: 1 << 40, answered: map[uint64]bool{}}
	if m.start.told(m) {
		t.Error("nobody is left to ask, and it has not gone through its log")
	}
	for commit, lost := range map[uint64]bool{5: false, 6: true} {
		m.failed = nil
		a := answer{life: m.life, commit: commit}
		m.start.hear(m, &envelope{from: register.Member{Node: "n"}, body: a.encode()})
		if errors.Is(m.failed, ErrForgot) != lost {
			t.Errorf("others know of %d decisions, and its log has five: %v", commit, m.failed)
		}
	}
}

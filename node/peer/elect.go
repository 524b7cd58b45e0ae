package peer

import (
	"fmt"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// plain is a message in its generated form: of those that are few, or that
// carry what matters as bytes.
type plain struct {
	m    gproto.Message
	size int
}

func newPlain(m gproto.Message) *plain { return &plain{m, gproto.Size(m)} }

func (p *plain) Size() int { return p.size }

func (p *plain) AppendTo(dst []byte) ([]byte, error) {
	return gproto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, p.m)
}

// parse reads a generated message.
func parse[M gproto.Message](b []byte, m M) (M, error) {
	if err := gproto.Unmarshal(b, m); err != nil {
		return m, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return m, nil
}

// encodeElection gives the method and body of what belongs to elections and
// claims.
func encodeElection(m message.PeerMessage) (method nornv1.PeerMethod, p *plain, ok bool) {
	switch m := m.(type) {
	case *message.Ballots:
		return nornv1.PeerMethod_PEER_METHOD_BALLOTS, newPlain(wireBallots(m)), true
	case *message.Votes:
		out := &nornv1.PeerVotes{Mark: m.Mark}
		for i := range m.Votes {
			v := wireVote(m.Votes[i].Vote)
			v.Claims = m.Votes[i].Claims
			out.Votes = append(out.Votes, v)
		}
		return nornv1.PeerMethod_PEER_METHOD_VOTES, newPlain(out), true
	case *message.Pushes:
		out := &nornv1.PeerPushes{}
		for _, x := range m.Pushes {
			out.Pushes = append(out.Pushes, &nornv1.PeerPush{Partition: uint32(x.Partition), Epoch: x.Epoch, Nonce: x.Nonce, Claims: x.Claims})
		}
		return nornv1.PeerMethod_PEER_METHOD_PUSHES, newPlain(out), true
	case *message.PushesTaken:
		out := &nornv1.PeerPushesTaken{Mark: m.Mark}
		for _, v := range m.Votes {
			out.Votes = append(out.Votes, wireVote(v))
		}
		return nornv1.PeerMethod_PEER_METHOD_PUSHES_TAKEN, newPlain(out), true
	case *message.Elect:
		out := &nornv1.PeerElect{}
		for _, s := range m.Stand {
			out.Stand = append(out.Stand, &nornv1.PeerStand{Partition: uint32(s.Partition), Epoch: s.Epoch, Nonce: s.Nonce, To: wireCohort(s.To), Floor: s.Floor})
		}
		return nornv1.PeerMethod_PEER_METHOD_ELECT, newPlain(out), true
	case *message.Claims:
		return nornv1.PeerMethod_PEER_METHOD_CLAIMS, newPlain(&nornv1.PeerClaims{Round: m.Round, Parts: wireParts(m.Parts)}), true
	case *message.Beat:
		return nornv1.PeerMethod_PEER_METHOD_BEAT, newPlain(&nornv1.PeerBeat{SentWall: m.Sent.Wall, SentMono: m.Sent.Mono}), true
	case *message.Beaten:
		return nornv1.PeerMethod_PEER_METHOD_BEATEN, newPlain(&nornv1.PeerBeaten{
			SentWall: m.Sent.Wall, SentMono: m.Sent.Mono, Boot: m.Boot, Received: m.Received, Answered: m.Answered, Seen: m.Seen,
			Whole: m.Whole, Sound: m.Sound,
		}), true
	case *message.AskOrphans:
		return nornv1.PeerMethod_PEER_METHOD_STUCK, newPlain(&nornv1.PeerClaims{Parts: wireParts(m.Parts)}), true
	case *message.NotHeld:
		return nornv1.PeerMethod_PEER_METHOD_UNHELD, newPlain(&nornv1.PeerClaims{Parts: wireParts(m.Parts)}), true
	case *message.Work:
		return nornv1.PeerMethod_PEER_METHOD_WORK, newPlain(wireWork(m)), true
	case *message.DurabilityEpoch:
		return nornv1.PeerMethod_PEER_METHOD_MARKED, newPlain(&nornv1.PeerMarked{Mark: m.Mark}), true
	case *message.ReclaimLease:
		return nornv1.PeerMethod_PEER_METHOD_TAKEN_BACK, newPlain(&nornv1.PeerClaims{Parts: wireParts(m.Parts)}), true
	case *message.AbandonClaims:
		return nornv1.PeerMethod_PEER_METHOD_UNANSWERED, newPlain(wireUnanswered(m)), true
	case *message.ClaimsTaken:
		return nornv1.PeerMethod_PEER_METHOD_CLAIMS_TAKEN, newPlain(wireClaimsTaken(m)), true
	case *message.Cells:
		return nornv1.PeerMethod_PEER_METHOD_CELLS, newPlain(wireCells(m)), true
	}
	return 0, nil, false
}

// decodeElection is its inverse.
func decodeElection(method nornv1.PeerMethod, b []byte) (message.PeerMessage, error) {
	switch method {
	case nornv1.PeerMethod_PEER_METHOD_BALLOTS:
		return decodeBallots(b)
	case nornv1.PeerMethod_PEER_METHOD_VOTES:
		return decodeVotes(b)
	case nornv1.PeerMethod_PEER_METHOD_PUSHES:
		return decodePushes(b)
	case nornv1.PeerMethod_PEER_METHOD_PUSHES_TAKEN:
		return decodePushesTaken(b)
	case nornv1.PeerMethod_PEER_METHOD_ELECT:
		return decodeElect(b)
	case nornv1.PeerMethod_PEER_METHOD_CLAIMS:
		round, parts, err := decodeClaims(b)
		return &message.Claims{Round: round, Parts: parts}, err
	case nornv1.PeerMethod_PEER_METHOD_BEAT:
		m, err := parse(b, &nornv1.PeerBeat{})
		return &message.Beat{Sent: clock.Time{Wall: m.GetSentWall(), Mono: m.GetSentMono()}}, err
	case nornv1.PeerMethod_PEER_METHOD_BEATEN:
		m, err := parse(b, &nornv1.PeerBeaten{})
		return &message.Beaten{
			Sent: clock.Time{Wall: m.GetSentWall(), Mono: m.GetSentMono()}, Boot: m.GetBoot(), Received: m.GetReceived(), Answered: m.GetAnswered(), Seen: m.GetSeen(),
			Whole: m.GetWhole(), Sound: m.GetSound(),
		}, err
	case nornv1.PeerMethod_PEER_METHOD_UNANSWERED:
		return decodeUnanswered(b)
	case nornv1.PeerMethod_PEER_METHOD_MARKED:
		m, err := parse(b, &nornv1.PeerMarked{})
		return &message.DurabilityEpoch{Mark: m.GetMark()}, err
	case nornv1.PeerMethod_PEER_METHOD_STUCK:
		_, parts, err := decodeClaims(b)
		return &message.AskOrphans{Parts: parts}, err
	case nornv1.PeerMethod_PEER_METHOD_UNHELD:
		_, parts, err := decodeClaims(b)
		return &message.NotHeld{Parts: parts}, err
	case nornv1.PeerMethod_PEER_METHOD_WORK:
		return decodeWork(b)
	case nornv1.PeerMethod_PEER_METHOD_TAKEN_BACK:
		_, parts, err := decodeClaims(b)
		return &message.ReclaimLease{Parts: parts}, err
	case nornv1.PeerMethod_PEER_METHOD_CLAIMS_TAKEN:
		return decodeClaimsTaken(b)
	case nornv1.PeerMethod_PEER_METHOD_CELLS:
		return decodeCells(b)
	}
	return nil, fmt.Errorf("%w: method %d", ErrUnknown, method)
}

func wireCohort(all []register.Member) *nornv1.PeerCohort {
	out := &nornv1.PeerCohort{}
	for i := range all {
		out.Nodes = append(out.Nodes, &nornv1.PeerNode{Name: all[i].Node, Incarnation: all[i].Incarnation[:]})
	}
	return out
}

func cohortOf(m *nornv1.PeerCohort) (all []register.Member, err error) {
	if len(m.GetNodes()) > register.MaxCohort {
		return nil, fmt.Errorf("%w: a cohort of %d nodes", ErrMalformed, len(m.GetNodes()))
	}
	for _, n := range m.GetNodes() {
		o := register.Member{Node: n.GetName()}
		if err := fill(o.Incarnation[:], n.GetIncarnation()); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func wireVote(v message.Vote) *nornv1.PeerVote {
	return &nornv1.PeerVote{Partition: uint32(v.Partition), Epoch: v.Epoch, Nonce: v.Nonce, Pre: v.Pre, Granted: v.Granted, Promise: v.Promise}
}

func voteOf(m *nornv1.PeerVote) (v message.Vote, err error) {
	p, err := partitionOf(uint64(m.GetPartition()))
	return message.Vote{Partition: p, Epoch: m.GetEpoch(), Nonce: m.GetNonce(), Pre: m.GetPre(), Granted: m.GetGranted(), Promise: m.GetPromise()}, err
}

func wireBallots(m *message.Ballots) *nornv1.PeerBallots {
	out := &nornv1.PeerBallots{}
	for i := range m.Ballots {
		b := &m.Ballots[i]
		out.Ballots = append(out.Ballots, &nornv1.PeerBallot{
			Partition: uint32(b.Partition), Epoch: b.Epoch, Nonce: b.Nonce, Old: b.Old,
			From: wireCohort(b.From), To: wireCohort(b.To), Pre: b.Pre, Transfer: b.Transfer,
		})
	}
	return out
}

func decodeBallots(b []byte) (message.PeerMessage, error) {
	in, err := parse(b, &nornv1.PeerBallots{})
	if err != nil {
		return nil, err
	}
	m := &message.Ballots{}
	if len(in.GetBallots()) > ring.MaxPartitions {
		return nil, fmt.Errorf("%w: %d ballots", ErrMalformed, len(in.GetBallots()))
	}
	for _, x := range in.GetBallots() {
		o := message.Ballot{Epoch: x.GetEpoch(), Nonce: x.GetNonce(), Old: x.GetOld(), Pre: x.GetPre(), Transfer: x.GetTransfer()}
		if o.Partition, err = partitionOf(uint64(x.GetPartition())); err != nil {
			return nil, err
		}
		if o.From, err = cohortOf(x.GetFrom()); err != nil {
			return nil, err
		}
		if o.To, err = cohortOf(x.GetTo()); err != nil {
			return nil, err
		}
		m.Ballots = append(m.Ballots, o)
	}
	return m, nil
}

func decodeVotes(b []byte) (message.PeerMessage, error) {
	in, err := parse(b, &nornv1.PeerVotes{})
	if err != nil {
		return nil, err
	}
	m := &message.Votes{Mark: in.GetMark()}
	for _, x := range in.GetVotes() {
		v, err := voteOf(x)
		if err != nil {
			return nil, err
		}
		m.Votes = append(m.Votes, message.CastVote{Vote: v, Claims: x.GetClaims()})
	}
	return m, nil
}

func decodePushes(b []byte) (message.PeerMessage, error) {
	in, err := parse(b, &nornv1.PeerPushes{})
	if err != nil {
		return nil, err
	}
	m := &message.Pushes{}
	for _, x := range in.GetPushes() {
		p, err := partitionOf(uint64(x.GetPartition()))
		if err != nil {
			return nil, err
		}
		m.Pushes = append(m.Pushes, message.Pushed{Partition: p, Epoch: x.GetEpoch(), Nonce: x.GetNonce(), Claims: x.GetClaims()})
	}
	return m, nil
}

func decodePushesTaken(b []byte) (message.PeerMessage, error) {
	in, err := parse(b, &nornv1.PeerPushesTaken{})
	if err != nil {
		return nil, err
	}
	m := &message.PushesTaken{Mark: in.GetMark()}
	for _, x := range in.GetVotes() {
		v, err := voteOf(x)
		if err != nil {
			return nil, err
		}
		m.Votes = append(m.Votes, v)
	}
	return m, nil
}

func decodeElect(b []byte) (message.PeerMessage, error) {
	in, err := parse(b, &nornv1.PeerElect{})
	if err != nil {
		return nil, err
	}
	m := &message.Elect{}
	for _, x := range in.GetStand() {
		s := message.Stand{Epoch: x.GetEpoch(), Nonce: x.GetNonce(), Floor: x.GetFloor()}
		if s.Partition, err = partitionOf(uint64(x.GetPartition())); err != nil {
			return nil, err
		}
		if s.To, err = cohortOf(x.GetTo()); err != nil {
			return nil, err
		}
		m.Stand = append(m.Stand, s)
	}
	return m, nil
}

func wireParts(parts []message.PartClaims) (all []*nornv1.PeerClaimsPart) {
	for _, x := range parts {
		all = append(all, &nornv1.PeerClaimsPart{Partition: uint32(x.Partition), Epoch: x.Epoch, Claims: x.Claims})
	}
	return all
}

func decodeClaims(b []byte) (round uint64, parts []message.PartClaims, err error) {
	in, err := parse(b, &nornv1.PeerClaims{})
	if err != nil {
		return 0, nil, err
	}
	for _, x := range in.GetParts() {
		p, err := partitionOf(uint64(x.GetPartition()))
		if err != nil {
			return 0, nil, err
		}
		parts = append(parts, message.PartClaims{Partition: p, Epoch: x.GetEpoch(), Claims: x.GetClaims()})
	}
	return in.GetRound(), parts, nil
}

func wireUnanswered(m *message.AbandonClaims) *nornv1.PeerUnanswered {
	out := &nornv1.PeerUnanswered{}
	for _, a := range m.Asks {
		out.Asks = append(out.Asks, &nornv1.PeerAsk{Session: a.Session[:], RequestNo: a.Request})
	}
	return out
}

func decodeUnanswered(b []byte) (message.PeerMessage, error) {
	in, err := parse(b, &nornv1.PeerUnanswered{})
	if err != nil {
		return nil, err
	}
	m := &message.AbandonClaims{}
	for _, x := range in.GetAsks() {
		a := message.AskKey{Request: x.GetRequestNo()}
		if len(x.GetSession()) != len(a.Session) {
			return nil, fmt.Errorf("%w: a session of %d bytes", ErrMalformed, len(x.GetSession()))
		}
		copy(a.Session[:], x.GetSession())
		m.Asks = append(m.Asks, a)
	}
	return m, nil
}

func wireClaimsTaken(m *message.ClaimsTaken) *nornv1.PeerClaimsTaken {
	out := &nornv1.PeerClaimsTaken{Round: m.Round, Mark: m.Mark}
	for i := range m.Parts {
		t := &m.Parts[i]
		part := &nornv1.PeerClaimsAnswer{Partition: uint32(t.Partition), No: t.No, Promise: t.Promise}
		for _, r := range t.Refused {
			part.Refused = append(part.Refused, &nornv1.PeerClaimRefusal{Index: uint32(r.Index), Verdict: uint32(r.Verdict), Claim: r.Claim, Left: int64(r.Left)})
		}
		out.Parts = append(out.Parts, part)
	}
	for i := range m.Facts {
		f := &m.Facts[i]
		out.Facts = append(out.Facts, &nornv1.PeerPart{Partition: uint32(f.Partition), Epoch: f.Epoch, Count: uint32(len(f.Facts)), Facts: appendFacts(nil, f.Facts)})
	}
	return out
}

func decodeClaimsTaken(b []byte) (message.PeerMessage, error) {
	in, err := parse(b, &nornv1.PeerClaimsTaken{})
	if err != nil {
		return nil, err
	}
	m := &message.ClaimsTaken{Round: in.GetRound(), Mark: in.GetMark()}
	for _, x := range in.GetParts() {
		t := message.PartTaken{No: x.GetNo(), Promise: x.GetPromise()}
		if t.Partition, err = partitionOf(uint64(x.GetPartition())); err != nil {
			return nil, err
		}
		for _, r := range x.GetRefused() {
			if r.GetVerdict() > message.MaxVerdict {
				return nil, fmt.Errorf("%w: verdict %d", ErrMalformed, r.GetVerdict())
			}
			o := message.Refusal{Index: int(r.GetIndex()), Claim: r.GetClaim(), Left: time.Duration(r.GetLeft())}
			o.Verdict += message.Verdict(r.GetVerdict())
			t.Refused = append(t.Refused, o)
		}
		m.Parts = append(m.Parts, t)
	}
	for _, x := range in.GetFacts() {
		f := message.PartFacts{Epoch: x.GetEpoch()}
		if f.Partition, err = partitionOf(uint64(x.GetPartition())); err != nil {
			return nil, err
		}
		if f.Facts, err = decodeList(uint64(x.GetCount()), x.GetFacts()); err != nil {
			return nil, err
		}
		m.Facts = append(m.Facts, f)
	}
	return m, nil
}

func wireFences(fences []message.Fence) (all []*nornv1.PeerFence) {
	for _, f := range fences {
		out := &nornv1.PeerFence{Partition: uint32(f.Partition)}
		for _, c := range f.Cohorts {
			out.Cohorts = append(out.Cohorts, wireCohort(c))
		}
		all = append(all, out)
	}
	return all
}

func decodeFence(b []byte) (f message.Fence, err error) {
	in, err := parse(b, &nornv1.PeerFence{})
	if err != nil {
		return f, err
	}
	if f.Partition, err = partitionOf(uint64(in.GetPartition())); err != nil {
		return f, err
	}
	if n := len(in.GetCohorts()); n > message.MaxFence {
		return f, fmt.Errorf("%w: %d cohorts in a fence", ErrMalformed, n)
	}
	for _, c := range in.GetCohorts() {
		cohort, err := cohortOf(c)
		if err != nil {
			return f, err
		}
		f.Cohorts = append(f.Cohorts, cohort)
	}
	return f, nil
}

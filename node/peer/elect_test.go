package peer

import (
	"reflect"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func drawMember(t *rapid.T) register.Member {
	return register.Member{Node: rapid.StringMatching(`[a-z0-9]{1,9}`).Draw(t, "node"), Incarnation: register.Incarnation{rapid.Byte().Draw(t, "incarnation")}}
}

func drawCohort(t *rapid.T) []register.Member {
	return rapid.SliceOfN(rapid.Custom(drawMember), 1, register.MaxCohort).Draw(t, "cohort")
}

func drawBytes(t *rapid.T) []byte { return rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "claims") }

func drawVote(t *rapid.T) message.Vote {
	return message.Vote{
		Partition: drawPartition(t), Epoch: rapid.Uint64().Draw(t, "epoch"), Nonce: rapid.Uint64().Draw(t, "nonce"),
		Pre: rapid.Bool().Draw(t, "pre"), Granted: rapid.Bool().Draw(t, "granted"), Promise: rapid.Uint64().Draw(t, "promise"),
	}
}

func drawBallots(t *rapid.T) message.PeerMessage {
	m := &message.Ballots{}
	for range rapid.IntRange(1, 4).Draw(t, "ballots") {
		m.Ballots = append(m.Ballots, message.Ballot{
			Partition: drawPartition(t), Epoch: rapid.Uint64().Draw(t, "epoch"), Nonce: rapid.Uint64().Draw(t, "nonce"), Old: rapid.Uint64().Draw(t, "old"),
			From: drawCohort(t), To: drawCohort(t), Pre: rapid.Bool().Draw(t, "pre"), Transfer: rapid.Bool().Draw(t, "transfer"),
		})
	}
	return m
}

func drawClaimsTaken(t *rapid.T) message.PeerMessage {
	m := &message.ClaimsTaken{Round: rapid.Uint64().Draw(t, "round"), Mark: rapid.Uint64().Draw(t, "mark")}
	for range rapid.IntRange(0, 3).Draw(t, "parts") {
		part := message.PartTaken{Partition: drawPartition(t), No: rapid.Bool().Draw(t, "no"), Promise: rapid.Uint64().Draw(t, "promise")}
		for i := range rapid.IntRange(0, 3).Draw(t, "refused") {
			r := message.Refusal{Index: i, Claim: drawBytes(t), Left: time.Duration(rapid.Int64().Draw(t, "left"))}
			r.Verdict += message.Verdict(rapid.Uint32Range(0, message.MaxVerdict).Draw(t, "verdict"))
			part.Refused = append(part.Refused, r)
		}
		m.Parts = append(m.Parts, part)
	}
	for range rapid.IntRange(0, 2).Draw(t, "facts") {
		m.Facts = append(m.Facts, message.PartFacts{Partition: drawPartition(t), Epoch: rapid.Uint64().Draw(t, "epoch"), Facts: rapid.SliceOfN(rapid.Custom(drawFact), 1, 3).Draw(t, "facts")})
	}
	return m
}

func drawWork(t *rapid.T) message.PeerMessage {
	m := &message.Work{}
	for range rapid.IntRange(0, 3).Draw(t, "items") {
		x := message.WorkItem{Kind: message.WorkKind(rapid.Byte().Draw(t, "kind")), Instance: [16]byte{1, rapid.Byte().Draw(t, "instance")}, Association: rapid.Uint64().Draw(t, "association")}
		for range rapid.IntRange(0, 3).Draw(t, "claims") {
			x.Claims = append(x.Claims, message.WorkClaim{Task: drawTask(t), Token: rapid.Uint64().Draw(t, "token"), Lease: time.Duration(rapid.Int64Min(0).Draw(t, "lease")), Cause: rapid.Byte().Draw(t, "cause")})
		}
		m.Items = append(m.Items, x)
	}
	return m
}

// drawElection draws a message of elections and claims.
func drawElection(t *rapid.T) message.PeerMessage {
	number := rapid.Uint64().Draw(t, "number")
	parts := []message.PartClaims{{Partition: drawPartition(t), Epoch: number / 3, Claims: drawBytes(t)}}
	switch rapid.IntRange(0, 15).Draw(t, "election") {
	case 15:
		led := register.Cell{Epoch: number, Cohort: drawCohort(t), Leader: drawMember(t), Nonce: number / 3}
		return &message.Cells{Ask: rapid.Bool().Draw(t, "ask"), Cells: []message.KnownCell{{Partition: drawPartition(t), Cell: led}, {Cell: register.Cell{Epoch: number / 5}}}}
	case 14:
		return &message.AbandonClaims{Asks: []message.AskKey{{Session: [16]byte{byte(number)}, Request: number}, {Request: number / 3}}}
	case 13:
		return &message.DurabilityEpoch{Mark: number}
	case 12:
		return &message.ReclaimLease{Parts: parts}
	case 10:
		return &message.Beat{Sent: clock.Time{Wall: rapid.Int64().Draw(t, "wall"), Mono: int64(number)}, Prompt: rapid.Bool().Draw(t, "prompt")}
	case 11:
		return &message.Beaten{Sent: clock.Time{Wall: rapid.Int64().Draw(t, "wall"), Mono: int64(number)}, Boot: number / 3, Received: 5, Seen: number / 9, Answered: rapid.Int64().Draw(t, "answered"), Whole: number%2 == 1, Sound: number%3 == 1}
	case 8:
		return &message.AskOrphans{Parts: parts}
	case 9:
		return &message.NotHeld{Parts: parts}
	case 0:
		return drawBallots(t)
	case 1:
		return &message.Votes{Mark: number, Votes: []message.CastVote{{Vote: drawVote(t), Claims: drawBytes(t)}, {Vote: drawVote(t)}}}
	case 2:
		return &message.Pushes{Pushes: []message.Pushed{{Partition: drawPartition(t), Epoch: number, Nonce: number / 3, Claims: drawBytes(t)}}}
	case 3:
		return &message.PushesTaken{Mark: number, Votes: []message.Vote{drawVote(t)}}
	case 4:
		return &message.Elect{Stand: []message.Stand{{Partition: drawPartition(t), Epoch: number, Nonce: number / 5, To: drawCohort(t), Floor: number / 7}}}
	case 5:
		return &message.Claims{Round: number, Parts: parts}
	case 6:
		return drawClaimsTaken(t)
	}
	return &message.FactsTaken{Write: number, Mark: number / 11, Fences: []message.Fence{{Partition: drawPartition(t), Cohorts: [][]register.Member{drawCohort(t), drawCohort(t)}}}}
}

// protoOfElection gives the generated message of a method, nil for others.
func protoOfElection(m nornv1.PeerMethod) gproto.Message {
	return map[nornv1.PeerMethod]gproto.Message{
		nornv1.PeerMethod_PEER_METHOD_BALLOTS: &nornv1.PeerBallots{}, nornv1.PeerMethod_PEER_METHOD_VOTES: &nornv1.PeerVotes{},
		nornv1.PeerMethod_PEER_METHOD_PUSHES: &nornv1.PeerPushes{}, nornv1.PeerMethod_PEER_METHOD_PUSHES_TAKEN: &nornv1.PeerPushesTaken{},
		nornv1.PeerMethod_PEER_METHOD_ELECT: &nornv1.PeerElect{}, nornv1.PeerMethod_PEER_METHOD_CLAIMS: &nornv1.PeerClaims{},
		nornv1.PeerMethod_PEER_METHOD_CLAIMS_TAKEN: &nornv1.PeerClaimsTaken{},
		nornv1.PeerMethod_PEER_METHOD_STUCK:        &nornv1.PeerClaims{}, nornv1.PeerMethod_PEER_METHOD_UNHELD: &nornv1.PeerClaims{},
		nornv1.PeerMethod_PEER_METHOD_WORK:       &nornv1.PeerWork{},
		nornv1.PeerMethod_PEER_METHOD_TAKEN_BACK: &nornv1.PeerClaims{},
		nornv1.PeerMethod_PEER_METHOD_BEAT:       &nornv1.PeerBeat{}, nornv1.PeerMethod_PEER_METHOD_BEATEN: &nornv1.PeerBeaten{},
		nornv1.PeerMethod_PEER_METHOD_MARKED: &nornv1.PeerMarked{}, nornv1.PeerMethod_PEER_METHOD_UNANSWERED: &nornv1.PeerUnanswered{},
		nornv1.PeerMethod_PEER_METHOD_CELLS: &nornv1.PeerCells{},
	}[m]
}

// alikeElection compares messages of elections; facts field by field, because a
// body of none may be nil or empty.
func alikeElection(a, b message.PeerMessage) bool {
	x, ok := a.(*message.ClaimsTaken)
	if !ok {
		return reflect.DeepEqual(a, b)
	}
	y := b.(*message.ClaimsTaken)
	if len(x.Facts) != len(y.Facts) {
		return false
	}
	for i := range x.Facts {
		if x.Facts[i].Partition != y.Facts[i].Partition || x.Facts[i].Epoch != y.Facts[i].Epoch || !sameFacts(x.Facts[i].Facts, y.Facts[i].Facts) {
			return false
		}
	}
	return x.Round == y.Round && x.Mark == y.Mark && reflect.DeepEqual(x.Parts, y.Parts)
}

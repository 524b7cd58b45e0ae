package peer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func drawFact(t *rapid.T) crdt.Fact {
	return crdt.Fact{
		Task: id.ID(rapid.SliceOfN(rapid.Byte(), id.Size, id.Size).Draw(t, "task")),
		Key:  crdt.Key{Kind: crdt.Kind(rapid.Byte().Draw(t, "kind")), A: rapid.Uint64().Draw(t, "a"), B: rapid.Uint64().Draw(t, "b")},
		Body: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body"),
	}
}

func drawPartition(t *rapid.T) ring.Partition {
	return ring.Partition(rapid.IntRange(0, ring.MaxPartitions-1).Draw(t, "partition"))
}

func drawTask(t *rapid.T) id.ID {
	return id.ID(rapid.SliceOfN(rapid.Byte(), id.Size, id.Size).Draw(t, "task"))
}

func drawGrant(t *rapid.T) message.GrantRef {
	g := message.GrantRef{Partition: drawPartition(t), Task: drawTask(t), Token: rapid.Uint64().Draw(t, "token"), Answer: rapid.Uint64().Draw(t, "answer")}
	g.Ask.Request = rapid.Uint64().Draw(t, "request")
	copy(g.Ask.Session[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "session"))
	return g
}

func drawHead(t *rapid.T) message.QueueHead {
	h := message.QueueHead{Queue: rapid.StringN(0, 60, 255).Draw(t, "queue"), Ready: rapid.Bool().Draw(t, "ready")}
	if h.Ready {
		copy(h.Rank[:], rapid.SliceOfN(rapid.Byte(), 0, rankSize).Draw(t, "rank"))
		h.Marks.N = rapid.IntRange(0, len(h.Marks.Ranks)).Draw(t, "marks")
		for i := range h.Marks.N {
			copy(h.Marks.Ranks[i][:], rapid.SliceOfN(rapid.Byte(), 0, rankSize).Draw(t, "mark"))
		}
		h.Marks.Seen = rapid.IntRange(0, 1<<31-1).Draw(t, "seen")
		h.Few = rapid.IntRange(0, 1<<31-1).Draw(t, "few")
		h.Full = rapid.Bool().Draw(t, "full")
	}
	h.Asks = rapid.Bool().Draw(t, "asks")
	return h
}

func drawRepair(t *rapid.T) message.PeerMessage {
	m := &antientropy.Message{Kind: antientropy.KindAnswer, Session: rapid.Uint64().Draw(t, "session"), Facts: rapid.SliceOfN(rapid.Custom(drawFact), 0, 5).Draw(t, "facts")}
	if rapid.Bool().Draw(t, "request") {
		m = &antientropy.Message{Kind: antientropy.KindRequest, Push: m.Facts, Wants: make([]antientropy.Want, rapid.IntRange(0, 4).Draw(t, "wants"))}
	}
	if m.Kind == antientropy.KindAnswer && rapid.Bool().Draw(t, "told") {
		m.Told, m.Refused = true, rapid.Uint64().Draw(t, "refused")
	}
	return &message.Repair{Partition: drawPartition(t), Message: m}
}

func drawForward(t *rapid.T) message.PeerMessage {
	m := &message.Forward{
		Number: rapid.Uint64().Draw(t, "number"), Wait: time.Duration(rapid.Int64Min(0).Draw(t, "wait")),
		Partitions: rapid.SliceOfN(rapid.Custom(drawPartition), 0, 5).Draw(t, "partitions"), Choosy: rapid.Bool().Draw(t, "choosy"),
		Method: uint16(nornv1.Method_METHOD_CANCEL), Body: &nornv1.CancelRequest{Reason: rapid.String().Draw(t, "reason")},
	}
	if rapid.Bool().Draw(t, "scoped") {
		m.Scope = &guard.Scope{Name: rapid.String().Draw(t, "name"), Prefix: rapid.String().Draw(t, "prefix")}
		for range rapid.IntRange(0, 3).Draw(t, "rules") {
			m.Scope.Rules = append(m.Scope.Rules, guard.Rule{Verbs: guard.Verbs(rapid.IntRange(0, int(guard.All)).Draw(t, "verbs")), Pattern: rapid.String().Draw(t, "pattern")})
		}
	}
	if rapid.Bool().Draw(t, "enqueue") {
		m.Method, m.Body = uint16(nornv1.Method_METHOD_ENQUEUE), &nornv1.EnqueueRequest{Tasks: make([]*nornv1.TaskSpec, rapid.IntRange(0, 9).Draw(t, "tasks"))}
		for i := range m.Body.(*nornv1.EnqueueRequest).GetTasks() {
			m.Body.(*nornv1.EnqueueRequest).Tasks[i] = &nornv1.TaskSpec{Queue: rapid.String().Draw(t, "queue")}
		}
	}
	return m
}

func drawForwarded(t *rapid.T) message.PeerMessage {
	m := &message.Forwarded{
		Number: rapid.Uint64().Draw(t, "number"), Method: uint16(nornv1.Method_METHOD_CLAIM),
		Grants: rapid.SliceOfN(rapid.Custom(drawGrant), 0, 3).Draw(t, "grants"), Declined: rapid.Bool().Draw(t, "declined"),
	}
	if rapid.Bool().Draw(t, "error") {
		m.Err = &proto.Error{Kind: nornv1.ErrorKind_ERROR_KIND_CONFLICT, Message: rapid.String().Draw(t, "message"), RetryAfter: 3 * time.Second}
		return m
	}
	m.Message = &nornv1.ClaimReply{WaitedSeconds: rapid.Float64Range(0, 9).Draw(t, "waited")}
	return m
}

func drawMessage(t *rapid.T) message.PeerMessage {
	number := rapid.Uint64().Draw(t, "number")
	switch rapid.IntRange(0, 23).Draw(t, "type") {
	case 21:
		return &message.Roots{Session: number, Hash: rapid.Byte().Draw(t, "hash"), Roots: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) message.Root {
			return message.Root{Partition: drawPartition(t), Sum: crdt.Sum{rapid.Uint64().Draw(t, "sum"), number}}
		}), 0, 5).Draw(t, "roots")}
	case 22:
		return &message.SameRoots{Session: number, Partitions: rapid.SliceOfN(rapid.Custom(drawPartition), 0, 5).Draw(t, "partitions")}
	case 23:
		return &message.RootsCompleted{Session: number, Age: time.Duration(number >> 1), Partitions: rapid.SliceOfN(rapid.Custom(drawPartition), 0, 5).Draw(t, "partitions")}
	case 14, 15, 16, 17, 18:
		return drawElection(t)
	case 19:
		return drawWork(t)
	case 11:
		return &message.RepairCompleted{Partition: drawPartition(t), Session: number, Age: time.Duration(number >> 1)}
	case 12:
		return &message.Purge{Partition: drawPartition(t), Epoch: number, Tasks: rapid.SliceOfN(rapid.Custom(drawTask), 0, 5).Draw(t, "tasks")}
	case 20:
		return &message.QuarantineFacts{Partition: drawPartition(t), Epoch: number, Tasks: rapid.SliceOfN(rapid.Custom(drawTask), 0, 5).Draw(t, "tasks")}
	case 9:
		tasks := rapid.SliceOfN(rapid.Custom(drawTask), 0, 5)
		return &message.Watch{Number: number, Tasks: tasks.Draw(t, "tasks"), Keep: tasks.Draw(t, "keep")}
	case 10:
		return &message.Outcomes{Number: number, Outcomes: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) message.Outcome {
			return message.Outcome{Task: drawTask(t), State: crdt.State(rapid.Byte().Draw(t, "state"))}
		}), 0, 5).Draw(t, "outcomes")}
	case 0:
		return &message.FactsTaken{Write: number, Refused: rapid.SliceOfN(rapid.Custom(drawPartition), 0, 5).Draw(t, "refused")}
	case 1:
		return drawRepair(t)
	case 2:
		return drawForward(t)
	case 3:
		return drawForwarded(t)
	case 4:
		return &message.Withdraw{Number: number}
	case 5:
		return &message.Dropped{Grants: rapid.SliceOfN(rapid.Custom(drawGrant), 0, 3).Draw(t, "grants")}
	case 6:
		return &message.Fetch{Number: number, Epoch: rapid.Uint64().Draw(t, "epoch"), Task: drawTask(t)}
	case 7:
		return &message.Fetched{Number: number, Facts: rapid.SliceOfN(rapid.Custom(drawFact), 0, 5).Draw(t, "facts"), Cohorts: rapid.SliceOfN(rapid.Custom(drawCohort), 0, message.MaxFence).Draw(t, "cohorts")}
	case 8:
		return &message.QueueHeads{Heads: rapid.SliceOfN(rapid.Custom(drawHead), 0, 5).Draw(t, "heads")}
	}
	return &message.Facts{Write: number, Aside: rapid.Bool().Draw(t, "aside"), Parts: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) message.PartFacts {
		return message.PartFacts{Partition: drawPartition(t), Epoch: number, Facts: rapid.SliceOfN(rapid.Custom(drawFact), 0, 5).Draw(t, "facts")}
	}), 0, 5).Draw(t, "parts")}
}

// protoOf gives the generated message of a method.
func protoOf(t *rapid.T, m nornv1.PeerMethod) gproto.Message {
	switch m {
	case nornv1.PeerMethod_PEER_METHOD_FACTS:
		return &nornv1.PeerFacts{}
	case nornv1.PeerMethod_PEER_METHOD_FACTS_TAKEN:
		return &nornv1.PeerFactsTaken{}
	case nornv1.PeerMethod_PEER_METHOD_REPAIR:
		return &nornv1.PeerRepair{}
	case nornv1.PeerMethod_PEER_METHOD_FORWARD:
		return &nornv1.PeerForward{}
	case nornv1.PeerMethod_PEER_METHOD_FORWARDED:
		return &nornv1.PeerForwarded{}
	case nornv1.PeerMethod_PEER_METHOD_WITHDRAW:
		return &nornv1.PeerWithdraw{}
	case nornv1.PeerMethod_PEER_METHOD_DROPPED:
		return &nornv1.PeerDropped{}
	case nornv1.PeerMethod_PEER_METHOD_FETCH:
		return &nornv1.PeerFetch{}
	case nornv1.PeerMethod_PEER_METHOD_FETCHED:
		return &nornv1.PeerFetched{}
	case nornv1.PeerMethod_PEER_METHOD_HEADS:
		return &nornv1.PeerHeads{}
	case nornv1.PeerMethod_PEER_METHOD_WATCH:
		return &nornv1.PeerWatch{}
	case nornv1.PeerMethod_PEER_METHOD_OUTCOMES:
		return &nornv1.PeerOutcomes{}
	case nornv1.PeerMethod_PEER_METHOD_COMPARED:
		return &nornv1.PeerCompared{}
	case nornv1.PeerMethod_PEER_METHOD_ROOTS:
		return &nornv1.PeerRoots{}
	case nornv1.PeerMethod_PEER_METHOD_SAME_ROOTS:
		return &nornv1.PeerSameRoots{}
	case nornv1.PeerMethod_PEER_METHOD_ROOTS_COMPLETED:
		return &nornv1.PeerRootsCompleted{}
	case nornv1.PeerMethod_PEER_METHOD_PURGE, nornv1.PeerMethod_PEER_METHOD_ASIDE:
		return &nornv1.PeerPurge{}
	}
	if p := protoOfElection(m); p != nil {
		return p
	}
	t.Fatalf("no proto for method %d", m)
	return nil
}

// encoded gives the bytes of a message.
func encoded(t interface{ Fatal(...any) }, m message.PeerMessage) (nornv1.PeerMethod, []byte) {
	method, p, _, err := encode(m)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return method, b
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		method, p, _, err := encode(m)
		if err != nil {
			t.Fatal(err)
		}
		prefix := []byte("before")
		b, err := p.AppendTo(bytes.Clone(prefix))
		if err != nil || !bytes.HasPrefix(b, prefix) {
			t.Fatalf("%v, %q", err, b)
		}
		b = b[len(prefix):]
		if len(b) != p.Size() {
			t.Fatalf("%d bytes, said to be %d", len(b), p.Size())
		}
		got, err := Decode(method, b)
		if err != nil {
			t.Fatal(err)
		}
		if _, again := encoded(t, got); !bytes.Equal(again, b) || reflect.TypeOf(got) != reflect.TypeOf(m) {
			t.Fatalf("another message: %+v, not %+v", got, m)
		}
		if !alike(m, got) {
			t.Fatalf("another message: %+v, not %+v", got, m)
		}
	})
}

func sameFacts(a, b []crdt.Fact) bool {
	return slices.EqualFunc(a, b, func(a, b crdt.Fact) bool {
		return a.Task == b.Task && a.Key == b.Key && bytes.Equal(a.Body, b.Body)
	})
}

// alike compares messages field by field.
func alike(a, b message.PeerMessage) bool {
	switch a := a.(type) {
	case *message.Facts:
		b := b.(*message.Facts)
		return a.Write == b.Write && a.Aside == b.Aside && slices.EqualFunc(a.Parts, b.Parts, func(a, b message.PartFacts) bool {
			return a.Partition == b.Partition && a.Epoch == b.Epoch && sameFacts(a.Facts, b.Facts)
		})
	case *message.FactsTaken:
		return a.Write == b.(*message.FactsTaken).Write && slices.Equal(a.Refused, b.(*message.FactsTaken).Refused) && reflect.DeepEqual(a.Fences, b.(*message.FactsTaken).Fences)
	case *message.Repair:
		return a.Partition == b.(*message.Repair).Partition && a.Message.String() == b.(*message.Repair).Message.String() &&
			a.Message.Told == b.(*message.Repair).Message.Told && a.Message.Refused == b.(*message.Repair).Message.Refused
	case *message.Forward:
		b := b.(*message.Forward)
		return a.Number == b.Number && a.Method == b.Method && a.Wait == b.Wait && slices.Equal(a.Partitions, b.Partitions) && gproto.Equal(a.Body, b.Body) && reflect.DeepEqual(a.Scope, b.Scope)
	case *message.Forwarded:
		b := b.(*message.Forwarded)
		same := a.Number == b.Number && a.Method == b.Method && slices.Equal(a.Grants, b.Grants)
		if a.Err != nil {
			return same && b.Err != nil && *a.Err == *b.Err && b.Message == nil
		}
		return same && b.Err == nil && gproto.Equal(a.Message, b.Message)
	case *message.Withdraw:
		return *a == *b.(*message.Withdraw)
	case *message.Dropped:
		return slices.Equal(a.Grants, b.(*message.Dropped).Grants)
	case *message.Fetch:
		return *a == *b.(*message.Fetch)
	case *message.Fetched:
		return a.Number == b.(*message.Fetched).Number && sameFacts(a.Facts, b.(*message.Fetched).Facts) && slices.EqualFunc(a.Cohorts, b.(*message.Fetched).Cohorts, slices.Equal)
	case *message.QueueHeads:
		return slices.Equal(a.Heads, b.(*message.QueueHeads).Heads)
	case *message.Watch:
		return slices.Equal(a.Tasks, b.(*message.Watch).Tasks) && slices.Equal(a.Keep, b.(*message.Watch).Keep)
	case *message.Outcomes:
		return slices.Equal(a.Outcomes, b.(*message.Outcomes).Outcomes)
	case *message.RepairCompleted:
		return *a == *b.(*message.RepairCompleted)
	case *message.Roots:
		return a.Session == b.(*message.Roots).Session && a.Hash == b.(*message.Roots).Hash && slices.Equal(a.Roots, b.(*message.Roots).Roots)
	case *message.SameRoots:
		return a.Session == b.(*message.SameRoots).Session && slices.Equal(a.Partitions, b.(*message.SameRoots).Partitions)
	case *message.RootsCompleted:
		return a.Session == b.(*message.RootsCompleted).Session && a.Age == b.(*message.RootsCompleted).Age && slices.Equal(a.Partitions, b.(*message.RootsCompleted).Partitions)
	case *message.QuarantineFacts:
		b := b.(*message.QuarantineFacts)
		return a.Partition == b.Partition && a.Epoch == b.Epoch && slices.Equal(a.Tasks, b.Tasks)
	case *message.Purge:
		b := b.(*message.Purge)
		return a.Partition == b.Partition && a.Epoch == b.Epoch && slices.Equal(a.Tasks, b.Tasks)
	}
	return alikeElection(a, b)
}

// TestTheBytesAreThoseOfTheirProto: what is written by hand is what generated
// code writes, and what that writes is read.
func TestTheBytesAreThoseOfTheirProto(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		method, b := encoded(t, m)
		p := protoOf(t, method)
		if err := gproto.Unmarshal(b, p); err != nil {
			t.Fatal(err)
		}
		if len(p.ProtoReflect().GetUnknown()) > 0 {
			t.Fatalf("fields that the proto does not have: %v", p)
		}
		again, err := gproto.MarshalOptions{Deterministic: true}.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(method, again)
		if err != nil {
			t.Fatal(err)
		}
		if _, bytesAgain := encoded(t, got); !bytes.Equal(bytesAgain, b) {
			t.Fatalf("through generated code: %x, not %x", bytesAgain, b)
		}
	})
}

func TestCutMessagesAreRefused(t *testing.T) {
	fact := crdt.Fact{Task: id.ID{1}, Key: crdt.Key{Kind: crdt.KindUpdate, A: 1 << 40, B: 3}, Body: []byte("body")}
	method, b := encoded(t, &message.Facts{Parts: []message.PartFacts{{Partition: 5, Facts: []crdt.Fact{fact, fact}}}})
	for n := 3; n < len(b); n++ { // behind the first field
		if m, err := Decode(method, b[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d of %d bytes were read: %+v, %v", n, len(b), m, err)
		}
	}
	part := func(p *nornv1.PeerPart) []byte {
		b, err := gproto.Marshal(&nornv1.PeerFacts{Parts: []*nornv1.PeerPart{p}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	one := append(make([]byte, id.Size+3), 1, 'x')
	for name, b := range map[string][]byte{
		"more facts than said": part(&nornv1.PeerPart{Count: 1, Facts: append(one, one...)}),
		"fewer":                part(&nornv1.PeerPart{Count: 3, Facts: append(one, one...)}),
		"many more":            part(&nornv1.PeerPart{Count: 1 << 31, Facts: one}),
		"partition":            part(&nornv1.PeerPart{Partition: ring.MaxPartitions}),
		"long body":            part(&nornv1.PeerPart{Count: 1, Facts: binary.AppendUvarint(make([]byte, id.Size+3), crdt.MaxBody+1)}),
		"number too long":      part(&nornv1.PeerPart{Count: 1, Facts: append(make([]byte, id.Size+1), bytes.Repeat([]byte{255}, 20)...)}),
	} {
		if m, err := Decode(method, b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	if _, err := Decode(nornv1.PeerMethod(99), nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown method: %v", err)
	}
	if _, err := Decode(nornv1.PeerMethod_PEER_METHOD_FACTS, make([]byte, MaxMessage+1)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a message over the limit: %v", err)
	}
}

// TestLanes: what is small and urgent does not wait behind what is large, and an
// update not behind the completion that follows it.
func TestLanes(t *testing.T) {
	payload := func(n int) []byte { return make([]byte, n) }
	forward := func(m nornv1.Method, body gproto.Message) *message.Forward {
		return &message.Forward{Method: uint16(m), Body: body}
	}
	for i, c := range []struct {
		m    message.PeerMessage
		lane Lane
	}{
		{bulky(1, 1000), Control},
		{bulky(1, 100_000), Bulk},
		{numbered(1), Control},
		{&message.Repair{Message: &antientropy.Message{Kind: antientropy.KindHello}}, Bulk},
		{forward(nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{}), Control},
		{forward(nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Payload: payload(100_000)}}}), Bulk},
		{forward(nornv1.Method_METHOD_UPDATE, &nornv1.UpdateRequest{Data: payload(proto.MaxUpdateBytes)}), Control},
		{forward(nornv1.Method_METHOD_COMPLETE, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Result: payload(2 << 20)}}}), Bulk},
	} {
		_, p, lane, err := encode(c.m)
		if err != nil || lane != c.lane || lane == Control && p.Size() > maxFrame(Control) {
			t.Errorf("message %d goes on %v, not %v; %v", i, lane, c.lane, err)
		}
	}
}

// TestCountersOfAllQueuesTravel: with as many queues as can be configured a node still hears what
// the others count. Else `norn task count` has no answer, and only in a cluster.
func TestCountersOfAllQueuesTravel(t *testing.T) {
	reply := &nornv1.CountReply{Total: &nornv1.Count{}}
	for i := range config.MostQueues {
		reply.Queues = append(reply.Queues, &nornv1.Count{Queue: strconv.Itoa(i), Ready: 1, Total: 1})
	}
	method, b := encoded(t, &message.Forwarded{Number: 1, Method: uint16(nornv1.Method_METHOD_COUNT), Message: reply})
	m, err := Decode(method, b)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.(*message.Forwarded).Message.(*nornv1.CountReply); len(got.Queues) != config.MostQueues {
		t.Errorf("%d queues came", len(got.Queues))
	}
}

// TestFewBytesDoNotBecomeMany: what a decoded message takes is within some times
// of its bytes.
func TestFewBytesDoNotBecomeMany(t *testing.T) {
	facts := make([]crdt.Fact, 20_000)
	method, b := encoded(t, &message.Facts{Parts: []message.PartFacts{{Facts: facts}}})
	taken := testing.Benchmark(func(tb *testing.B) {
		tb.ReportAllocs()
		for tb.Loop() {
			if _, err := Decode(method, b); err != nil {
				tb.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if taken > 4*int64(len(b)) {
		t.Errorf("%d bytes became %d", len(b), taken)
	}
	var many []byte
	for range 2 * ring.MaxPartitions {
		many = append(many, 2<<3|2, 0)
	}
	if _, err := Decode(method, many); !errors.Is(err, ErrMalformed) {
		t.Errorf("%d empty parts: %v", 2*ring.MaxPartitions, err)
	}
	many = bytes.Repeat([]byte{1<<3 | 2, 0}, maxElements+1)
	for _, m := range []gproto.Message{&nornv1.PeerForward{Method: 3, Request: many}, &nornv1.PeerForwarded{Method: 3, Reply: many}} {
		b, err := gproto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		method := nornv1.PeerMethod_PEER_METHOD_FORWARD
		if _, ok := m.(*nornv1.PeerForwarded); ok {
			method = nornv1.PeerMethod_PEER_METHOD_FORWARDED
		}
		if _, err := Decode(method, b); !errors.Is(err, ErrMalformed) {
			t.Errorf("many empty elements: %v", err)
		}
	}
}

// FuzzDecode: what can be read is written as it was, and whatever one member says, the node
// goes on: it may cost itself, and no node.
func FuzzDecode(f *testing.F) {
	fact := crdt.Fact{Task: id.ID{1}, Key: crdt.Key{Kind: crdt.KindUpdate, A: 1 << 40, B: 3}, Body: []byte("body")}
	for _, m := range []message.PeerMessage{
		&message.Facts{Write: 300, Parts: []message.PartFacts{{Partition: 5, Facts: []crdt.Fact{fact, fact}}, {Partition: 4095}}},
		&message.FactsTaken{Write: 1, Refused: []ring.Partition{1, 4095}},
		&message.Repair{Partition: 9, Message: &antientropy.Message{Kind: antientropy.KindAnswer, Facts: []crdt.Fact{fact}}},
		&message.Repair{Message: &antientropy.Message{Kind: antientropy.KindRequest, Push: []crdt.Fact{fact}, Wants: make([]antientropy.Want, 2)}},
		&message.Forward{Number: 1, Method: 4, Wait: time.Second, Partitions: []ring.Partition{1, 2}, Body: &nornv1.ClaimRequest{}},
		&message.Forwarded{Number: 1, Method: 4, Message: &nornv1.ClaimReply{}, Grants: []message.GrantRef{{Partition: 3, Token: 9}}},
		&message.Forwarded{Number: 1, Method: 4, Err: proto.Invalid("no")},
		&message.Withdraw{Number: 1},
		&message.Dropped{Grants: []message.GrantRef{{Partition: 3, Token: 9}}},
		&message.Fetch{Number: 1, Epoch: 9},
		&message.Fetched{Number: 1, Facts: []crdt.Fact{fact}, Cohorts: [][]register.Member{{{Node: "n1"}}}},
		&message.RepairCompleted{Partition: 4095, Session: 1 << 60},
		&message.Roots{Session: 7, Hash: 1, Roots: []message.Root{{Partition: 3, Sum: crdt.Sum{1, 2}}, {Partition: 4095}}},
		&message.SameRoots{Session: 7, Partitions: []ring.Partition{3}}, &message.RootsCompleted{Session: 7, Age: time.Second, Partitions: []ring.Partition{3}},
		&message.Purge{Partition: 3, Epoch: 7, Tasks: []id.ID{{1}, {2}}},
		&message.QuarantineFacts{Partition: 3, Epoch: 7, Tasks: []id.ID{{1}, {2}}},
		&message.Cells{Ask: true, Cells: []message.KnownCell{{Partition: 4095, Cell: register.Cell{Epoch: 7, Nonce: 1, Cohort: []register.Member{{Node: "n1"}}}}}},
		&message.QueueHeads{Heads: []message.QueueHead{{Queue: "q"}, {Queue: "r", Ready: true}}},
		&message.Watch{Number: 7, Tasks: []id.ID{{1}, {2}}, Keep: []id.ID{{3}}},
		&message.Outcomes{Number: 7, Outcomes: []message.Outcome{{Task: id.ID{1}, State: crdt.StateDead}}},
		&message.DurabilityEpoch{Mark: 1 << 50},
		&message.Beat{}, &message.Beaten{Boot: 1, Seen: 1 << 50, Whole: true, Sound: true},
		&message.Claims{Round: 9, Parts: []message.PartClaims{{Partition: 1, Epoch: 3}}},
		&message.ClaimsTaken{Round: 9, Mark: 7},
		&message.Ballots{Ballots: []message.Ballot{{Partition: 1, Epoch: 4, Nonce: 7, Old: 3, From: []register.Member{who(3, 0)}, To: []register.Member{who(3, 0)}, Transfer: true}}},
		&message.Votes{Votes: []message.CastVote{{Vote: message.Vote{Partition: 1, Epoch: 3, Nonce: 1, Promise: 1 << 31}}}, Mark: 1},
		&message.Elect{Stand: []message.Stand{{Partition: 1, Epoch: 3, Nonce: 1, To: []register.Member{who(3, 0)}, Floor: 9}}},
	} {
		method, b := encoded(f, m)
		f.Add(uint16(method), b)
	}
	f.Fuzz(func(t *testing.T, method uint16, b []byte) {
		m, err := Decode(nornv1.PeerMethod(method), b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnknown) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		again, b2 := encoded(t, m)
		got, err := Decode(again, b2)
		if err != nil || again != nornv1.PeerMethod(method) {
			t.Fatalf("method %d: %v", again, err)
		}
		if _, b3 := encoded(t, got); !bytes.Equal(b3, b2) {
			t.Fatalf("%x became %x", b2, b3)
		}
		newVictim(t).lie(got)
	})
}

func FuzzHellos(f *testing.F) {
	for _, m := range []gproto.Message{
		&nornv1.PeerHello{MinVersion: MinVersion, MaxVersion: MaxVersion, From: node(who(1, 0)), To: node(who(2, 0)), Cluster: testCluster[:], Lane: 1},
		&nornv1.PeerJoin{MinVersion: MinVersion, MaxVersion: MaxVersion, Node: &nornv1.PeerMember{Node: node(who(1, 0)), Addresses: []string{"a:1"}, Zone: "z", Weight: 3}},
		&nornv1.PeerJoinReply{Cluster: testCluster[:], Partitions: 64, Replicas: 3, From: node(who(1, 0)), Members: []*nornv1.PeerMember{{Node: node(who(1, 0))}}},
	} {
		b, err := gproto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	n := New(Config{Self: who(2, 0), Cluster: testCluster})
	f.Cleanup(n.Close)
	f.Fuzz(func(t *testing.T, b []byte) {
		var hello nornv1.PeerHello
		if gproto.Unmarshal(b, &hello) == nil {
			if h, err := helloOf(&hello); err == nil {
				if reply, refusal := n.greet(&h, hello.GetSecret()); refusal == nil && (h.From == who(2, 0) || h.Cluster != testCluster || reply.GetVersion() != shares-1) {
					t.Errorf("let in: %+v", h)
				}
			}
		}
		var reply nornv1.PeerHelloReply
		if gproto.Unmarshal(b, &reply) == nil && n.agree(who(1, 0), &reply) == nil {
			if m, err := member(reply.GetFrom()); err != nil || m != who(1, 0) {
				t.Errorf("agreed with %v", &reply)
			}
		}
		var join nornv1.PeerJoin
		if gproto.Unmarshal(b, &join) == nil {
			if m, err := memberOf(join.GetNode()); err == nil && (m.Node == "" || len(m.Addresses) > 8) {
				t.Errorf("read %+v", m)
			}
		}
		var joined nornv1.PeerJoinReply
		if gproto.Unmarshal(b, &joined) == nil {
			if r, err := joinReplyOf(&joined); err == nil && (r.Cluster.Partitions < 0 || r.By.Incarnation == [16]byte{} && len(joined.GetFrom().GetIncarnation()) != 16) {
				t.Errorf("read %+v", r)
			}
		}
	})
}

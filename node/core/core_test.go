package core

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/workers"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func parse(t testing.TB, s string) id.ID {
	t.Helper()
	task, err := id.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func kindOf(reply message.Reply) nornv1.ErrorKind {
	if reply.Err == nil {
		return 0
	}
	return reply.Err.Kind
}

func TestLifeOfATask(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	if got := r.get(task); got.State != nornv1.State_STATE_READY || got.Queue != "q" || string(got.Payload) != "payload" {
		t.Fatalf("after enqueue: %v", got)
	}
	g := r.claim("q", 1)
	if len(g) != 1 || g[0].Task.Id != task.String() || g[0].Token>>32 != 1 {
		t.Fatalf("claim: %v", g)
	}
	if again := r.claim("q", 1); len(again) != 0 {
		t.Fatalf("a claimed task was claimed again: %v", again)
	}
	for seq := range uint64(2) {
		must[*nornv1.WriteReply](r, &nornv1.UpdateRequest{Id: task.Bytes(), Token: g[0].Token, Seq: seq, Data: []byte{byte(seq)}})
	}
	if res := r.complete(task, g[0].Token); res.Error != nil || res.Receipt.Existed {
		t.Fatalf("complete: %v", res)
	}
	if res := r.complete(task, g[0].Token); res.Error != nil || !res.Receipt.Existed {
		t.Fatalf("complete again: %v", res)
	}
	got := r.get(task)
	if got.State != nornv1.State_STATE_COMPLETED || len(got.Updates) != 2 || len(got.Claims) != 1 ||
		got.Claims[0].Outcome != nornv1.ClaimOutcome_CLAIM_OUTCOME_COMPLETED {
		t.Fatalf("at the end: %v", got)
	}
	r.audit()
}

// TestWalkThroughOfTheSkuldReadme is requirement 186: claim, wait past the
// lease, claim again, complete with the second token, show both claims.
func TestWalkThroughOfTheSkuldReadme(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("general"))[0]
	first := r.claim("general", 1)[0]
	r.pass(leaseTime + eta - 1)
	if g := r.claim("general", 1); len(g) != 0 {
		t.Fatalf("claimed again before lease and buffer had run: %v", g)
	}
	r.pass(1)
	second := r.claim("general", 1)
	if len(second) != 1 || second[0].Token <= first.Token {
		t.Fatalf("after the lease: %v, first token %d", second, first.Token)
	}
	r.complete(task, second[0].Token)
	got := r.get(task)
	if len(got.Claims) != 2 || got.Claims[0].Outcome != nornv1.ClaimOutcome_CLAIM_OUTCOME_EXPIRED ||
		got.Claims[1].Outcome != nornv1.ClaimOutcome_CLAIM_OUTCOME_COMPLETED || got.Attempts != 1 {
		t.Fatalf("claims at the end: %v", got)
	}
	r.audit()
}

func TestHighPriorityFirstThenOldest(t *testing.T) {
	r := newRig(t)
	var specs []*nornv1.TaskSpec
	for _, p := range []int32{0, -1 << 31, 5, 1<<31 - 1, 5, 0} {
		s := spec("q")
		s.Priority = p
		specs = append(specs, s)
	}
	ids := r.enqueue(specs...)
	var got []string
	for _, g := range r.claim("q", 10) {
		got = append(got, g.Task.Id)
	}
	for i, want := range []int{3, 2, 4, 0, 5, 1} {
		if i >= len(got) || got[i] != ids[want].String() {
			t.Fatalf("grant %d is not task %d: %v of %v", i, want, got, ids)
		}
	}
	r.audit()
}

func TestDelayedTaskWaitsForItsTime(t *testing.T) {
	r := newRig(t)
	s := spec("q")
	s.NotBefore = timestamppb.New(time.Unix(0, r.now.Wall).Add(time.Minute))
	task := r.enqueue(s)[0]
	if got := r.get(task); got.State != nornv1.State_STATE_SCHEDULED {
		t.Fatalf("state %v, want scheduled", got.State)
	}
	r.pass(time.Minute - 1)
	if g := r.claim("q", 1); len(g) != 0 {
		t.Fatalf("claimed before its time: %v", g)
	}
	r.pass(1)
	if g := r.claim("q", 1); len(g) != 1 {
		t.Fatal("not claimable at its time")
	}
	r.audit()
}

func TestFailureFollowsThePolicyUntilDead(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	for attempt, delay := range []time.Duration{time.Second, 2 * time.Second, 0} {
		g := r.claim("q", 1)
		if len(g) != 1 {
			t.Fatalf("attempt %d: nothing to claim, task is %v", attempt, r.get(task))
		}
		fail := &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g[0].Token, Error: "boom"}}}
		res := must[*nornv1.WriteReply](r, fail).Results[0]
		again := must[*nornv1.WriteReply](r, fail).Results[0]
		if again.Error != nil || !again.Receipt.Existed || again.State != res.State {
			t.Fatalf("attempt %d repeated: %v, first %v", attempt, again, res)
		}
		if attempt == 2 {
			if res.State != nornv1.State_STATE_DEAD {
				t.Fatalf("after the last attempt: %v", res)
			}
			break
		}
		if res.State != nornv1.State_STATE_SCHEDULED {
			t.Fatalf("attempt %d: %v", attempt, res)
		}
		r.pass(delay - 1)
		if g := r.claim("q", 1); len(g) != 0 {
			t.Fatalf("attempt %d: claimable before the back-off of %v", attempt, delay)
		}
		r.pass(1)
	}
	if got := r.get(task); got.State != nornv1.State_STATE_DEAD || got.Attempts != 3 || got.Error != "out of attempts (3): boom" {
		t.Fatalf("dead task: %v", got)
	}
	r.audit()
}

// A text that is cut stays text: what is none could be in no answer any more, not even
// in one that grants the task.
func TestLongErrorIsCutBetweenCharacters(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	text := strings.Repeat("é", proto.MaxErrorBytes) + "!"
	r.ask(&nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: r.claim("q", 1)[0].Token, Error: text}}})
	got := r.get(task)
	if n := len(got.Error); n > proto.MaxErrorBytes || n < proto.MaxErrorBytes-1 || !strings.HasSuffix(text, got.Error) {
		t.Errorf("%d bytes of the error are kept, at most %d", n, proto.MaxErrorBytes)
	}
	if _, err := gproto.Marshal(got); err != nil {
		t.Error(err)
	}
}

func TestReleaseAndUncountedFailureCostNoAttempt(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	g := r.claim("q", 1)[0]
	release := &nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: task.Bytes(), Token: g.Token}}}
	for _, existed := range []bool{false, true} {
		if res := must[*nornv1.WriteReply](r, release).Results[0]; res.Error != nil || res.Receipt.Existed != existed {
			t.Fatalf("release (existed %v): %v", existed, res)
		}
	}
	g = r.claim("q", 1)[0]
	must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{{
		Id: task.Bytes(), Token: g.Token, Uncounted: true, RetryAt: timestamppb.New(time.Unix(0, r.now.Wall+1)),
	}}})
	r.pass(1)
	if g := r.claim("q", 1); len(g) != 1 || g[0].Task.Attempts != 0 {
		t.Fatalf("after release and uncounted failure: %v", g)
	}
	r.audit()
}

// TestAWorkersClockDoesNotMoveItsTasks: a worker whose clock is wrong says after how long a
// task is to be retried, by a call or in its session.
func TestAWorkersClockDoesNotMoveItsTasks(t *testing.T) {
	for _, wrong := range []time.Duration{-time.Hour, time.Hour} {
		r := newRig(t)
		task := r.enqueue(spec("q"))[0]
		f := func(in float64) *nornv1.Failure {
			at := timestamppb.New(time.Unix(0, r.now.Wall).Add(wrong + time.Minute))
			return &nornv1.Failure{Id: task.Bytes(), Token: r.claim("q", 1)[0].Token, RetryAt: at, RetryInSeconds: in}
		}
		due := func(what string) {
			t.Helper()
			got := must[*nornv1.GetReply](r, &nornv1.GetRequest{Id: task.Bytes()}).Task
			if in := got.GetNotBefore().AsTime().Sub(time.Unix(0, r.now.Wall)); in != time.Minute {
				t.Errorf("the clock is wrong by %v: by %s it is due in %v", wrong, what, in)
			}
		}
		must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{f(60)}})
		due("a call")
		r.pass(time.Minute)
		own := f(60)
		end := session.End{Kind: session.EndFailed, RetryAt: own.RetryAt.AsTime().UnixNano(), RetryIn: time.Minute}
		said := workers.Failure(&session.Settle{Claim: session.Claim{Task: task, Token: own.Token}, End: end}, 0)
		must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{said}})
		due("a session")
		r.pass(time.Minute)
		for _, in := range []float64{-1, math.NaN(), math.Inf(1), 101 * 366 * 24 * 3600} {
			bad := &nornv1.Failure{Id: task.Bytes(), Token: own.Token, RetryInSeconds: in}
			if res := must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{bad}}).Results[0]; res.GetError().GetKind() != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
				t.Errorf("retried in %v: %v", in, res)
			}
		}
	}
}

// TestPausesOfWhatIsPutOffGrow: a task that is put off again and again without using an
// attempt, and without saying for how long, is not claimed each second for ever: each
// claim stays in its history (track record).
func TestPausesOfWhatIsPutOffGrow(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	for n := range 6 {
		grants := r.claim("q", 1)
		if len(grants) != 1 || grants[0].Task.Attempts != 0 {
			t.Fatalf("time %d: %v", n, grants)
		}
		must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: grants[0].Token, Uncounted: true}}})
		r.pass(time.Second<<n - 10*time.Millisecond)
		if early := r.claim("q", 1); len(early) > 0 {
			t.Fatalf("time %d: it is back before %v", n, time.Second<<n)
		}
		r.pass(20 * time.Millisecond)
	}
}

func TestLateCompletionWinsAndSticks(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	first := r.claim("q", 1)[0]
	r.pass(leaseTime + eta)
	second := r.claim("q", 1)[0]
	if res := r.complete(task, first.Token); res.Error != nil {
		t.Fatalf("late completion refused: %v", res)
	}
	renew := must[*nornv1.RenewReply](r, &nornv1.RenewRequest{Claims: []*nornv1.ClaimRef{{Id: task.Bytes(), Token: second.Token}}}).Results[0]
	if renew.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST {
		t.Fatalf("renewal on a finished task: %v", renew)
	}
	r.crash(time.Second)
	r.pass(2 * (leaseTime + eta))
	if g := r.claim("q", 1); len(g) != 0 {
		t.Fatalf("a completed task was granted: %v", g)
	}
	r.audit()
}

func TestFactsBeforeTheirEnqueueAreKept(t *testing.T) {
	r := newRig(t)
	task := r.ids.Next(r.now.Wall)
	if res := r.complete(task, 1<<32|1); res.Error != nil {
		t.Fatalf("completion before the enqueue: %v", res)
	}
	s := spec("q")
	s.Id = task.Bytes()
	r.enqueue(s)
	if got := r.get(task); got.State != nornv1.State_STATE_COMPLETED {
		t.Fatalf("state %v, want completed", got.State)
	}
	if g := r.claim("q", 1); len(g) != 0 {
		t.Fatalf("granted: %v", g)
	}
	r.audit()
}

func TestSameIDOtherSpecIsAConflict(t *testing.T) {
	r := newRig(t)
	s := spec("q")
	task := r.enqueue(s)[0]
	again := must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0]
	if again.Error != nil || !again.Receipt.Existed {
		t.Fatalf("same spec again: %v", again)
	}
	other := spec("q")
	other.Id, other.Payload = task.Bytes(), []byte("other")
	clash := must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{other}}).Results[0]
	if clash.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS || len(clash.StoredDigest) != 16 {
		t.Fatalf("other spec: %v", clash)
	}
	if n := must[*nornv1.CountReply](r, &nornv1.CountRequest{}).Total; n.Total != 1 || n.Ready != 1 {
		t.Fatalf("count: %v", n)
	}
}

func TestTokensRiseOverRestarts(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	last := uint64(0)
	for range 5 {
		g := r.claim("q", 1)
		if len(g) != 1 || g[0].Token <= last {
			t.Fatalf("grant %v after token %d", g, last)
		}
		last = g[0].Token
		must[*nornv1.WriteReply](r, &nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: task.Bytes(), Token: last}}})
		r.crash(0)
	}
	r.audit()
}

func TestClaimIsHeldOverARestart(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	g := r.claim("q", 1)[0]
	r.crash(time.Hour) // the wall clock alone frees nothing in a cluster of one
	if g := r.claim("q", 1); len(g) != 0 {
		t.Fatalf("granted while the claim may be held: %v", g)
	}
	renew := must[*nornv1.RenewReply](r, &nornv1.RenewRequest{Claims: []*nornv1.ClaimRef{{Id: task.Bytes(), Token: g.Token}}}).Results[0]
	if renew.Error != nil {
		t.Fatalf("the worker could not go on after the restart: %v", renew.Error)
	}
	r.pass(leaseTime + eta)
	if g := r.claim("q", 1); len(g) != 1 {
		t.Fatal("not freed after lease and buffer")
	}
	r.audit()
}

func TestLogFollowsUpdatesUntilTheEnd(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	g := r.claim("q", 1)[0]
	follow := r.send(5, &nornv1.LogRequest{Id: task.Bytes(), WaitSeconds: 60})
	r.turn()
	if _, ok := r.replies[follow]; ok {
		t.Fatal("answered without an update")
	}
	// Update 1 is hidden until update 0 is there (requirement 49).
	must[*nornv1.WriteReply](r, &nornv1.UpdateRequest{Id: task.Bytes(), Token: g.Token, Seq: 1, Data: []byte("one")})
	if _, ok := r.replies[follow]; ok {
		t.Fatal("an update behind a gap was shown")
	}
	must[*nornv1.WriteReply](r, &nornv1.UpdateRequest{Id: task.Bytes(), Token: g.Token, Seq: 0, Data: []byte("zero")})
	if m := r.replies[follow].Message.(*nornv1.LogReply); len(m.Updates) != 2 {
		t.Fatalf("log: %v", m)
	}
	last := r.send(5, &nornv1.LogRequest{Id: task.Bytes(), WaitSeconds: 60, After: true, AfterToken: g.Token, AfterSeq: 1})
	r.turn()
	r.complete(task, g.Token)
	if m := r.replies[last].Message.(*nornv1.LogReply); len(m.Updates) != 0 || m.State != nornv1.State_STATE_COMPLETED {
		t.Fatalf("end of the log: %v", m)
	}
}

func TestNothingIsSaidBeforeItIsDurable(t *testing.T) {
	r := newRig(t)
	r.hold = true
	r.send(1, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q")}})
	r.turn()
	if len(r.replies) != 0 || len(r.held) != 1 {
		t.Fatalf("before the sync: %d replies left, %d held", len(r.replies), len(r.held))
	}
	r.crash(0)
	if n := must[*nornv1.CountReply](r, &nornv1.CountRequest{}).Total.Total; n != 0 {
		t.Fatalf("%d tasks survived without a sync", n)
	}
	r.audit()
}

func TestBadRequestsHaveNoEffect(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	future := r.ids.Next(r.now.Wall + int64(eta) + int64(time.Second)).Bytes()
	past := id.NewGenerator(1, r.rand.Uint64).Next(r.now.Wall - int64(8*24*time.Hour)).Bytes()
	launch := id.Launch([16]byte{}, [16]byte{}, r.now.Wall).Bytes()
	bad := map[string]*nornv1.TaskSpec{
		"queue name":    {Queue: "no spaces"},
		"empty queue":   {},
		"short ID":      {Queue: "q", Id: []byte("short")},
		"future ID":     {Queue: "q", Id: future},
		"old ID":        {Queue: "q", Id: past},
		"launch ID":     {Queue: "q", Id: launch},
		"payload":       {Queue: "q", Payload: make([]byte, 1<<20+1)},
		"dependencies":  {Queue: "q", Dependencies: make([][]byte, proto.MaxDependencies+1)},
		"unknown enum":  {Queue: "q", OnDependencyFailure: 17},
		"header":        {Queue: "q", Headers: map[string]string{"": "x"}},
		"self as own":   {Queue: "q", Id: task.Bytes(), Dependencies: [][]byte{task.Bytes()}},
		"retry":         {Queue: "q", Retry: &nornv1.RetryPolicy{Jitter: 2}},
		"not_before":    {Queue: "q", NotBefore: &timestamppb.Timestamp{Seconds: -1}},
		"window no key": {Queue: "q", KeyWindowSeconds: 3},
	}
	for name, s := range bad {
		if res := must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0]; res.Error == nil || res.Receipt != nil {
			t.Errorf("%s: %v", name, res)
		} else if res.Error.Effect != nornv1.Effect_EFFECT_NONE {
			t.Errorf("%s: effect %v, want none", name, res.Error.Effect)
		}
	}
	if k := kindOf(r.ask(&nornv1.EnqueueRequest{})); k != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Errorf("empty batch: %v", k)
	}
	if k := kindOf(r.ask(&nornv1.EnqueueRequest{Tasks: make([]*nornv1.TaskSpec, proto.MaxBatchTasks+1)})); k != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Errorf("too many tasks: %v", k)
	}
	for name, lease := range map[string]float64{"short": 0.5, "long": 25 * 3600, "negative": -1} {
		if k := kindOf(r.ask(&nornv1.ClaimRequest{Queues: []string{"q"}, LeaseSeconds: lease})); k != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			t.Errorf("%s lease: %v", name, k)
		}
	}
	three := &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q")}, Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_COUNT, Copies: 3}}
	if k := kindOf(r.ask(three)); k != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("three copies in a cluster of one: %v", k)
	}
	if n := must[*nornv1.CountReply](r, &nornv1.CountRequest{}).Total; n.Total != 1 || n.Ready != 1 {
		t.Fatalf("after all bad requests: %v", n)
	}
	r.audit()
}

func TestFullDiskRefusesEnqueuesAndTakesCompletions(t *testing.T) {
	r := newRig(t)
	r.core.intake.Disk.Least = 1000
	task := r.enqueue(spec("q"))[0]
	g := r.claim("q", 1)[0]
	r.step(message.DiskSpace{Free: 999})
	if k := kindOf(r.ask(&nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q")}})); k != nornv1.ErrorKind_ERROR_KIND_DISK_FULL {
		t.Fatalf("enqueue on a full disk: %v", k)
	}
	if res := r.complete(task, g.Token); res.Error != nil {
		t.Fatalf("completion on a full disk: %v", res.Error)
	}
	r.step(message.DiskSpace{Free: 999, Reserve: 999}) // of a small volume less is kept
	r.enqueue(spec("q"))
}

// TestWhatIsWrittenCounts: what is stored between two looks at the disk counts, so that a
// burst does not fill it before the next one.
func TestWhatIsWrittenCounts(t *testing.T) {
	r := newRig(t)
	r.step(message.DiskSpace{Free: 1 << 20, Reserve: 512 << 10})
	big := func() *nornv1.EnqueueRequest {
		s := spec("q")
		s.Payload = make([]byte, 100<<10)
		return &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}
	}
	for i := range 10 {
		if e := r.ask(big()).Err; e != nil {
			if i < 2 || i > 5 || !strings.Contains(e.Message, "disk-reserve (0.5 MiB here)") || !strings.Contains(e.Message, "0.4 MiB are free") {
				t.Fatalf("task %d: %v", i, e)
			}
			return
		}
	}
	t.Error("ten times a tenth of the disk was taken")
}

func TestListPagesInIDOrder(t *testing.T) {
	r := newRig(t)
	var want []id.ID
	for range 25 {
		want = append(want, r.enqueue(spec("q"), spec("other"))[0])
	}
	var got []id.ID
	var cursor []byte
	for pages := 0; ; pages++ {
		m := must[*nornv1.ListReply](r, &nornv1.ListRequest{Queue: "q", Limit: 7, Cursor: cursor})
		for _, task := range m.Tasks {
			got = append(got, parse(t, task.Id))
		}
		if cursor = m.NextCursor; len(cursor) == 0 {
			break
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d tasks listed, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("place %d: %v, want %v", i, got[i], want[i])
		}
	}
}

// TestHeadsOverflow claims far more tasks than heads keep in memory.
func TestHeadsOverflow(t *testing.T) {
	r := newRig(t)
	const n = 300
	for range n / 10 {
		specs := make([]*nornv1.TaskSpec, 10)
		for i := range specs {
			specs[i] = spec("q")
			specs[i].Priority = int32(r.rand.IntN(5))
		}
		r.enqueue(specs...)
	}
	r.crash(0)
	last, seen := int32(1<<31-1), map[string]bool{}
	for len(seen) < n {
		g := r.claim("q", 7)
		if len(g) == 0 {
			t.Fatalf("dry after %d of %d", len(seen), n)
		}
		for _, g := range g {
			if g.Task.Priority > last {
				t.Fatalf("priority %d after %d", g.Task.Priority, last)
			}
			if seen[g.Task.Id] {
				t.Fatalf("task %s granted twice", g.Task.Id)
			}
			last, seen[g.Task.Id] = g.Task.Priority, true
		}
	}
	r.audit()
}

func TestLimitsAreSaid(t *testing.T) {
	r := newRig(t)
	r.core.dispatch.MaxClaims, r.core.queues.MaxQueues, r.core.dispatch.MaxWaiters = 2, 2, 1
	r.enqueue(spec("a"), spec("a"), spec("a"), spec("b"))
	res := must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("c"), spec("a")}}).Results
	if res[0].Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_OVERLOADED || !res[0].Error.GetLasting() || res[1].Error != nil {
		t.Errorf("a third queue: %v, a known one: %v", res[0], res[1])
	}
	r.claim("a", 2)
	if k := kindOf(r.ask(&nornv1.ClaimRequest{Queues: []string{"a"}})); k != nornv1.ErrorKind_ERROR_KIND_OVERLOADED {
		t.Errorf("a third claim: %v", k)
	}
	r.core.dispatch.MaxClaims = 100
	r.send(1, &nornv1.ClaimRequest{Queues: []string{"none"}, WaitSeconds: 5})
	if k := kindOf(r.ask(&nornv1.ClaimRequest{Queues: []string{"none"}, WaitSeconds: 5})); k != nornv1.ErrorKind_ERROR_KIND_OVERLOADED {
		t.Errorf("a second waiting request: %v", k)
	}
}

// TestALimitEndsAWait: that there was nothing in time is not so where claims are at their
// limit; who asks then is told so, and who has waited for it has to be.
func TestALimitEndsAWait(t *testing.T) {
	r := newRig(t)
	r.core.dispatch.MaxClaims = 1
	first := r.send(2, &nornv1.ClaimRequest{Queues: []string{"a"}, WaitSeconds: 5})
	second := r.send(3, &nornv1.ClaimRequest{Queues: []string{"a"}, WaitSeconds: 5})
	other := r.send(4, &nornv1.ClaimRequest{Queues: []string{"b"}, WaitSeconds: 5})
	r.enqueue(spec("a"), spec("a"))
	if m, _ := r.replies[first].Message.(*nornv1.ClaimReply); len(m.GetGrants()) != 1 {
		t.Fatalf("the first one: %v", r.replies[first])
	}
	r.pass(6 * time.Second)
	if k := kindOf(r.replies[second]); k != nornv1.ErrorKind_ERROR_KIND_OVERLOADED {
		t.Errorf("the second one, for which there is a task: %v", r.replies[second])
	}
	if reply := r.replies[other]; reply.Err != nil || reply.Message == nil {
		t.Errorf("of a queue with nothing: %v", reply)
	}
}

// TestWaitingForNamesFillsNothing: a client that waits for ever new queue names
// must not leave anything behind.
// TestLongLogStillFitsAGrant: a task that was updated a lot must not become one
// that no answer can carry.
func TestLongLogStillFitsAGrant(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	g := r.claim("q", 1)[0]
	for seq := range uint64(200) {
		must[*nornv1.WriteReply](r, &nornv1.UpdateRequest{Id: task.Bytes(), Token: g.Token, Seq: seq, Data: make([]byte, 1000)})
	}
	must[*nornv1.WriteReply](r, &nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: task.Bytes(), Token: g.Token}}})
	again := r.claim("q", 1)[0]
	u := again.Task.Updates
	if len(u) == 0 || len(u) > 70 || u[len(u)-1].Seq != 199 || len(again.Checkpoint) != 1000 {
		t.Fatalf("%d updates in the grant, checkpoint of %d bytes", len(u), len(again.Checkpoint))
	}
	if all := r.get(task).Updates; len(all) != 200 {
		t.Fatalf("%d updates when read by itself", len(all))
	}
}

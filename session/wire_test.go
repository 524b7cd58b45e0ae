package session

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	gproto "google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// overWire takes a frame through its bytes and back.
func (w *world) overWire(m Message, toWorker bool) Message {
	again, err := throughWire(m, toWorker)
	if err != nil || len(again) != 1 {
		w.check.fail(w, "%v over the wire: %v, %d frames", m.Body.Kind(), err, len(again))
		return m
	}
	return again[0]
}

func throughWire(m Message, toWorker bool) ([]Message, error) {
	if !toWorker {
		b, err := gproto.Marshal(Bundle(m.Instance, m.Association, 0, []Message{m}, 0))
		if err != nil {
			return nil, err
		}
		r := &nornv1.SessionRequest{}
		if err := gproto.Unmarshal(b, r); err != nil {
			return nil, err
		}
		return Unbundle(r)
	}
	reply, err := BundleReply([]Message{m})
	if err != nil {
		return nil, err
	}
	b, err := gproto.Marshal(reply)
	if err != nil {
		return nil, err
	}
	r := &nornv1.SessionReply{}
	if err := gproto.Unmarshal(b, r); err != nil {
		return nil, err
	}
	return UnbundleReply(m.Instance, r)
}

// TestWorldsOverTheWire runs the simulation with every frame through its bytes.
func TestWorldsOverTheWire(t *testing.T) {
	for seed := uint64(1); seed <= 4; seed++ {
		w := newWorld(seed)
		w.badNet()
		w.wire = true
		w.run(10 * time.Second)
		if len(w.check.broken) > 0 {
			t.Fatalf("seed %d: %s", seed, strings.Join(w.check.broken, "\n"))
		}
	}
}

type gen struct{ *rapid.T }

func (g gen) num(name string) uint64 { return rapid.Uint64Range(1, 1<<63).Draw(g.T, name) }
func (g gen) flag(name string) bool  { return rapid.Bool().Draw(g.T, name) }
func (g gen) span(name string) time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(g.T, name))
}
func (g gen) text(name string) string { return rapid.StringN(0, 20, 60).Draw(g.T, name) }
func (g gen) claim(name string) Claim {
	return Claim{Task: id.ID(rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(g.T, name)), Token: g.num(name)}
}

func (g gen) claims(name string) (all []Claim) {
	for range rapid.IntRange(0, 3).Draw(g.T, name) {
		all = append(all, g.claim(name))
	}
	return all
}

func (g gen) timeouts() Timeouts {
	return Timeouts{1 + g.span("period")/48, g.span("gap") / 24, g.span("check gap") / 24, g.span("lose") / 24}
}

func (g gen) fromWorker() Body {
	switch rapid.IntRange(0, 6).Draw(g.T, "kind") {
	case 0:
		return &Heartbeat{
			Identity:   Identity{Name: "n" + g.text("name"), Machine: g.text("machine"), Lock: g.text("lock"), Started: int64(g.num("started") >> 1)},
			MinVersion: 1, MaxVersion: uint32(rapid.Uint32Range(1, 9).Draw(g.T, "version")),
			Capacity: Capacity{Slots: 1 + rapid.IntRange(0, 99).Draw(g.T, "slots"), Prefetch: rapid.IntRange(0, 99).Draw(g.T, "prefetch"), Queues: []QueueSlots{{"q", 3, 0}, {"r", 0, 7}}, Lease: time.Second + g.span("lease")/2},
			Timeouts: g.timeouts(), Stop: g.span("stop") / 24, Grace: g.span("grace") / 24, Settled: g.flag("settled"), Draining: g.flag("draining"),
			Checked: g.num("checked"), Set: SetVersion{g.num("set"), g.num("hash")}, Claims: g.claims("claims"),
		}
	case 1:
		return &RunningTasks{Request: g.num("request"), Held: []Held{{g.claim("held"), "q", g.span("lease"), g.flag("ended")}}}
	case 2:
		return &RunReply{Push: g.num("push"), Claim: g.claim("claim"), Refused: Refusal(rapid.Uint8().Draw(g.T, "refused"))}
	case 3:
		return &NotifyReply{Seq: g.num("seq"), Ended: g.claims("ended")}
	case 4:
		return &UpdateStatus{Claim: g.claim("claim"), End: End{
			Kind: EndKind(rapid.Uint8Range(1, 5).Draw(g.T, "end")), Seq: g.num("seq"), AutoSeq: g.flag("auto"), Result: []byte("r" + g.text("result")),
			Error: g.text("error"), RetryAt: int64(g.num("retry") >> 2), RetryIn: g.span("retry in"), Uncounted: g.flag("uncounted"), Discard: g.flag("discard"),
		}}
	case 5:
		return &LogLines{Request: g.num("request"), Claim: g.claim("claim"), First: g.num("first"), Lines: []string{"a\xff", g.text("line")}, Known: g.flag("known"), Ended: g.flag("ended")}
	}
	return &Leave{Dying: g.flag("dying")}
}

func (g gen) fromDispatcher() Body {
	switch rapid.IntRange(0, 9).Draw(g.T, "kind") {
	case 0:
		return &HeartbeatReply{
			Echo: int64(g.num("echo") >> 1), Version: 1, Refused: Refusal(rapid.Uint8().Draw(g.T, "refused")), Text: g.text("text"), Good: g.flag("good"),
			Timeouts: g.timeouts(), Checked: g.num("checked"), Set: SetVersion{g.num("set"), g.num("hash")}, Drain: g.flag("drain"),
			Cancelled: []Stop{{g.claim("stop"), Cause(rapid.Uint8().Draw(g.T, "cause"))}},
		}
	case 1:
		return &Renewed{Echo: int64(g.num("echo") >> 1), Items: []Renewal{{g.claim("renewed"), g.span("lease"), CauseNone}, {g.claim("lost"), 0, CauseCancelled}}}
	case 2:
		return &GetRunningTasks{Request: g.num("request")}
	case 3:
		c, lease := g.claim("claim"), g.span("lease")
		return &RunTask{Push: g.num("push"), Claim: c, Queue: "q", Echo: 7, Waited: g.span("waited"), Lease: lease, Grant: &nornv1.Grant{
			Task: &nornv1.Task{Id: c.Task.String(), Queue: "q"}, Token: c.Token, LeaseSeconds: lease.Seconds(),
		}}
	case 4:
		return &RunTask{Push: g.num("push"), Check: g.num("check"), Queue: HealthQueue, Echo: 7, Waited: g.span("waited")}
	case 5:
		return &Notify{Seq: g.num("seq"), Claims: []Question{{g.claim("asked"), g.span("lease")}}}
	case 6:
		return &KillTask{Claim: g.claim("claim"), Lease: g.span("lease"), Cause: CauseKilled}
	case 7:
		return &StatusAck{Claim: g.claim("claim"), Lost: g.flag("lost"), State: nornv1.State(g.num("state") % 7)}
	case 8:
		return &GetLogLines{Request: g.num("request"), Claim: g.claim("claim"), After: g.num("after"), Limit: 5}
	}
	return &Suicide{Reason: g.text("reason"), Final: g.flag("final")}
}

// TestWireRoundTrip: what one side says is what the other hears, to the nanosecond.
func TestWireRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := gen{rt}
		toWorker := g.flag("to worker")
		m := Message{Instance: Instance{1, 2}, Association: max(1, g.num("association")&proto.MaxAssociation)}
		if toWorker {
			m.Body = g.fromDispatcher()
		} else {
			m.Body, m.Stamp = g.fromWorker(), int64(g.num("stamp")>>1)+1
		}
		if h, ok := m.Body.(*Heartbeat); ok {
			h.Identity.Instance = m.Instance
		}
		got, err := throughWire(m, toWorker)
		if err != nil || len(got) != 1 {
			rt.Fatalf("%v: %v, %d messages", m.Body.Kind(), err, len(got))
		}
		if r, ok := m.Body.(*RunTask); ok { // messages of protobuf are compared by its rules
			other := got[0].Body.(*RunTask)
			if !gproto.Equal(r.Grant, other.Grant) {
				rt.Fatalf("grant %v became %v", r.Grant, other.Grant)
			}
			r.Grant = other.Grant
		}
		if !reflect.DeepEqual(m, got[0]) {
			rt.Fatalf("%+v\nbecame\n%+v", m.Body, got[0].Body)
		}
	})
}

// TestEnumsAgree: the numbers of the wire are those of the machines.
func TestEnumsAgree(t *testing.T) {
	word := func(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) }
	for n, name := range nornv1.SessionRefusal_name {
		if want := "SESSION_REFUSAL_" + word(Refusal(n).String()); n != 0 && name != want {
			t.Errorf("refusal %d is %s and %s", n, name, want)
		}
	}
	for n, name := range nornv1.SessionEndKind_name {
		if want := "SESSION_END_" + word(EndKind(n).String()); n != 0 && name != want {
			t.Errorf("end %d is %s and %s", n, name, want)
		}
	}
	for n, name := range nornv1.SessionCause_name {
		if want := "SESSION_CAUSE_" + word(Cause(n).String()); n != 0 && name != want {
			t.Errorf("cause %d is %s and %s", n, name, want)
		}
	}
	if len(nornv1.SessionRefusal_name) != len(refusalNames) || len(nornv1.SessionEndKind_name) != len(endNames) || len(nornv1.SessionCause_name) != len(causeNames) {
		t.Errorf("one side has more values than the other")
	}
}

// TestBundles: what is not known is left out, and says its stamp all the same.
func TestBundles(t *testing.T) {
	r := Bundle(Instance{9}, 3, 77, nil, time.Second)
	got, err := Unbundle(r)
	if err != nil || len(got) != 1 || got[0].Body != nil || got[0].Stamp != 77 || got[0].Association != 3 {
		t.Errorf("an empty frame: %+v, %v", got, err)
	}
	r.Messages = []*nornv1.WorkerMessage{{}}
	if got, err := Unbundle(r); err != nil || len(got) != 1 || got[0].Body != nil {
		t.Errorf("a message of the future: %+v, %v", got, err)
	}
	reply := &nornv1.SessionReply{Association: 3, Messages: []*nornv1.DispatcherMessage{{}}}
	if got, err := UnbundleReply(Instance{9}, reply); err != nil || len(got) != 0 {
		t.Errorf("a message of the future to a worker: %+v, %v", got, err)
	}
	many := make([]Message, 2500)
	for n := range many {
		many[n].Body = &UpdateStatus{End: End{Kind: EndCompleted, Result: make([]byte, 100)}}
	}
	if n := Fit(many); n != proto.MaxSessionMessages || Fit(many[2000:]) != 500 || Fit(nil) != 0 {
		t.Errorf("%d, %d and %d messages fit", n, Fit(many[2000:]), Fit(nil))
	}
	large := make([]byte, proto.MaxUpdateBytes)
	for n := range many {
		many[n].Body = &UpdateStatus{End: End{Kind: EndCompleted, Result: large}}
	}
	if n := Fit(many); n < 1 || n > 8 {
		t.Errorf("%d results of 1 MiB fit", n)
	}
	old := Message{Association: 2, Body: &Suicide{Reason: "old"}}
	if r, err := BundleReply([]Message{old, {Association: 3, Body: &LeaveAck{}}}); err != nil || len(r.Messages) != 1 || r.Messages[0].GetLeaveAck() == nil {
		t.Errorf("messages of two associations: %v, %v", r, err)
	}
	if _, err := BundleReply([]Message{{Body: &RunTask{Push: 1}}}); !errors.Is(err, ErrWire) {
		t.Errorf("a task without its grant: %v", err)
	}
}

// FuzzFrames: no bytes break the mapping or the machines; what is taken breaks no
// limit.
func FuzzFrames(f *testing.F) {
	some := Claim{simTask(1), 5}
	for _, m := range []Message{
		{Body: &Heartbeat{Identity: Identity{Name: "n"}, MinVersion: 1, MaxVersion: 1, Capacity: Capacity{Slots: 1, Prefetch: 1, Queues: []QueueSlots{{"q", 0, 0}}}, Claims: []Claim{some}}},
		{Body: &UpdateStatus{Claim: some, End: End{Kind: EndCompleted}}},
		{Body: &Leave{}},
	} {
		b, err := gproto.Marshal(Bundle(Instance{1}, 1, 5, []Message{m}, 0))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, true)
	}
	reply, err := BundleReply([]Message{
		{Association: 1, Body: &HeartbeatReply{Echo: 1, Version: 1, Good: true, Timeouts: DefaultTimeouts}},
		{Association: 1, Body: &Notify{Seq: 1, Claims: []Question{{some, time.Second}}}},
		{Association: 1, Body: &RunTask{Push: 1, Check: 1}},
	})
	if err != nil {
		f.Fatal(err)
	}
	b, err := gproto.Marshal(reply)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, false)
	f.Fuzz(func(t *testing.T, b []byte, up bool) {
		now := clock.Time{Mono: 1e9}
		if up {
			d, _ := NewDispatcher(DispatcherConfig{})
			r := &nornv1.SessionRequest{}
			if gproto.Unmarshal(b, r) != nil {
				return
			}
			all, err := Unbundle(r)
			if (err != nil) != (proto.CheckSession(r) != nil) {
				t.Fatalf("one check passes, the other does not: %v", err)
			}
			for _, m := range all {
				d.Step(now, m)
				_ = d.Ready()
			}
			return
		}
		w := aWorker(t, 1)
		w.Turn(now)
		r := &nornv1.SessionReply{}
		if gproto.Unmarshal(b, r) != nil {
			return
		}
		all, _ := UnbundleReply(w.cfg.Identity.Instance, r)
		for _, m := range all {
			w.Step(now, m)
			for _, m := range w.Ready().Send {
				if err := proto.CheckSession(Bundle(m.Instance, m.Association, m.Stamp, []Message{m}, 0)); err != nil {
					t.Fatalf("%s makes the worker say what no node takes: %s", fmt.Sprint(m.Body.Kind()), err.Message)
				}
			}
		}
	})
}

// TestTimeoutsThatNoNodeTakes: a worker that went by those of a node that says two
// hours would be refused by every other one.
func TestTimeoutsThatNoNodeTakes(t *testing.T) {
	for _, gap := range []time.Duration{proto.MaxSessionTimeout, 2 * proto.MaxSessionTimeout} {
		now := clock.Time{Mono: 1e9}
		w := aWorker(t, 1)
		w.Turn(now)
		_ = w.Ready()
		told := DefaultTimeouts
		told.CheckGap = gap
		w.Step(now, Message{Instance: Instance{1}, Association: 1, Body: &HeartbeatReply{Echo: w.stamp, Version: 1, Good: true, Timeouts: told}})
		if joined := gap <= proto.MaxSessionTimeout; w.Info().Joined != joined {
			t.Errorf("%v: joined is %v", gap, w.Info().Joined)
		}
		now.Mono += int64(2 * DefaultTimeouts.Period)
		w.Tick(now)
		beats := 0
		for _, m := range w.Ready().Send {
			beats++
			if err := proto.CheckSession(Bundle(m.Instance, m.Association, m.Stamp, []Message{m}, 0)); err != nil {
				t.Errorf("%v: a heartbeat that no node takes: %s", gap, err.Message)
			}
		}
		if beats == 0 {
			t.Errorf("%v: no heartbeat", gap)
		}
	}
}

func aWorker(t testing.TB, slots int) *Worker {
	w, err := NewWorker(WorkerConfig{
		Identity: Identity{Name: "w", Instance: Instance{1}},
		Capacity: Capacity{Slots: slots, Queues: []QueueSlots{{"q", 0, 0}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A node keeps the end of a long error, so no more than that is sent: what does not fit
// a frame would be repeated for ever, and all else with it.
func TestLongErrorFitsAFrame(t *testing.T) {
	m := Message{Instance: Instance{1}, Association: 1, Stamp: 1, Body: &UpdateStatus{
		Claim: Claim{Task: id.ID{1}, Token: 1}, End: End{Kind: EndFailed, Error: strings.Repeat("é", proto.MaxFrame) + "!"},
	}}
	r := Bundle(m.Instance, 1, 1, []Message{m}, 0)
	if size := gproto.Size(r); size > maxFrameBytes || size > 2*Size(m) {
		t.Errorf("a frame of %d bytes, taken for %d", size, Size(m))
	}
	all, err := Unbundle(r)
	if err != nil || !strings.HasSuffix(all[0].Body.(*UpdateStatus).End.Error, "é!") {
		t.Errorf("came as %v, %v", all, err)
	}
}

package session

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/clock"
)

// rig is a worker and a dispatcher that hear each other at once.
type rig struct {
	t   *testing.T
	w   *Worker
	d   *Dispatcher
	now clock.Time
	up  WorkerReady     // what the worker had to do, since it was looked at last
	out DispatcherReady // the same of the dispatcher, but for what was answered
}

func newRig(t *testing.T, w *Worker, cfg DispatcherConfig) *rig {
	d, err := NewDispatcher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, w: w, d: d, now: clock.Time{Mono: 1e9}}
	w.Turn(r.now)
	r.flow()
	return r
}

// flow carries everything, and grants every name.
func (r *rig) flow() {
	for range 100 {
		up, out := r.w.Ready(), r.d.Ready()
		if len(up.Send)+len(up.Start)+len(up.Stop)+len(out.Send)+len(out.Names)+len(out.Want)+len(out.Settle)+len(out.Renew) == 0 {
			return
		}
		r.up.Stop, r.out.Want, r.out.Settle = append(r.up.Stop, up.Stop...), append(r.out.Want, out.Want...), append(r.out.Settle, out.Settle...)
		for _, s := range up.Start {
			if s.Check != 0 {
				r.w.CheckPassed(r.now, s.Check)
			} else {
				r.up.Start = append(r.up.Start, s)
			}
		}
		for _, m := range up.Send {
			r.d.Step(r.now, m)
		}
		for _, n := range out.Names {
			r.d.Name(r.now, NameAnswer{No: n.No, Instance: n.Identity.Instance, Verdict: NameGranted})
		}
		for _, s := range out.Settle {
			r.d.Settled(r.now, s.Instance, s.Claim, Outcome{Done: true})
		}
		for _, m := range out.Send {
			r.w.Step(r.now, m)
		}
	}
	r.t.Fatal("they never stop talking")
}

// TestWindow: a push is decided once, whatever the order, in bounded memory.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		seen := map[uint64]bool{}
		for _, n := range rapid.SliceOfN(rapid.Uint64Range(1, 40), 0, 60).Draw(t, "pushes") {
			if w.decided(n) != seen[n] {
				t.Fatalf("%d: decided %v, seen %v", n, w.decided(n), seen[n])
			}
			w.decide(n)
			seen[n] = true
		}
		for n := uint64(1); n <= w.floor; n++ {
			if !seen[n] {
				t.Fatalf("%d was never seen, and the floor is %d", n, w.floor)
			}
		}
	})
	var w window // push 1 never comes
	for n := uint64(2); n < 3*maxAbove; n++ {
		w.decide(n)
		if len(w.above) > maxAbove {
			t.Fatalf("it remembers %d pushes", len(w.above))
		}
	}
	if !w.decided(1) || !w.decided(3*maxAbove-1) || w.decided(3*maxAbove) {
		t.Errorf("the gap was not given up: floor %d", w.floor)
	}
}

// TestLines: bounded lines and memory, numbers that go on.
func TestLines(t *testing.T) {
	var l lines
	a, b := Claim{simTask(1), 1}, Claim{simTask(2), 1}
	l.add(a, strings.Repeat("x", 2*maxLineBytes))
	if first, got := l.after(a, 0, 0); first != 1 || len(got) != 1 || len(got[0]) != maxLineBytes {
		t.Errorf("a long line: %d from %d", len(got), first)
	}
	for range 3 * maxLinesBytes / maxLineBytes {
		l.add(b, strings.Repeat("y", maxLineBytes))
	}
	if l.bytes > maxLinesBytes || len(l.kept) > maxLinesBytes/maxLineBytes {
		t.Errorf("%d lines of %d bytes are kept", len(l.kept), l.bytes)
	}
	if first, got := l.after(a, 0, 0); first != 0 || got != nil {
		t.Errorf("the oldest line is still there")
	}
	first, got := l.after(b, 0, 0)
	size := 0
	for _, line := range got {
		size += len(line)
	}
	if first < 2 || size > maxReplyBytes || size < maxReplyBytes/2 {
		t.Errorf("an answer has %d bytes from line %d", size, first)
	}
	if next, got := l.after(b, first, 2); next != first+1 || len(got) != 2 {
		t.Errorf("after %d come %d lines from %d", first, len(got), next)
	}
	l.forget(a)
	if l.claims[a] != nil {
		t.Errorf("a claim without lines is remembered")
	}
	if l.forget(b); l.claims[b] == nil {
		t.Errorf("a claim with lines is forgotten")
	}
	c := Claim{simTask(3), 1}
	for range 2 * maxLinesBytes / maxLineBytes {
		l.add(c, strings.Repeat("z", maxLineBytes))
	}
	if len(l.claims) != 1 || l.claims[c].kept != len(l.kept) {
		t.Errorf("%d claims are remembered, though all lines but those of one were forgotten", len(l.claims))
	}
}

// TestConfigs: every problem at once, and defaults that pass.
func TestConfigs(t *testing.T) {
	if _, err := NewDispatcher(DispatcherConfig{}); err != nil {
		t.Errorf("defaults: %v", err)
	}
	_, err := NewDispatcher(DispatcherConfig{Timeouts: Timeouts{Period: 5, HeartbeatGap: 6, CheckGap: 7, LoseAfter: 8}, NameLease: 9, AskAfter: 3, AskMax: 2})
	if !errors.Is(err, ErrConfig) || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("bad settings: %v", err)
	}
	_, err = NewWorker(WorkerConfig{Stop: -1})
	if !errors.Is(err, ErrConfig) || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("a bad worker: %v", err)
	}
	_, err = NewWorker(WorkerConfig{Identity: Identity{Name: "w", Instance: Instance{1}}, Capacity: Capacity{Slots: MaxTakes, Prefetch: 1, Queues: []QueueSlots{{"q", 0, 0}}}})
	if !errors.Is(err, ErrConfig) {
		t.Errorf("more slots than fit a heartbeat: %v", err)
	}
}

// TestSessionsAreBounded: a node that is full says so, and goes on with those it
// has.
func TestSessionsAreBounded(t *testing.T) {
	r := newRig(t, aWorker(t, 1), DispatcherConfig{MaxSessions: 1})
	h := &Heartbeat{Identity: Identity{Name: "x", Instance: Instance{9}}, MinVersion: 1, MaxVersion: 1, Capacity: r.w.cfg.Capacity}
	for name, c := range map[string]struct {
		change func(h *Heartbeat)
		want   Refusal
	}{
		"one too many": {func(*Heartbeat) {}, RefusedBacklog},
		"no version":   {func(h *Heartbeat) { h.MinVersion, h.MaxVersion = 0, 0 }, RefusedVersion},
		"the future":   {func(h *Heartbeat) { h.MinVersion, h.MaxVersion = 7, 9 }, RefusedVersion},
	} {
		again := *h
		c.change(&again)
		r.d.Step(r.now, Message{Instance: Instance{9}, Association: 1, Stamp: 5, Body: &again})
		out := r.d.Ready().Send
		if reply, ok := out[0].Body.(*HeartbeatReply); len(out) != 1 || !ok || reply.Refused != c.want || reply.Text == "" {
			t.Errorf("%s: %+v", name, out[0].Body)
		}
	}
	if all := r.d.Sessions(r.now); len(all) != 1 || all[0].State != Healthy {
		t.Errorf("sessions: %+v", all)
	}
}

// TestUnknownVersionIsNotCounted: a worker takes no word of a node whose version it
// does not speak.
func TestUnknownVersionIsNotCounted(t *testing.T) {
	w := aWorker(t, 1)
	w.Turn(clock.Time{Mono: 1e9})
	for _, v := range []uint32{0, MaxVersion + 1} {
		w.Step(clock.Time{Mono: 2e9}, Message{Instance: Instance{1}, Association: 1, Body: &HeartbeatReply{Echo: 1e9, Version: v, Good: true, Timeouts: DefaultTimeouts}})
		if i := w.Info(); i.State != New || i.Joined {
			t.Errorf("version %d: %+v", v, i)
		}
	}
}

// TestPushesInTransit: what was never sent is known at once, and only that.
func TestPushesInTransit(t *testing.T) {
	r := newRig(t, aWorker(t, 2), DispatcherConfig{})
	a, b := Claim{simTask(1), 1}, Claim{simTask(2), 1}
	if w := r.out.Want[0]; w.Max != 2 || len(w.Queues) != 1 || w.Queues[0].Queue != "q" || w.Queues[0].Slots != 2 {
		t.Fatalf("it wants %+v", w)
	}
	no := r.out.Want[0].No
	r.d.Granted(r.now, no, r.now.Mono, []Assignment{{Claim: a, Queue: "q", Lease: time.Minute}, {Claim: b, Queue: "q", Lease: time.Minute}, {Claim: Claim{simTask(3), 1}, Queue: "q", Lease: time.Minute}})
	out := r.d.Ready()
	if len(out.Settle) != 1 || out.Settle[0].Why != WhyUnsent || out.Settle[0].Claim.Task != simTask(3) {
		t.Fatalf("more than it wanted: %+v", out.Settle)
	}
	r.d.Unsent(r.now, Instance{1}, a)
	if out := r.d.Ready(); len(out.Settle) != 1 || out.Settle[0].Claim != a {
		t.Fatalf("never sent: %+v", out.Settle)
	}
	for _, m := range out.Send {
		if run, ok := m.Body.(*RunTask); ok && run.Claim == b {
			r.w.Step(r.now, m)
		}
	}
	r.flow()
	r.d.Unsent(r.now, Instance{1}, b) // wrong, and too late
	if out := r.d.Ready(); len(out.Settle) != 0 {
		t.Fatalf("it was taken, and is called unsent: %+v", out.Settle)
	}
	r.d.Granted(r.now, no, r.now.Mono, []Assignment{{Claim: a, Queue: "q", Lease: time.Minute}})
	if out := r.d.Ready(); len(out.Settle) != 1 || out.Settle[0].Why != WhyUnsent {
		t.Fatalf("granted for a want that is closed: %+v", out.Settle)
	}
}

// TestDeadlineOfAPush is the formula of design 7.3: the stamp of a frame, what was
// waited since, the lease, less the margin; and what is too late is refused.
func TestDeadlineOfAPush(t *testing.T) {
	w, err := NewWorker(WorkerConfig{Identity: Identity{Name: "w", Instance: Instance{1}}, Capacity: Capacity{Slots: 1, Queues: []QueueSlots{{"q", 0, 0}}}, Stop: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, w, DispatcherConfig{})
	stamp, received, asked := w.stamp, r.d.sessions[Instance{1}].received, r.now.Mono+int64(3*time.Second)
	r.now = r.now.Add(4 * time.Second)
	c := Claim{simTask(1), 1}
	r.d.Granted(r.now, r.out.Want[0].No, asked, []Assignment{{Claim: c, Queue: "q", Lease: 10 * time.Second}})
	r.flow()
	waited := time.Duration(asked - received)
	want := clock.WorkerDeadline(stamp, waited, 10*time.Second, clock.Margin(10*time.Second, 2*time.Second+waited/1000+1))
	got, ok := w.Holds(r.now, c)
	if !ok || got != want || waited != 3*time.Second {
		t.Fatalf("the deadline is %v, not %v", time.Duration(got), time.Duration(want))
	}
	r.now = clock.Time{Mono: got}
	if _, ok := w.Holds(r.now, c); ok {
		t.Error("it holds the claim at its deadline")
	}
	if w.Tick(r.now); len(w.Ready().Stop) != 1 {
		t.Error("it is not stopped at its deadline")
	}
}

// TestUnhealthyGivesBack: what waits for a slot is released when the worker is cut
// off; what runs goes on.
func TestUnhealthyGivesBack(t *testing.T) {
	w, err := NewWorker(WorkerConfig{Identity: Identity{Name: "w", Instance: Instance{1}}, Capacity: Capacity{Slots: 1, Prefetch: 1, Queues: []QueueSlots{{"q", 0, 0}}}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, w, DispatcherConfig{})
	a, b := Claim{simTask(1), 1}, Claim{simTask(2), 1}
	r.d.Granted(r.now, r.out.Want[0].No, r.now.Mono, []Assignment{{Claim: a, Queue: "q", Lease: time.Hour}, {Claim: b, Queue: "q", Lease: time.Hour}})
	r.flow()
	if i := w.Info(); i.State != Healthy || len(i.Running) != 2 {
		t.Fatalf("%+v", i)
	}
	r.now = r.now.Add(20 * time.Second)
	w.Tick(r.now)
	if i := w.Info(); i.State != Unhealthy || len(i.Running) != 1 || i.Running[0] != a || i.Unacked != 1 {
		t.Errorf("%+v", i)
	}
}

// TestNoBusyLoop: nothing that a node says makes a worker beat without a pause.
func TestNoBusyLoop(t *testing.T) {
	w := aWorker(t, 1)
	now := clock.Time{Mono: 1e9}
	w.Turn(now)
	to := DefaultTimeouts
	to.Period = 0
	w.Step(now, Message{Instance: Instance{1}, Association: 1, Body: &HeartbeatReply{Echo: w.stamp, Version: 1, Good: true, Timeouts: to}})
	c := Claim{simTask(1), 1}
	w.has.add(&held{claim: c, queue: "q", lease: time.Second, deadline: clock.Never})
	w.Step(now, Message{Instance: Instance{1}, Association: 1, Body: &Renewed{Echo: w.stamp, Items: []Renewal{{Claim: c}}}})
	for range 10 {
		out := w.Ready()
		if out.WakeAt < now.Mono+int64(minBeat)-1e6 && out.WakeAt > now.Mono {
			t.Fatalf("it wakes after %v", time.Duration(out.WakeAt-now.Mono))
		}
		now.Mono = max(now.Mono, out.WakeAt)
		w.Tick(now)
	}
	if now.Mono < 1e9+5*int64(minBeat) {
		t.Errorf("ten wake-ups take %v", time.Duration(now.Mono-1e9))
	}
}

// TestSetVersionIsEchoed: an operator sees who has not come back.
func TestSetVersionIsEchoed(t *testing.T) {
	r := newRig(t, aWorker(t, 1), DispatcherConfig{})
	r.d.SetVersion(SetVersion{Version: 7, Hash: 9})
	for range 3 {
		r.now = r.now.Add(5 * time.Second)
		r.w.Tick(r.now)
		r.flow()
	}
	if i, _ := r.d.Info(r.now, Instance{1}); i.Set != (SetVersion{7, 9}) {
		t.Errorf("it has echoed %+v", i.Set)
	}
}

// TestNoRoomToRemember: a worker that cannot bar does not deny; the question comes
// again.
func TestNoRoomToRemember(t *testing.T) {
	w := aWorker(t, 1)
	w.Turn(clock.Time{Mono: 1e9})
	for n := range maxBars {
		task := simTask(0)
		task[0], task[1], task[2] = byte(n), byte(n>>8), 1
		w.bars[task] = bar{1, clock.Never}
	}
	_ = w.Ready()
	w.Step(clock.Time{Mono: 1e9}, Message{Instance: Instance{1}, Association: 1, Body: &Notify{Seq: 1, Claims: []Question{{Claim{simTask(1), 1}, time.Second}}}})
	if out := w.Ready().Send; len(out) != 0 {
		t.Errorf("it says %v", out[0].Body.Kind())
	}
}

// TestLeftIsLeft: a heartbeat that was overtaken by the word of leaving begins no
// session, and takes no name.
func TestLeftIsLeft(t *testing.T) {
	r := newRig(t, aWorker(t, 1), DispatcherConfig{})
	r.now = r.now.Add(time.Second)
	r.w.Tick(r.now)
	late := r.w.Ready().Send[0]
	if late.Body.Kind() != KindHeartbeat {
		t.Fatalf("it says %v", late.Body.Kind())
	}
	r.d.Step(r.now, Message{Instance: Instance{1}, Association: 1, Stamp: late.Stamp + 1, Body: &Leave{}})
	for _, n := range r.d.Ready().Names {
		r.d.Name(r.now, NameAnswer{No: n.No, Instance: n.Identity.Instance, Verdict: NameReleased})
	}
	r.d.Step(r.now, late)
	if out := r.d.Ready(); len(out.Names)+len(out.Send) != 0 || len(r.d.Sessions(r.now)) != 0 {
		t.Errorf("it is back: %+v", r.d.Sessions(r.now))
	}
	for n := range 2 * maxDeparted {
		r.d.left.add(Instance{2, byte(n), byte(n >> 8)})
	}
	if len(r.d.left.all) != maxDeparted || len(r.d.left.order) != maxDeparted || r.d.left.has(Instance{1}) {
		t.Errorf("%d that have left are remembered", len(r.d.left.all))
	}
}

// TestTheLostMakeRoom: a full node forgets a worker that is lost before it turns a
// living one away.
func TestTheLostMakeRoom(t *testing.T) {
	r := newRig(t, aWorker(t, 1), DispatcherConfig{MaxSessions: 1})
	r.now = r.now.Add(2 * time.Minute) // nobody beats
	r.d.Tick(r.now)
	for _, n := range r.d.Ready().Names {
		r.d.Name(r.now, NameAnswer{No: n.No, Instance: n.Identity.Instance, Verdict: NameRevoked})
	}
	r.d.Step(r.now, Message{Instance: Instance{9}, Association: 1, Stamp: 5, Body: &Heartbeat{
		Identity: Identity{Name: "x", Instance: Instance{9}}, MinVersion: 1, MaxVersion: 1, Capacity: r.w.cfg.Capacity,
	}})
	if all := r.d.Sessions(r.now); len(all) != 1 || all[0].Identity.Name != "x" {
		t.Errorf("sessions: %+v", all)
	}
}

// TestSlowHandlersAreRefused: a node that would have to wait longer for a lost
// worker than it does says so.
func TestSlowHandlersAreRefused(t *testing.T) {
	w, err := NewWorker(WorkerConfig{
		Identity: Identity{Name: "w", Instance: Instance{1}}, Capacity: Capacity{Slots: 1, Queues: []QueueSlots{{"q", 0, 0}}},
		Stop: DefaultTimeouts.LoseAfter/2 + 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, w, DispatcherConfig{})
	if i := r.w.Info(); i.Refused != RefusedInvalid || i.State != New || !strings.Contains(i.Text, "stop") {
		t.Errorf("%+v", i)
	}
}

// TestCells: whatever is asked of a name in whatever order, it goes from one holder
// to another only by what the rules say, and an instance that was revoked does not
// get it back from itself.
func TestCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Cell
		for range rapid.IntRange(1, 40).Draw(t, "requests") {
			r := NameRequest{
				Op:          NameOp(rapid.Uint8Range(uint8(NameAcquire), uint8(NameRead)).Draw(t, "op")),
				Identity:    Identity{Instance: Instance{rapid.Uint8Range(1, 3).Draw(t, "who")}},
				Association: rapid.Uint64Range(1, 4).Draw(t, "association"),
				Expect:      Instance{rapid.Uint8Range(1, 3).Draw(t, "expected")},
			}
			lapsed := rapid.IntRange(0, 9).Draw(t, "lapsed") == 0
			next, v := c.Apply(r, lapsed)
			mine := c.Holder.Instance == r.Identity.Instance
			switch {
			case mine && r.Association < c.Association && (v != NameSuperseded || next != c):
				t.Fatalf("%+v by an older association of %+v: %v", r, c, v)
			case mine && c.Dead && next != c && v != NameRevoked:
				t.Fatalf("the dead %+v did %v and got %v", c, r.Op, v)
			case !mine && next != c && !c.Dead && !lapsed && !c.Holder.Instance.IsZero() && (r.Op != NameTake || r.Expect != c.Holder.Instance):
				t.Fatalf("%v took the name of %+v", r, c)
			case v == NameGranted && (next.Holder != r.Identity || next.Association != r.Association || next.Dead):
				t.Fatalf("granted to %+v, and the cell has %+v", r, next)
			case (v == NameRefused || v == NameStands || v == NameDead || v == NameSuperseded) && next != c:
				t.Fatalf("%v, and yet %+v became %+v", v, c, next)
			}
			c = next
		}
	})
}

// TestFirstWordLost: no answer that says good arrives until long after the first
// check has passed, and later no check passes any more. The worker counts from the
// first good answer, so the node must not count from less. (It counted from the
// check, and believed a living worker lost; found by TestMutants, whose rules were
// all in place.)
func TestFirstWordLost(t *testing.T) {
	w := aWorker(t, 1)
	d, err := NewDispatcher(DispatcherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Time{Mono: 1e9}
	w.Turn(now)
	for ; now.Mono < int64(200*time.Second); now = now.Add(100 * time.Millisecond) {
		w.Tick(now)
		d.Tick(now)
		if i, ok := d.Info(now, Instance{1}); ok && i.State == MustDie && w.life.at(now.Mono) != MustDie {
			t.Fatalf("at %v the node believes it lost, and it is %v", time.Duration(now.Mono), w.life.at(now.Mono))
		}
		for range 5 {
			up := w.Ready()
			for _, s := range up.Start {
				if now.Mono < int64(10*time.Second) {
					w.CheckPassed(now, s.Check)
				}
			}
			for _, m := range up.Send {
				d.Step(now, m)
			}
			out := d.Ready()
			for _, n := range out.Names {
				d.Name(now, NameAnswer{No: n.No, Instance: n.Identity.Instance, Verdict: NameGranted})
			}
			for _, m := range out.Send {
				if r, ok := m.Body.(*HeartbeatReply); !ok || !r.Good || now.Mono > int64(60*time.Second) {
					w.Step(now, m)
				}
			}
		}
	}
	if w.Info().State != MustDie {
		t.Errorf("it is %v without a check for so long", w.Info().State)
	}
}

// TestWhatWasNotSentIsNotGivenAgainAtOnce: a task that did not get into a worker's
// stream was given back and, as there was room again, asked for once more: for ever, in
// one moment. Nothing is asked for until the worker has said something, or there is
// room in its stream.
func TestWhatWasNotSentIsNotGivenAgainAtOnce(t *testing.T) {
	for name, again := range map[string]func(r *rig){
		"the worker speaks": func(r *rig) { r.now = r.now.Add(3 * time.Second); r.w.Tick(r.now); r.flow() },
		"there is room":     func(r *rig) { r.d.Writable(r.now, Instance{1}); r.out = r.d.Ready() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, aWorker(t, 2), DispatcherConfig{})
			a := Claim{simTask(1), 1}
			r.d.Granted(r.now, r.out.Want[0].No, r.now.Mono, []Assignment{{Claim: a, Queue: "q", Lease: time.Minute}})
			r.d.Ready()
			r.d.Unsent(r.now, Instance{1}, a)
			if out := r.d.Ready(); len(out.Settle) != 1 || len(out.Want) != 0 {
				t.Fatalf("given back: %+v, and wanted at once: %+v", out.Settle, out.Want)
			}
			r.out = DispatcherReady{}
			if again(r); len(r.out.Want) != 1 {
				t.Errorf("wanted: %+v", r.out.Want)
			}
		})
	}
}

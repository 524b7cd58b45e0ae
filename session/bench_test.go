package session

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/clock"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// BenchmarkHeartbeats is what one heartbeat costs a node that has 10,000 workers:
// decoding, the machine, renewals that are answered at once, and the encoding of
// the answer. The lease of the one claim each holds is not in it.
func BenchmarkHeartbeats(b *testing.B) {
	for _, c := range []struct{ workers, claims int }{{10_000, 1}, {100, 1_000}} {
		b.Run(fmt.Sprintf("workers=%d/claims=%d", c.workers, c.claims), func(b *testing.B) { benchHeartbeats(b, c.workers, c.claims) })
	}
}

func benchHeartbeats(b *testing.B, workers, claims int) {
	d, err := NewDispatcher(DispatcherConfig{})
	if err != nil {
		b.Fatal(err)
	}
	var frames []*nornv1.SessionRequest
	var all []*nornv1.ClaimRef
	for n := range claims {
		all = append(all, claimToWire(Claim{simTask(n & 255), uint64(n + 1)}))
	}
	for n := range workers {
		var i Instance
		binary.BigEndian.PutUint32(i[:], uint32(n+1))
		frames = append(frames, &nornv1.SessionRequest{Instance: i[:], Association: 1, Messages: []*nornv1.WorkerMessage{{Body: &nornv1.WorkerMessage_Heartbeat{
			Heartbeat: &nornv1.SessionHeartbeat{
				Name: fmt.Sprintf("worker-%d", n), Machine: "m", MinVersion: 1, MaxVersion: 1, Slots: 1, Settled: true,
				Queues: []*nornv1.SessionQueue{{Queue: "q"}}, Claims: all,
			},
		}}}})
	}
	now := clock.Time{Mono: 1e9}
	step := int64(5*time.Second) / int64(workers)
	beat := func(n int) int {
		r := frames[n%workers]
		now.Mono += step
		r.Stamp = now.Mono
		r.Messages[0].GetHeartbeat().Stamp = now.Mono
		wire, err := gproto.Marshal(r) // the worker's work: not taken off, it is small
		if err != nil {
			b.Fatal(err)
		}
		in := &nornv1.SessionRequest{}
		if err := gproto.Unmarshal(wire, in); err != nil {
			b.Fatal(err)
		}
		msgs, err := Unbundle(in)
		if err != nil {
			b.Fatal(err)
		}
		d.Step(now, msgs[0])
		return carryOut(b, d, now)
	}
	for n := range 2 * workers {
		beat(n)
	}
	bytes := 0
	b.ResetTimer()
	for n := range b.N {
		bytes += beat(n)
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "answer-B/op")
}

// carryOut does what a node does, and gives the bytes of the answers.
func carryOut(b *testing.B, d *Dispatcher, now clock.Time) (bytes int) {
	var send []Message
	for {
		out := d.Ready()
		if len(out.Names)+len(out.Renew)+len(out.Send) == 0 {
			break
		}
		send = append(send, out.Send...)
		for _, x := range out.Names {
			d.Name(now, NameAnswer{No: x.No, Instance: x.Identity.Instance, Verdict: NameGranted})
		}
		for _, x := range out.Renew {
			items := make([]Renewal, len(x.Claims))
			for n, c := range x.Claims {
				items[n] = Renewal{Claim: c, Lease: 30 * time.Second}
			}
			d.Renewed(now, x.Instance, x.Association, x.Echo, items, true)
		}
		for _, m := range out.Send {
			switch x := m.Body.(type) {
			case *GetRunningTasks:
				d.Step(now, Message{Instance: m.Instance, Association: m.Association, Stamp: now.Mono, Body: &RunningTasks{Request: x.Request}})
			case *RunTask:
				d.Step(now, Message{Instance: m.Instance, Association: m.Association, Stamp: now.Mono, Body: &UpdateStatus{Check: x.Check, End: End{Kind: EndChecked}}})
			}
		}
	}
	if len(send) == 0 {
		return 0
	}
	r, err := BundleReply(send)
	if err != nil {
		b.Fatal(err)
	}
	wire, err := gproto.Marshal(r)
	if err != nil {
		b.Fatal(err)
	}
	return len(wire)
}

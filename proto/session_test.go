package proto

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func claimRef() *nornv1.ClaimRef { return &nornv1.ClaimRef{Id: make([]byte, 20), Token: 1} }

func heartbeat(change func(h *nornv1.SessionHeartbeat)) *nornv1.SessionRequest {
	h := &nornv1.SessionHeartbeat{
		Stamp: 1, Name: "w", MinVersion: 1, MaxVersion: 1, Slots: 1,
		Queues: []*nornv1.SessionQueue{{Queue: "q"}}, Claims: []*nornv1.ClaimRef{claimRef()},
	}
	change(h)
	return frame(&nornv1.WorkerMessage{Body: &nornv1.WorkerMessage_Heartbeat{Heartbeat: h}})
}

func status(change func(u *nornv1.SessionUpdateStatus)) *nornv1.SessionRequest {
	u := &nornv1.SessionUpdateStatus{Claim: claimRef(), Kind: nornv1.SessionEndKind_SESSION_END_COMPLETED}
	change(u)
	return frame(&nornv1.WorkerMessage{Body: &nornv1.WorkerMessage_UpdateStatus{UpdateStatus: u}})
}

func frame(all ...*nornv1.WorkerMessage) *nornv1.SessionRequest {
	return &nornv1.SessionRequest{Instance: make([]byte, 16), Association: 1, Stamp: 1, Messages: all}
}

// TestCheckSession: every limit of a frame, from both sides where it has two.
//
// Long because: it is one table.
func TestCheckSession(t *testing.T) {
	with := func(change func(r *nornv1.SessionRequest)) *nornv1.SessionRequest {
		r := frame()
		change(r)
		return r
	}
	refs := func(n int) (all []*nornv1.ClaimRef) {
		for range n {
			all = append(all, claimRef())
		}
		return all
	}
	queues := func(n int) (all []*nornv1.SessionQueue) {
		for i := range n {
			all = append(all, &nornv1.SessionQueue{Queue: "q" + strings.Repeat("x", i%100) + string(rune('a'+i/100))})
		}
		return all
	}
	type hb = *nornv1.SessionHeartbeat
	type us = *nornv1.SessionUpdateStatus
	for name, c := range map[string]struct {
		r    *nornv1.SessionRequest
		says string // "": it passes
	}{
		"empty":                   {frame(), ""},
		"unknown message":         {frame(&nornv1.WorkerMessage{}), ""},
		"short instance":          {with(func(r *nornv1.SessionRequest) { r.Instance = make([]byte, 15) }), "instance"},
		"a time for association":  {with(func(r *nornv1.SessionRequest) { r.Association = 1 << 32 }), "over the limit"},
		"no association":          {with(func(r *nornv1.SessionRequest) { r.Association = 0 }), "association"},
		"no stamp":                {with(func(r *nornv1.SessionRequest) { r.Stamp = 0 }), "stamp"},
		"longest wait":            {with(func(r *nornv1.SessionRequest) { r.WaitSeconds = 300 }), ""},
		"too long a wait":         {with(func(r *nornv1.SessionRequest) { r.WaitSeconds = 300.1 }), "wait"},
		"NaN wait":                {with(func(r *nornv1.SessionRequest) { r.WaitSeconds = math.NaN() }), "wait"},
		"most messages":           {frame(make([]*nornv1.WorkerMessage, MaxSessionMessages)...), ""},
		"too many messages":       {frame(make([]*nornv1.WorkerMessage, MaxSessionMessages+1)...), "messages"},
		"heartbeat":               {heartbeat(func(hb) {}), ""},
		"heartbeat without stamp": {heartbeat(func(h hb) { h.Stamp = 0 }), "stamp"},
		"no name":                 {heartbeat(func(h hb) { h.Name = "" }), "name"},
		"long name":               {heartbeat(func(h hb) { h.Name = strings.Repeat("n", 257) }), "name"},
		"long lock":               {heartbeat(func(h hb) { h.Lock = strings.Repeat("n", 257) }), "lock"},
		"no time":                 {heartbeat(func(h hb) { h.StartedAt = &timestamppb.Timestamp{Nanos: -1} }), "started_at"},
		"no slots":                {heartbeat(func(h hb) { h.Slots = 0 }), "slots"},
		"most slots":              {heartbeat(func(h hb) { h.Slots, h.Prefetch = 9_000, 1_000 }), ""},
		"too many slots":          {heartbeat(func(h hb) { h.Slots, h.Prefetch = 9_000, 1_001 }), "slots"},
		"slots beyond 32 bits":    {heartbeat(func(h hb) { h.Slots, h.Prefetch = math.MaxUint32, 1 }), "slots"},
		"all handlers hang":       {heartbeat(func(h hb) { h.Queues = nil }), ""},
		"trouble":                 {heartbeat(func(h hb) { h.Trouble, h.Resting = strings.Repeat("t", MaxReasonBytes), true }), ""},
		"much trouble":            {heartbeat(func(h hb) { h.Trouble = strings.Repeat("t", MaxReasonBytes+1) }), "trouble"},
		"too many queues":         {heartbeat(func(h hb) { h.Queues = queues(1001) }), "queues"},
		"bad queue":               {heartbeat(func(h hb) { h.Queues = []*nornv1.SessionQueue{{Queue: "-"}} }), "queue name"},
		"queue twice":             {heartbeat(func(h hb) { h.Queues = append(h.Queues, h.Queues...) }), "twice"},
		"heavy queue":             {heartbeat(func(h hb) { h.Queues[0].Weight = 10_001 }), "weight"},
		"time-outs":               {heartbeat(func(h hb) { h.Timeouts = &nornv1.SessionTimeouts{LoseAfterSeconds: -1} }), "time-out"},
		"endless time-outs":       {heartbeat(func(h hb) { h.Timeouts = &nornv1.SessionTimeouts{LoseAfterSeconds: 3601} }), "time-out"},
		"long grace":              {heartbeat(func(h hb) { h.GraceSeconds = 3601 }), "grace"},
		"long stop":               {heartbeat(func(h hb) { h.StopSeconds = 3601 }), "stop"},
		"most claims":             {heartbeat(func(h hb) { h.Claims = refs(10_000) }), ""},
		"too many claims":         {heartbeat(func(h hb) { h.Claims = refs(10_001) }), "claims"},
		"short ID":                {heartbeat(func(h hb) { h.Claims[0].Id = make([]byte, 19) }), "ID"},
		"token 0":                 {heartbeat(func(h hb) { h.Claims[0].Token = 0 }), "token"},
		"status":                  {status(func(us) {}), ""},
		"status of nothing":       {status(func(u us) { u.Claim = nil }), "ID"},
		"no kind":                 {status(func(u us) { u.Kind = 0 }), "kind"},
		"unknown kind":            {status(func(u us) { u.Kind = 99 }), "kind"},
		"long result":             {status(func(u us) { u.Result = make([]byte, MaxUpdateBytes+1) }), "result"},
		"retry in 2300":           {status(func(u us) { u.RetryAt = &timestamppb.Timestamp{Seconds: 10_413_792_000} }), "retry_at"},
		"check":                   {status(func(u us) { u.Claim, u.Check, u.Kind = nil, 1, nornv1.SessionEndKind_SESSION_END_CHECKED }), ""},
		"check with a claim":      {status(func(u us) { u.Check, u.Kind = 1, nornv1.SessionEndKind_SESSION_END_CHECKED }), "check"},
		"push 0":                  {frame(&nornv1.WorkerMessage{Body: &nornv1.WorkerMessage_RunReply{RunReply: &nornv1.SessionRunReply{Claim: claimRef()}}}), "push"},
		"many ended":              {frame(&nornv1.WorkerMessage{Body: &nornv1.WorkerMessage_NotifyReply{NotifyReply: &nornv1.SessionNotifyReply{Ended: refs(1001)}}}), "claims"},
		"long lines":              {frame(&nornv1.WorkerMessage{Body: &nornv1.WorkerMessage_LogLines{LogLines: &nornv1.SessionLogLines{Claim: claimRef(), Lines: [][]byte{make([]byte, MaxSessionLineBytes+1)}}}}), "lines"},
		"held without queue":      {frame(&nornv1.WorkerMessage{Body: &nornv1.WorkerMessage_RunningTasks{RunningTasks: &nornv1.SessionRunningTasks{Held: []*nornv1.SessionHeld{{Claim: claimRef()}}}}}), "queue"},
	} {
		err := CheckSession(c.r)
		if got := err == nil; got != (c.says == "") || err != nil && !strings.Contains(err.Message, c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckSetWorker: what an operator may want of a worker.
func TestCheckSetWorker(t *testing.T) {
	drain := nornv1.WorkerAction_WORKER_ACTION_DRAIN
	for name, c := range map[string]struct {
		r  *nornv1.SetWorkerRequest
		ok bool
	}{
		"drain":          {&nornv1.SetWorkerRequest{Name: "w", Action: drain}, true},
		"by instance":    {&nornv1.SetWorkerRequest{Name: "w", Instance: make([]byte, 16), Action: drain}, true},
		"no name":        {&nornv1.SetWorkerRequest{Action: drain}, false},
		"no action":      {&nornv1.SetWorkerRequest{Name: "w"}, false},
		"unknown action": {&nornv1.SetWorkerRequest{Name: "w", Action: 9}, false},
		"short instance": {&nornv1.SetWorkerRequest{Name: "w", Instance: make([]byte, 3), Action: drain}, false},
		"long reason":    {&nornv1.SetWorkerRequest{Name: "w", Action: drain, Reason: strings.Repeat("r", MaxReasonBytes+1)}, false},
	} {
		if err := CheckSetWorker(c.r); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFurtherFieldsOfAnEnd: a worker's word on an end has those that the message for it may
// have, which it is decoded as, and no more.
func TestFurtherFieldsOfAnEnd(t *testing.T) {
	field := func(size int) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, 1500, protowire.BytesType), make([]byte, size))
	}
	for name, c := range map[string]struct {
		kind    nornv1.SessionEndKind
		further []byte
		want    string // in the error
	}{
		"of a result":               {nornv1.SessionEndKind_SESSION_END_COMPLETED, field(1000), ""},
		"of a result, past it":      {nornv1.SessionEndKind_SESSION_END_COMPLETED, field(MaxUpdateBytes - 1000), "left to them"},
		"of a failure":              {nornv1.SessionEndKind_SESSION_END_FAILED, field(1000), ""},
		"of a failure, past it":     {nornv1.SessionEndKind_SESSION_END_FAILED, field(MaxErrorBytes), "left to them"},
		"that are no protobuf":      {nornv1.SessionEndKind_SESSION_END_COMPLETED, []byte{0xff}, "no protobuf"},
		"with a group":              {nornv1.SessionEndKind_SESSION_END_FAILED, []byte{0xe3, 0x5d, 0xe4, 0x5d}, "is a group"},
		"of an end that keeps none": {nornv1.SessionEndKind_SESSION_END_RELEASED, []byte{0xff}, ""},
	} {
		err := CheckSession(status(func(u *nornv1.SessionUpdateStatus) {
			u.Kind, u.Further, u.Result = c.kind, c.further, make([]byte, 1000)
		}))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Message, c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

package proto

import (
	"time"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Limits of worker sessions.
const (
	// SessionInstance is the length of an instance in bytes.
	SessionInstance = 16
	// MaxSessionMessages bounds the messages of one frame: a round of a busy worker.
	MaxSessionMessages = 1_000
	// MaxSessionTakes bounds the slots and the prefetch of a worker together, and so
	// the claims of one heartbeat, which are renewed as one batch.
	MaxSessionTakes = MaxBatchTasks
	// MaxSessionHeld bounds the list of what a worker holds: also what has ended and
	// waits to be acknowledged.
	MaxSessionHeld = 2 * MaxSessionTakes
	// MaxSessionQuestions bounds the claims of one SessionNotify.
	MaxSessionQuestions = 1_000
	// MaxSessionLineBytes bounds the lines of one answer, far below a frame.
	MaxSessionLineBytes = 256 << 10
	// MaxSessionStop bounds what handlers may need to stop: no node waits longer for
	// a worker that is lost.
	MaxSessionStop = time.Hour
	// MaxSessionTimeout bounds each time-out: what a worker says it goes by, its node
	// waits for, and the name with it.
	MaxSessionTimeout = time.Hour
	// MaxAssociation bounds the number of a stream. What is granted through it is known by
	// that number and one of its own, 32 bits each.
	MaxAssociation = 1<<32 - 1
	// MaxReasonBytes bounds the reason of an operator.
	MaxReasonBytes = 1 << 10
)

// CheckSession checks a frame of a worker against everything that needs no state.
// Messages that this build does not know pass, and are left out.
func CheckSession(r *nornv1.SessionRequest) *Error {
	switch {
	case len(r.GetInstance()) != SessionInstance:
		return Invalid("instance has %d bytes, not %d", len(r.GetInstance()), SessionInstance)
	case r.GetAssociation() == 0:
		return Invalid("associations are numbered from 1")
	case r.GetAssociation() > MaxAssociation:
		return Invalid("association %d is over the limit of %d: count them", r.GetAssociation(), uint64(MaxAssociation))
	case r.GetStamp() <= 0:
		return Invalid("a stamp is above 0")
	case len(r.GetMessages()) > MaxSessionMessages:
		return Invalid("%d messages are over the limit of %d", len(r.GetMessages()), MaxSessionMessages)
	case !Within(r.GetWaitSeconds(), MaxWait):
		return Invalid("wait of %v seconds is outside 0 to %v", r.GetWaitSeconds(), MaxWait)
	}
	for _, m := range r.GetMessages() {
		if err := checkWorkerMessage(m); err != nil {
			return err
		}
	}
	return nil
}

// Within tells whether seconds are a number from 0 to most.
func Within(seconds float64, most time.Duration) bool {
	return seconds >= 0 && seconds <= most.Seconds()
}

func checkWorkerMessage(m *nornv1.WorkerMessage) *Error {
	switch b := m.GetBody().(type) {
	case *nornv1.WorkerMessage_Heartbeat:
		return checkHeartbeat(b.Heartbeat)
	case *nornv1.WorkerMessage_RunningTasks:
		return checkHeld(b.RunningTasks.GetHeld())
	case *nornv1.WorkerMessage_RunReply:
		if b.RunReply.GetPush() == 0 {
			return Invalid("pushes are numbered from 1")
		}
		return checkClaims("run_reply", []*nornv1.ClaimRef{b.RunReply.GetClaim()}, 1)
	case *nornv1.WorkerMessage_NotifyReply:
		return checkClaims("notify_reply", b.NotifyReply.GetEnded(), MaxSessionQuestions)
	case *nornv1.WorkerMessage_UpdateStatus:
		return checkStatus(b.UpdateStatus)
	case *nornv1.WorkerMessage_LogLines:
		size := 0
		for _, l := range b.LogLines.GetLines() {
			size += len(l)
		}
		if size > MaxSessionLineBytes {
			return Invalid("lines of %d bytes are over the limit of %d", size, MaxSessionLineBytes)
		}
		return checkClaims("log_lines", []*nornv1.ClaimRef{b.LogLines.GetClaim()}, 1)
	}
	return nil
}

func checkHeartbeat(h *nornv1.SessionHeartbeat) *Error {
	if h.GetStamp() <= 0 {
		return Invalid("a stamp is above 0")
	}
	if n := len(h.GetName()); n == 0 || n > MaxWorkerName {
		return Invalid("the name of a worker has %d bytes, outside 1 to %d", n, MaxWorkerName)
	}
	if n := max(len(h.GetMachine()), len(h.GetLock())); n > MaxWorkerName {
		return Invalid("machine or lock has %d bytes, over the limit of %d", n, MaxWorkerName)
	}
	if t := h.GetStartedAt(); t != nil && !t.IsValid() {
		return Invalid("started_at is no time")
	}
	if n := uint64(h.GetSlots()) + uint64(h.GetPrefetch()); h.GetSlots() == 0 || n > MaxSessionTakes {
		return Invalid("%d slots and %d to prefetch are outside 1 to %d together", h.GetSlots(), h.GetPrefetch(), MaxSessionTakes)
	}
	if n := len(h.GetQueues()); n > MaxClaimQueues { // none: its handlers hang
		return Invalid("%d queues are over the limit of %d", n, MaxClaimQueues)
	}
	if n := len(h.GetTrouble()); n > MaxReasonBytes {
		return Invalid("trouble has %d bytes, over the limit of %d", n, MaxReasonBytes)
	}
	seen := make(map[string]struct{}, len(h.GetQueues()))
	for _, q := range h.GetQueues() {
		if err := CheckQueue(q.GetQueue()); err != nil {
			return err
		}
		if _, twice := seen[q.GetQueue()]; twice {
			return Invalid("queue %s is named twice", q.GetQueue())
		}
		seen[q.GetQueue()] = struct{}{}
		if q.GetSlots() > MaxSessionTakes || q.GetWeight() > MaxSessionTakes {
			return Invalid("slots or weight of queue %s are over %d", q.GetQueue(), MaxSessionTakes)
		}
	}
	t := h.GetTimeouts()
	for _, s := range []float64{t.GetPeriodSeconds(), t.GetHeartbeatGapSeconds(), t.GetCheckGapSeconds(), t.GetLoseAfterSeconds()} {
		if !Within(s, MaxSessionTimeout) {
			return Invalid("a time-out of %v seconds is outside 0 to %v", s, MaxSessionTimeout)
		}
	}
	if !Within(h.GetStopSeconds(), MaxSessionStop) {
		return Invalid("stop of %v seconds is outside 0 to %v", h.GetStopSeconds(), MaxSessionStop)
	}
	if !Within(h.GetGraceSeconds(), MaxSessionStop) {
		return Invalid("grace of %v seconds is outside 0 to %v", h.GetGraceSeconds(), MaxSessionStop)
	}
	if s := h.GetLeaseSeconds(); s != 0 && !(s >= clock.MinLease.Seconds() && s <= clock.MaxLease.Seconds()) {
		return Invalid("lease of %v seconds is outside 1 s to 24 h", s)
	}
	return checkClaims("heartbeat", h.GetClaims(), MaxSessionTakes)
}

func checkHeld(all []*nornv1.SessionHeld) *Error {
	if len(all) > MaxSessionHeld {
		return Invalid("running_tasks: %d claims are over the limit of %d", len(all), MaxSessionHeld)
	}
	for _, h := range all {
		if err := CheckClaimRef(h.GetClaim()); err != nil {
			return err
		}
		if err := CheckQueue(h.GetQueue()); err != nil {
			return err
		}
		if !Within(h.GetLeaseSeconds(), clock.MaxLease) {
			return Invalid("lease of %v seconds is outside 0 to 24 h", h.GetLeaseSeconds())
		}
	}
	return nil
}

func checkStatus(u *nornv1.SessionUpdateStatus) *Error {
	kind := u.GetKind()
	if _, ok := nornv1.SessionEndKind_name[int32(kind)]; !ok || kind == nornv1.SessionEndKind_SESSION_END_UNSPECIFIED {
		return Invalid("update_status: the end has the unknown kind %d", kind)
	}
	if n := len(u.GetResult()); n > MaxUpdateBytes {
		return Invalid("result of %d bytes is over the limit of %d bytes", n, MaxUpdateBytes)
	}
	if err := checkEnd(u); err != nil {
		return err
	}
	if t := u.GetRetryAt(); t != nil && (!t.IsValid() || t.Seconds < 0 || t.Seconds > maxUnixSeconds) {
		return Invalid("retry_at is not a time between 1970 and 2262")
	}
	if bad := CheckRetryIn(u.GetRetryInSeconds()); bad != nil {
		return bad
	}
	if kind == nornv1.SessionEndKind_SESSION_END_CHECKED {
		if u.GetCheck() == 0 || u.GetClaim() != nil {
			return Invalid("update_status: a passed check has its number and no claim")
		}
		return nil
	}
	return CheckClaimRef(u.GetClaim())
}

// checkEnd checks the further fields of a completion or a failure, as it is checked itself.
func checkEnd(u *nornv1.SessionUpdateStatus) *Error {
	var m gproto.Message
	most := MaxUpdateBytes - len(u.GetResult())
	switch {
	case len(u.GetFurther()) == 0:
		return nil
	case u.GetKind() == nornv1.SessionEndKind_SESSION_END_COMPLETED:
		m = &nornv1.Completion{}
	case u.GetKind() == nornv1.SessionEndKind_SESSION_END_FAILED:
		m, most = &nornv1.Failure{}, MaxErrorBytes
	default:
		return nil // nothing is kept of it
	}
	if n := len(u.GetFurther()); n > most {
		return Invalid("update_status: %d bytes of further fields, where %d are left to them", n, most)
	}
	if err := gproto.Unmarshal(u.GetFurther(), m); err != nil {
		return Invalid("update_status: its further fields are no protobuf: %v", err)
	}
	_, err := Further(m)
	return err
}

// maxUnixSeconds is the last second whose nanoseconds fit an int64.
const maxUnixSeconds = (1<<63-1)/int64(time.Second) - 1

func checkClaims(what string, all []*nornv1.ClaimRef, most int) *Error {
	if len(all) > most {
		return Invalid("%s: %d claims are over the limit of %d", what, len(all), most)
	}
	for _, c := range all {
		if err := CheckClaimRef(c); err != nil {
			return err
		}
	}
	return nil
}

// CheckClaimRef checks that a reference names a claim.
func CheckClaimRef(c *nornv1.ClaimRef) *Error {
	if n := len(c.GetId()); n != id.Size {
		return Invalid("task ID has %d bytes, not %d", n, id.Size)
	}
	if c.GetToken() == 0 {
		return Invalid("a claim has a token above 0")
	}
	return nil
}

// CheckLines checks a question for the lines of a task.
func CheckLines(r *nornv1.LinesRequest) *Error {
	if n := len(r.GetWorker()); n == 0 || n > MaxWorkerName {
		return Invalid("the name of a worker has %d bytes, outside 1 to %d", n, MaxWorkerName)
	}
	return CheckClaimRef(&nornv1.ClaimRef{Id: r.GetId(), Token: r.GetToken()})
}

// CheckSetWorker checks what an operator wants of a worker.
func CheckSetWorker(r *nornv1.SetWorkerRequest) *Error {
	switch {
	case r.GetName() == "" || len(r.GetName()) > MaxWorkerName:
		return Invalid("the name of a worker has %d bytes, outside 1 to %d", len(r.GetName()), MaxWorkerName)
	case len(r.GetInstance()) != 0 && len(r.GetInstance()) != SessionInstance:
		return Invalid("instance has %d bytes, not %d", len(r.GetInstance()), SessionInstance)
	case r.GetAction() != nornv1.WorkerAction_WORKER_ACTION_DRAIN && r.GetAction() != nornv1.WorkerAction_WORKER_ACTION_KILL:
		return Invalid("action has the unknown value %d", r.GetAction())
	case len(r.GetReason()) > MaxReasonBytes:
		return Invalid("the reason has %d bytes, over the limit of %d", len(r.GetReason()), MaxReasonBytes)
	}
	return nil
}

package session

import (
	"errors"
	"fmt"
	"strings"
	"time"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// ErrWire is returned when a frame cannot be what the other side meant.
var ErrWire = errors.New("session: malformed frame")

// maxFrameBytes bounds what one frame carries; with the largest message on top it is
// far below proto.MaxFrame.
const maxFrameBytes = 8 << 20

// Fit is how many of some messages go into one frame: at least one where there are
// any.
func Fit(all []Message) int {
	size := 0
	for n, m := range all {
		if size += Size(m); n > 0 && (size > maxFrameBytes || n == proto.MaxSessionMessages) {
			return n
		}
	}
	return len(all)
}

// Size is about how many bytes a message takes in a frame.
func Size(m Message) int {
	const some, claim = 64, 48
	switch b := m.Body.(type) {
	case *UpdateStatus:
		return some + len(b.End.Result) + len(b.End.Further) + min(len(b.End.Error), proto.MaxErrorBytes)
	case *RunTask:
		return some + gproto.Size(b.Grant)
	case *Renewed:
		return some + claim*len(b.Items)
	case *HeartbeatReply:
		return some + len(b.Text) + claim*len(b.Cancelled)
	case *Heartbeat:
		return some + claim*len(b.Claims)
	case *RunningTasks:
		return some + 2*claim*len(b.Held)
	case *LogLines:
		size := some
		for _, l := range b.Lines {
			size += len(l) + 4
		}
		return size
	}
	return some
}

// Bundle gives the frame that carries messages of a worker, all of one association,
// no more than [Fit] one.
// Its stamp is [Worker.Stamp] taken right before it is sent, or the newest one of
// its messages; wait is how long the node may hold the answer.
func Bundle(instance Instance, association uint64, stamp int64, all []Message, wait time.Duration) *nornv1.SessionRequest {
	r := &nornv1.SessionRequest{
		Instance: instance[:], Association: association, Stamp: stamp, WaitSeconds: wait.Seconds(),
		Messages: make([]*nornv1.WorkerMessage, 0, len(all)),
	}
	for _, m := range all {
		r.Stamp = max(r.Stamp, m.Stamp)
		if w := workerToWire(m); w != nil {
			r.Messages = append(r.Messages, w)
		}
	}
	return r
}

// Unbundle is the inverse, for a frame that proto.CheckSession has passed. A frame
// without a message that is known gives one Message without a body: its stamp is
// worth something. It returns ErrWire for what CheckSession would refuse.
func Unbundle(r *nornv1.SessionRequest) ([]Message, error) {
	if err := proto.CheckSession(r); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrWire, err.Message)
	}
	head := Message{Instance: Instance(r.GetInstance()), Association: r.GetAssociation(), Stamp: r.GetStamp()}
	var all []Message
	for _, w := range r.GetMessages() {
		m := head
		if m.Body = workerFromWire(w); m.Body == nil {
			continue
		}
		if h := w.GetHeartbeat(); h != nil {
			m.Stamp = h.GetStamp()
			m.Body.(*Heartbeat).Identity.Instance = head.Instance
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		all = []Message{head}
	}
	return all, nil
}

// BundleReply gives the frame that carries messages to a worker; those of older
// associations than the newest are left out. It returns ErrWire for a RunTask
// without its grant.
func BundleReply(all []Message) (*nornv1.SessionReply, error) {
	r := &nornv1.SessionReply{}
	for _, m := range all {
		r.Association = max(r.Association, m.Association)
	}
	for _, m := range all {
		if m.Association != r.Association {
			continue
		}
		if t, ok := m.Body.(*RunTask); ok && t.Check == 0 && t.Grant == nil {
			return nil, fmt.Errorf("%w: a task without its grant", ErrWire)
		}
		if w := dispatcherToWire(m.Body); w != nil {
			r.Messages = append(r.Messages, w)
		}
	}
	return r, nil
}

// UnbundleReply is the inverse, for a worker. Messages that are not known are left
// out. It returns ErrWire when a message names no claim where it must.
func UnbundleReply(instance Instance, r *nornv1.SessionReply) ([]Message, error) {
	var all []Message
	for _, w := range r.GetMessages() {
		b, err := dispatcherFromWire(w)
		if err != nil {
			return nil, err
		}
		if b != nil {
			all = append(all, Message{Instance: instance, Association: r.GetAssociation(), Body: b})
		}
	}
	return all, nil
}

// text makes a string fit for the wire, where text is UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func claimToWire(c Claim) *nornv1.ClaimRef {
	return &nornv1.ClaimRef{Id: c.Task.Bytes(), Token: c.Token}
}

func claimFromWire(c *nornv1.ClaimRef) Claim {
	task, _ := id.FromBytes(c.GetId()) // checked before
	return Claim{Task: task, Token: c.GetToken()}
}

func claimsToWire(all []Claim) []*nornv1.ClaimRef { return each(all, claimToWire) }

func claimsFromWire(all []*nornv1.ClaimRef) []Claim { return each(all, claimFromWire) }

// each maps a list; an empty one stays nil.
func each[A, B any](all []A, f func(A) B) []B {
	if len(all) == 0 {
		return nil
	}
	out := make([]B, len(all))
	for i, a := range all {
		out[i] = f(a)
	}
	return out
}

func timeToWire(wall int64) *timestamppb.Timestamp {
	if wall == 0 {
		return nil
	}
	return timestamppb.New(time.Unix(0, wall))
}

func timeFromWire(t *timestamppb.Timestamp) int64 {
	if t == nil {
		return 0
	}
	return t.AsTime().UnixNano()
}

func timeoutsToWire(t Timeouts) *nornv1.SessionTimeouts {
	if t.IsZero() {
		return nil
	}
	return &nornv1.SessionTimeouts{
		PeriodSeconds: t.Period.Seconds(), HeartbeatGapSeconds: t.HeartbeatGap.Seconds(),
		CheckGapSeconds: t.CheckGap.Seconds(), LoseAfterSeconds: t.LoseAfter.Seconds(),
	}
}

func timeoutsFromWire(t *nornv1.SessionTimeouts) Timeouts {
	return Timeouts{
		Period: seconds(t.GetPeriodSeconds()), HeartbeatGap: seconds(t.GetHeartbeatGapSeconds()),
		CheckGap: seconds(t.GetCheckGapSeconds()), LoseAfter: seconds(t.GetLoseAfterSeconds()),
	}
}

// seconds reads a duration, rounded to the nearest nanosecond, so that what was
// written is read again; NaN and negative ones are none.
func seconds(s float64) time.Duration {
	d := proto.Seconds(s)
	if d < 1<<52 && s > 0 {
		d = time.Duration(s*float64(time.Second) + 0.5)
	}
	return max(0, d)
}

func setToWire(v SetVersion) *nornv1.SessionSet {
	if v == (SetVersion{}) {
		return nil
	}
	return &nornv1.SessionSet{Version: v.Version, Hash: v.Hash}
}

func setFromWire(v *nornv1.SessionSet) SetVersion {
	return SetVersion{Version: v.GetVersion(), Hash: v.GetHash()}
}

// enum reads a value of an enum whose unknown values must stay apart from 0.
func enum[T ~int32](v T) uint8 { return uint8(min(max(v, 0), 255)) }

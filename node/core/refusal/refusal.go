package refusal

import (
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Conflict refuses a change that what is known here contradicts.
func Conflict(format string, args ...any) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, format, args...)
}

// NoAnswer says that a node has not answered.
func NoAnswer(m register.Member) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "node %s did not answer; it may have been done all the same: ask again", m.Node).Keeping("a reachable leader or replica").Unsure().Again(100 * time.Millisecond)
}

// LogBehind says that a log cannot be read on from where its reader is: too few of the others
// have answered who may have what is missing here.
func LogBehind(task id.ID, m *nornv1.LogRequest) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "update %d of claim %d of task %s is not here, and too few of the others who keep its partition have answered; try again",
		m.GetAfterSeq(), m.GetAfterToken(), task).Keeping(MonotonicRead).Again(100 * time.Millisecond)
}

// Abandoned answers a copy of a request that its client has given up.
func Abandoned() *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_CANCELLED, "the client has named this claim request among its unanswered ones: it is granted nothing any more; a new request needs a new request_no")
}

// NoTask says that a task is not known here.
func NoTask(task id.ID) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "task %s is not known here", task)
}

// MonotonicRead is what is not kept when a client would be shown less than it has seen.
const MonotonicRead = "monotonic read"

// Unreachable says that nobody is there to answer for a partition.
func Unreachable(p ring.Partition) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "of partition %d no node that could answer is in reach; try again, or look at `norn cluster status`", p).Keeping("a reachable leader or replica").Again(100 * time.Millisecond)
}

// Crowded refuses a request that would wait for other nodes while as many do as may.
func Crowded(limit int) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "too many requests wait for other nodes already, of all or of this connection: this node takes %d, and of one connection its share", limit).Again(100 * time.Millisecond)
}

// NoWorker says that no session has this name.
func NoWorker(name string) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "no worker %s has a session now; `norn worker list` shows those that have", name)
}

// Leaderless says that a partition has no leader that is known here.
func Leaderless(v *vnode.Vnode) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "partition %d has no leader here yet; try again", v.Partition).Keeping("exclusive claims").Again(50 * time.Millisecond)
}

// LaterEpoch says that a token is of a later epoch than the one in which this node leads. If
// it was given out, another node leads by now, and only that one knows what became of it.
func LaterEpoch(v *vnode.Vnode, token uint64) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "token %d is of epoch %d, and here partition %d is led in epoch %d: another node may lead it by now; try again, or check the token", token, token>>32, v.Partition, v.Leading()).Keeping("exclusive claims").Again(50 * time.Millisecond)
}

// LeaseInDoubt says that a claim whose lease has run out here may have been renewed elsewhere.
func LeaseInDoubt(v *vnode.Vnode, token uint64) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the lease of claim %d has run out here, and whether another node leads partition %d by now, and has renewed it, is being asked; try again", token, v.Partition).Keeping("exclusive claims").Again(50 * time.Millisecond)
}

// ClockInDoubt says that a leader's clock was set, so that it may not renew for a
// moment.
func ClockInDoubt(v *vnode.Vnode) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the clock of the node that leads partition %d was set, or the machine was suspended: it renews when it has compared it with the others'; try again", v.Partition).Keeping("exclusive claims").Again(50 * time.Millisecond)
}

// NoMajority says that a renewal or release has not reached a majority in time.
func NoMajority(p ring.Partition) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "a majority of partition %d has not answered in time; it may have taken effect all the same: ask again with the same token", p).Keeping("exclusive claims").Unsure().Again(50 * time.Millisecond)
}

// NoTaskUnless says that there is no such task, unless too few of the others have answered.
func NoTaskUnless(task id.ID, unsure bool) *proto.Error {
	if !unsure {
		return NoTask(task)
	}
	return TooFewAnswered("task %s is not known here, and too few of the others who keep its partition have answered; try again", task)
}

// TooFewAnswered refuses what only a majority knows, of which too few have answered.
func TooFewAnswered(format string, task id.ID) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, format, task).Keeping("replicas read").Again(100 * time.Millisecond)
}

// Cancelled answers a request that its sender has cancelled.
func Cancelled() *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_CANCELLED, "the request was cancelled by its sender")
}

// GivenUp answers a request that its sender has cancelled when it was done here, and not yet known
// to be done for good.
func GivenUp() *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_CANCELLED, "the request was cancelled by its sender while it waited for other nodes: what it asked for may have been done").Unsure()
}

// Stopping says that the node is shutting down.
func Stopping() *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the node is shutting down; try another one").Again(100 * time.Millisecond)
}

// RegisterUnheard says so, and what cannot be promised.
func RegisterUnheard(guarantee string) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "since this node has started the register has not told it who keeps what: it may be one of several; try again, or ask for one copy").Keeping(guarantee).Again(50 * time.Millisecond)
}

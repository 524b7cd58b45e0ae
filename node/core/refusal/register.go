package refusal

import (
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// MembershipUnavailable says that the register has no majority.
func MembershipUnavailable(err error, effect nornv1.Effect) *proto.Error {
	text := "the register did not answer: %v; members cannot change without a majority of its voters"
	if effect == nornv1.Effect_EFFECT_UNKNOWN {
		text = "the register did not answer: %v; whether it was done is not known: ask again"
	}
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, text, err)
	e.Effect, e.Guarantee = effect, "linearizable membership"
	return e
}

// TooManyUpcoming refuses a request for so many instants of a schedule.
func TooManyUpcoming(n uint64) *proto.Error {
	return proto.Invalid("upcoming: %d instants are over the limit of %d", n, proto.MaxUpcoming)
}

// NoSchedule says that there is no such schedule.
func NoSchedule(name string) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "there is no schedule %s; `norn schedule list` shows them", name)
}

// SchedulesUnavailable says that the register has no majority.
func SchedulesUnavailable(err error, effect nornv1.Effect) *proto.Error {
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the register did not answer: %v; schedules need a majority of its voters", err)
	e.Effect, e.Guarantee = effect, "linearizable schedules"
	return e
}

// AnswerFull refuses a change whose answer would not fit with those before it.
func AnswerFull(name string) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "schedule %s: the schedules before it in this request are too large for one answer; ask for it in another request", name).Again(time.Millisecond)
}

// SchedulesFull says that the register takes no more of schedules.
func SchedulesFull(name string, all *register.Schedules) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED,
		"schedule %s: the register has no room for it: it has %d schedules of %d MiB, the limits are %d and %d MiB; delete some, or store large payloads elsewhere",
		name, all.Len(), all.Bytes()>>20, register.MaxSchedules, (register.MaxScheduleBytes-register.ScheduleReserve)>>20).ForGood()
}

// TooManyQueues refuses a queue name beyond the limit of names.
func TooManyQueues(n int) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "there are %d queues already, the limit of this server (max-queues); "+
		"use an existing one, raise it, or make room: a queue counts no more once it has been without settings and unfinished tasks for a minute "+
		"(`norn queue purge`, `norn queue delete`)", n).ForGood()
}

// TooManyNames refuses a request for so many queues or workers that the answer might not
// fit a frame.
func TooManyNames(n int) *proto.Error {
	return proto.Invalid("the request names %d, over the limit of %d; ask for fewer, or for all", n, proto.MaxNames)
}

// NoQueue says that a queue has neither tasks nor settings.
func NoQueue(name string) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "queue %s has neither tasks nor settings", name)
}

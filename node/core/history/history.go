package history

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Step is what nodes count in.
const Step = 10 * time.Second

// Limits of a request.
const (
	MaxSteps   = 8640           // 24 h
	MaxAge     = 24 * time.Hour // of all queues together
	MaxQueue   = time.Hour      // of one
	MaxBusiest = 10_000
	usual      = 10 * time.Minute
	usualSteps = 360
)

// Check gives a request with what it leaves open filled in, at a wall ns. Its times are
// multiples of steps.
func Check(m *nornv1.HistoryRequest, now int64) (*nornv1.HistoryRequest, *proto.Error) {
	if m.GetQueue() != "" {
		if err := proto.CheckQueue(m.GetQueue()); err != nil {
			return nil, err
		}
	}
	most := MaxAge
	if m.GetQueue() != "" {
		most = MaxQueue
	}
	seconds, step := cmp.Or(m.GetSeconds(), usual.Seconds()), m.GetStepSeconds()
	switch {
	case !(seconds >= Step.Seconds() && seconds <= most.Seconds()): // or it is no number
		return nil, proto.Invalid("seconds of %v is outside 10 to %v, which is what is remembered", seconds, most.Seconds())
	case !(step >= 0 && step <= seconds):
		return nil, proto.Invalid("step_seconds of %v is outside 0 to the %v s that are asked for", step, seconds)
	case m.GetBusiest() > MaxBusiest:
		return nil, proto.Invalid("%d queues are over the limit of %d", m.GetBusiest(), MaxBusiest)
	case m.Until != nil && (!m.GetUntil().IsValid() || m.GetUntil().AsTime().UnixNano() > now+int64(MaxAge)):
		return nil, proto.Invalid("until is no time, or lies ahead")
	}
	steps := max(int64(math.Ceil(step/Step.Seconds())), 1)
	if step == 0 {
		steps = max(int64(math.Ceil(seconds/Step.Seconds()/usualSteps)), 1)
	}
	until := m.GetUntil()
	if until == nil {
		until = timestamppb.New(time.Unix(0, now))
	}
	return &nornv1.HistoryRequest{
		Queue: m.GetQueue(), Busiest: m.GetBusiest(), Until: until, StepSeconds: float64(steps) * Step.Seconds(),
		Seconds: math.Ceil(seconds/Step.Seconds()/float64(steps)) * float64(steps) * Step.Seconds(),
	}, nil
}

// Join adds a node's answer to that of others. Busiest queues are put in order by [Busiest].
func Join(to, m *nornv1.HistoryReply) {
	if !m.GetStart().AsTime().Equal(to.GetStart().AsTime()) || m.GetStepSeconds() != to.GetStepSeconds() {
		return
	}
	to.Nodes += m.GetNodes()
	if m.GetSince().AsTime().After(to.GetSince().AsTime()) {
		to.Since = m.Since
	}
	if to.Decisions == nil {
		to.Decisions = &nornv1.Decisions{}
	}
	from := Lists(m.GetDecisions())
	for i, list := range Lists(to.Decisions) {
		*list = sum(*list, *from[i])
	}
	to.Busiest = append(to.Busiest, m.GetBusiest()...)
	to.Wait, to.Run, to.Finish = durations(to.Wait, m.Wait), durations(to.Run, m.Run), durations(to.Finish, m.Finish)
}

func sum(a, b []uint64) []uint64 {
	if len(a) == 0 {
		return slices.Clone(b)
	}
	for i := range min(len(a), len(b)) {
		a[i] += b[i]
	}
	return a
}

func durations(to, m *nornv1.Durations) *nornv1.Durations {
	switch {
	case m == nil:
		return to
	case to == nil:
		return &nornv1.Durations{UpToSeconds: m.UpToSeconds, Counts: slices.Clone(m.Counts), SumSeconds: m.SumSeconds}
	case !slices.Equal(to.UpToSeconds, m.UpToSeconds): // of another build
		return to
	}
	to.Counts, to.SumSeconds = sum(to.Counts, m.Counts), to.SumSeconds+m.SumSeconds
	return to
}

// Busiest joins what is said of each queue, puts those first in which tasks died, then those
// of which most was decided, and gives so many of them.
func Busiest(all []*nornv1.QueueDecisions, most int) []*nornv1.QueueDecisions {
	byName := make(map[string]*nornv1.QueueDecisions, len(all))
	var out []*nornv1.QueueDecisions
	for _, d := range all {
		if to := byName[d.GetQueue()]; to != nil {
			from := Fields(d)
			for i, n := range Fields(to) {
				*n += *from[i]
			}
			continue
		}
		byName[d.GetQueue()] = d
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *nornv1.QueueDecisions) int {
		return cmp.Or(cmp.Compare(b.Dead, a.Dead), cmp.Compare(Total(b), Total(a)), cmp.Compare(a.Queue, b.Queue))
	})
	return out[:min(most, len(out))]
}

// Lists are the fields of decisions, by what was decided.
func Lists(d *nornv1.Decisions) [message.Decisions]*[]uint64 {
	if d == nil {
		d = &nornv1.Decisions{}
	}
	return [message.Decisions]*[]uint64{&d.Enqueued, &d.Claimed, &d.Completed, &d.Failed, &d.Dead, &d.Expired, &d.Cancelled, &d.Retried}
}

// Fields are those of the decisions of a queue.
func Fields(d *nornv1.QueueDecisions) [message.Decisions]*uint64 {
	return [message.Decisions]*uint64{&d.Enqueued, &d.Claimed, &d.Completed, &d.Failed, &d.Dead, &d.Expired, &d.Cancelled, &d.Retried}
}

// Total is the sum of them.
func Total(d *nornv1.QueueDecisions) (sum uint64) {
	for _, n := range Fields(d) {
		sum += *n
	}
	return sum
}

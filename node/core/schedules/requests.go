package schedules

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/cron"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/scope"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/schedule"
	"github.com/norn-dev/norn/schedule/policy"

	gproto "google.golang.org/protobuf/proto"
)

// Limits of requests about schedules.
const (
	pageSchedules   = 100
	maxSchedules    = 1000    // in an answer; in a request to change them, too
	maxHistories    = 100     // in an answer
	maxUpcoming     = 10_000  // instants in an answer
	maxSchedulePage = 4 << 20 // bytes of an answer, about
	// MaxAnswer bounds what is told of changes, bytes: with the largest schedule
	// before and after its change on top it fits a frame.
	MaxAnswer = 16 << 20
	// maxScheduleCommit bounds what one commit changes, bytes.
	maxScheduleCommit = 512 << 10
	// MaxTries is how often a change is worked out anew because somebody
	// else was first: a schedule of each second is written thrice a second.
	MaxTries = 30
)

// List answers with schedules, by a linearizable read.
func (c *Machine) List(r *message.Request, m *nornv1.SchedulesRequest) (gproto.Message, *proto.Error) {
	for _, name := range m.GetNames() {
		if err := proto.CheckSchedule(name); err != nil {
			return nil, err
		}
	}
	if len(m.GetNames()) > maxSchedules {
		return nil, proto.Invalid("%d names are over the limit of %d", len(m.GetNames()), maxSchedules)
	}
	if m.GetUpcoming() > proto.MaxUpcoming {
		return nil, refusal.TooManyUpcoming(uint64(m.GetUpcoming()))
	}
	if _, err := cron.UpcomingFrom(m.GetUpcomingFrom(), 0); err != nil {
		return nil, proto.Invalid("%v", err)
	}
	return c.Node.Consult(r.From, register.Request{}, refusal.SchedulesUnavailable, nornv1.Effect_EFFECT_NONE, func(now clock.Time, res *register.Result) (gproto.Message, *proto.Error) {
		return c.answer(now, r, m, &res.State)
	})
}

func (c *Machine) answer(now clock.Time, r *message.Request, m *nornv1.SchedulesRequest, s *register.State) (gproto.Message, *proto.Error) {
	limit := int(m.GetLimit())
	if limit == 0 {
		limit = max(pageSchedules, len(m.GetNames()))
	}
	if limit = min(limit, maxSchedules); m.GetHistory() {
		limit = min(limit, maxHistories)
	}
	upcoming := int(m.GetUpcoming())
	limit = min(limit, maxUpcoming/max(upcoming, 1))
	wall := c.Time(now).Wall
	from, _ := cron.UpcomingFrom(m.GetUpcomingFrom(), wall) // list has looked
	reply := &nornv1.SchedulesReply{Status: &nornv1.CronStatus{
		Master: s.Master.Member.Node, Term: s.Master.Term, Zones: s.Master.Zones, NodeZones: schedule.ZonesVersion,
	}}
	names, count := scope.First(s.Schedules, m.GetAfter(), limit+1, func(x *register.Schedule) bool {
		return r.Scope == nil || r.Scope.Within(x.Name) && scope.Sees(r.Scope, x.Name, cron.QueueOf(x))
	})
	if len(m.GetNames()) > 0 {
		names = m.GetNames()
	}
	if r.Scope == nil {
		reply.Status.Schedules = count
	}
	size := 0
	for _, name := range names {
		if len(reply.Schedules) >= limit || size > maxSchedulePage {
			reply.More = true
			break
		}
		x := s.Schedules.Get(name)
		shown := cron.Show(c.Cron.Zones(), c.Cluster, x, wall, m.GetHistory())
		if shown == nil || !scope.Sees(r.Scope, name, shown.GetSpec().GetTask().GetQueue()) {
			return nil, refusal.NoSchedule(name)
		}
		if t := shown.GetSpec().GetTask(); !r.Scope.May(guard.Read, t.GetQueue()) {
			t.Payload, t.Headers = nil, nil
		}
		shown.Upcoming = cron.Upcoming(c.Cron.Zones(), x, from, upcoming)
		size += len(x.Definition) + 4*len(x.State)
		reply.Schedules = append(reply.Schedules, shown)
	}
	return reply, nil
}

// editing is a request for changes that is being worked on.
type editing struct {
	from    message.Origin
	scope   *guard.Scope
	m       *nornv1.ChangeSchedulesRequest
	results []*nornv1.ScheduleResult
	left    []int // changes that are not decided
	size    int   // of the results, bytes
	tries   int   // in vain
}

// Change takes a request for changes.
func (c *Machine) Change(r *message.Request, m *nornv1.ChangeSchedulesRequest) (gproto.Message, *proto.Error) {
	n := len(m.GetChanges())
	byHand := slices.ContainsFunc(m.GetChanges(), func(x *nornv1.ScheduleChange) bool {
		return x.GetTrigger() != nil || x.GetBackfill() != nil
	})
	switch {
	case n == 0 || n > maxSchedules:
		return nil, proto.Invalid("%d changes are not from 1 to %d", n, maxSchedules)
	case byHand && n > 1:
		return nil, proto.Invalid("a trigger or a backfill is alone in its request")
	}
	upcoming := uint64(0)
	for _, x := range m.GetChanges() {
		upcoming += uint64(x.GetPut().GetUpcoming())
	}
	if upcoming > proto.MaxUpcoming {
		return nil, refusal.TooManyUpcoming(upcoming)
	}
	k := &editing{from: r.From, scope: r.Scope, m: m, results: make([]*nornv1.ScheduleResult, n)}
	for i, x := range m.GetChanges() {
		if err := proto.CheckSchedule(x.GetName()); err != nil {
			k.results[i] = &nornv1.ScheduleResult{Error: err.Proto()}
			continue
		}
		k.left = append(k.left, i)
	}
	return c.Node.Consult(k.from, register.Request{}, refusal.SchedulesUnavailable, nornv1.Effect_EFFECT_NONE, func(now clock.Time, res *register.Result) (gproto.Message, *proto.Error) {
		if r.Scope != nil {
			if hidden := scope.Hides(r.Scope, &res.State, m, c.Cron.Zones(), c.Cluster); hidden != "" {
				return nil, refusal.NoSchedule(hidden)
			}
		}
		if byHand && len(k.left) > 0 {
			return c.byHand(now, k, &res.State)
		}
		return c.attempt(now, k, &res.State)
	})
}

// decide keeps what comes of a change.
func (k *editing) decide(i int, r *nornv1.ScheduleResult) {
	k.size += gproto.Size(r) - gproto.Size(k.results[i])
	k.results[i] = r
}

// editor works out changes of a state.
func (c *Machine) editor(now clock.Time, s *register.State) *cron.Editor {
	return &cron.Editor{
		Zones: c.Cron.Zones(), Generation: s.Generation, Now: c.Time(now).Wall, MaxPayload: c.MaxPayload,
		UUID: func() (u [16]byte) {
			binary.BigEndian.PutUint64(u[:8], c.Rand.Uint64())
			binary.BigEndian.PutUint64(u[8:], c.Rand.Uint64())
			u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80 // version 4 (RFC 9562)
			return u
		},
	}
}

// attempt works out the changes that are left, as many as fit into one commit,
// and asks the register for them.
func (c *Machine) attempt(now clock.Time, k *editing, s *register.State) (gproto.Message, *proto.Error) {
	e, size := c.editor(now, s), 0
	var req register.Request
	var asked, later []int
	created := make(map[*quota.Tenant]int)
	for _, i := range k.left {
		if size > maxScheduleCommit {
			later = append(later, i)
			continue
		}
		x := k.m.GetChanges()[i]
		if k.size > MaxAnswer { // before anything is done that could not be told
			k.decide(i, &nornv1.ScheduleResult{Error: refusal.AnswerFull(x.GetName()).Proto()})
			continue
		}
		edit, dry, err := c.edit(e, x, s)
		if err != nil {
			k.decide(i, &nornv1.ScheduleResult{Error: c.scheduleError(x.GetName(), err).Proto()})
			continue
		}
		result := &nornv1.ScheduleResult{Changed: edit.Change != nil, Created: edit.Created, Before: edit.Before}
		if edit.Record != nil {
			result.Schedule = c.edited(now, x, edit.Record)
			if edit.Reread {
				result.Schedule.Warnings = append(result.Schedule.Warnings, rereadWarning)
			}
		}
		if t := c.Tenants.Of(x.GetName()); t != nil && edit.Created {
			_, all, _ := c.Tenants.Use(t.Prefix)
			if err := t.Schedule(all + created[t]); err != nil {
				k.decide(i, &nornv1.ScheduleResult{Error: err.Proto()})
				continue
			}
			created[t]++
		}
		k.decide(i, result)
		if edit.Change == nil || dry {
			continue
		}
		size += len(edit.Change.Definition) + len(edit.Change.State) + len(edit.Change.Name)
		req.Schedules, asked = append(req.Schedules, *edit.Change), append(asked, i)
	}
	if k.left = later; len(asked) == 0 {
		return &nornv1.ChangeSchedulesReply{Results: k.results}, nil
	}
	return c.Node.Consult(k.from, req, refusal.SchedulesUnavailable, nornv1.Effect_EFFECT_UNKNOWN, func(now clock.Time, res *register.Result) (gproto.Message, *proto.Error) {
		return c.decided(now, k, asked, req.Schedules, res)
	})
}

// rereadWarning is for who sets a schedule that had other instants until then.
const rereadWarning = "it was set before by older rules, which gave the specification other instants; from now on a day field that begins with * is a star and both day fields must match"

// edited is a schedule as it is after a change.
func (c *Machine) edited(now clock.Time, x *nornv1.ScheduleChange, rec *register.Schedule) *nornv1.Schedule {
	wall := c.Time(now).Wall
	s := cron.Show(c.Cron.Zones(), c.Cluster, rec, wall, false)
	if s != nil {
		s.Upcoming = cron.Upcoming(c.Cron.Zones(), rec, wall, int(x.GetPut().GetUpcoming()))
	}
	return s
}

// decided hears which changes were made. Those that came too late are worked out
// anew.
func (c *Machine) decided(now clock.Time, k *editing, asked []int, changes []register.ScheduleChange, res *register.Result) (gproto.Message, *proto.Error) {
	lost := 0
	for j, i := range asked {
		if j < len(res.SchedulesWon) && res.SchedulesWon[j] {
			continue
		}
		x, revision := res.State.Schedules.Get(changes[j].Name), uint64(0)
		if x != nil {
			revision = x.Revision
		}
		if revision == changes[j].Old && j < len(res.SchedulesWon) { // nobody was first, and it will not be made
			k.decide(i, &nornv1.ScheduleResult{Error: refusal.SchedulesFull(changes[j].Name, &res.State.Schedules).Proto()})
			continue
		}
		lost++
		k.left = append(k.left, i)
	}
	if lost > 0 {
		k.tries++
	}
	if k.tries > MaxTries {
		for _, i := range k.left {
			k.results[i] = &nornv1.ScheduleResult{Error: proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT,
				"schedule %s keeps changing; ask again", k.m.GetChanges()[i].GetName()).Proto()}
		}
		k.left = nil
	}
	slices.Sort(k.left)
	return c.attempt(now, k, &res.State)
}

// edit works out one change, and tells whether it is a dry run.
func (c *Machine) edit(e *cron.Editor, x *nornv1.ScheduleChange, s *register.State) (cron.Edit, bool, error) {
	name, rec, version := x.GetName(), s.Schedules.Get(x.GetName()), x.GetIfVersion()
	e.Maker = x.GetMaker()
	switch a := x.GetAction().(type) {
	case *nornv1.ScheduleChange_Put:
		edit, err := e.Put(name, rec, version, a.Put)
		return edit, a.Put.GetDryRun(), err
	case *nornv1.ScheduleChange_Pause:
		edit, err := e.Pause(name, rec, version, a.Pause)
		return edit, false, err
	case *nornv1.ScheduleChange_Delete:
		edit, err := e.Delete(name, rec, version, a.Delete.GetUuid())
		return edit, false, err
	}
	return cron.Edit{}, false, fmt.Errorf("%w: the change says nothing to do that is known here: put, pause, delete, trigger or backfill", cron.ErrInvalid)
}

func (c *Machine) scheduleError(name string, err error) *proto.Error {
	kind := nornv1.ErrorKind_ERROR_KIND_INTERNAL
	switch {
	case errors.Is(err, cron.ErrNotFound):
		return refusal.NoSchedule(name)
	case errors.Is(err, cron.ErrExists):
		kind = nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS
	case errors.Is(err, cron.ErrVersion):
		kind = nornv1.ErrorKind_ERROR_KIND_CONFLICT
	case errors.Is(err, cron.ErrInvalid):
		kind = nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT
	}
	return proto.Refused(kind, "schedule %s: %s", name, strings.Replace(err.Error(), policy.ErrInvalid.Error()+": ", "", 1)) // it says so already
}

// byHand enqueues what a trigger or a backfill asks for, and records it. Where the
// client has made the IDs a repeated request enqueues nothing twice.
func (c *Machine) byHand(now clock.Time, k *editing, s *register.State) (gproto.Message, *proto.Error) {
	x := k.m.GetChanges()[0]
	e, rec := c.editor(now, s), s.Schedules.Get(x.GetName())
	var hand cron.ByHand
	var err error
	dry := x.GetBackfill().GetDryRun()
	if b := x.GetBackfill(); b != nil && len(b.GetSeed()) == 0 {
		b.Seed = c.Routes.Draw(now).Bytes()
	}
	if t := x.GetTrigger(); t != nil {
		if len(t.GetTaskId()) == 0 {
			t.TaskId = c.Routes.Draw(now).Bytes()
		}
		if b := t.GetTaskId(); len(b) != id.Size || id.ID(b).Kind() != id.KindTask {
			return nil, proto.Invalid("task_id: what clients bring is of kind 0 and has %d bytes", id.Size)
		}
		hand, err = e.Trigger(x.GetName(), rec, x.GetIfVersion(), id.ID(t.GetTaskId()))
	} else {
		hand, err = e.Backfill(x.GetName(), rec, x.GetIfVersion(), x.GetBackfill())
	}
	if err != nil {
		return nil, c.scheduleError(x.GetName(), err)
	}
	result := &nornv1.ScheduleResult{Changed: len(hand.Tasks) > 0 && !dry, Schedule: cron.Show(c.Cron.Zones(), c.Cluster, rec, c.Time(now).Wall, false)}
	for _, t := range hand.Tasks {
		result.TaskIds = append(result.TaskIds, id.ID(t.GetId()).String())
	}
	k.results[0] = result
	if !result.Changed {
		return &nornv1.ChangeSchedulesReply{Results: k.results}, nil
	}
	ask := &nornv1.EnqueueRequest{Tasks: hand.Tasks}
	list := c.Node.Items(now, ask)
	c.Routes.DoAs(now, scope.Holder{Scope: k.scope}, c.Origin(nornv1.Method_METHOD_ENQUEUE), list, ask, func(_ clock.Time, m gproto.Message, bad *proto.Error) {
		c.launchedByHand(k, &hand, enqueueErrors(len(hand.Tasks), m, bad))
	})
	return nil, nil
}

// launchedByHand records what was enqueued, and says so of the rest: the client
// has to ask for it again.
func (c *Machine) launchedByHand(k *editing, hand *cron.ByHand, errs []*proto.Error) {
	_, _ = c.Node.Consult(k.from, register.Request{}, refusal.SchedulesUnavailable, nornv1.Effect_EFFECT_UNKNOWN, func(now clock.Time, res *register.Result) (gproto.Message, *proto.Error) {
		n := len(hand.Tasks)
		bad := c.editor(now, &res.State).Settle(res.State.Schedules.Get(k.m.GetChanges()[0].GetName()), hand, errs)
		if done := len(hand.Tasks); bad != nil && done > 0 {
			whole := *bad
			whole.Message = fmt.Sprintf("%d of %d tasks are enqueued, as the history says; of the others: %s", done, n, bad.Message)
			if bad = &whole; bad.Effect == nornv1.Effect_EFFECT_NONE {
				bad.Effect = nornv1.Effect_EFFECT_PARTIAL
			}
		}
		return c.note(now, k, hand, bad, &res.State)
	})
}

// note writes the history, and then answers.
func (c *Machine) note(now clock.Time, k *editing, hand *cron.ByHand, bad *proto.Error, s *register.State) (gproto.Message, *proto.Error) {
	name := k.m.GetChanges()[0].GetName()
	change := c.editor(now, s).Done(name, s.Schedules.Get(name), hand)
	if change == nil || k.tries > MaxTries { // it is there, or the schedule has gone
		if bad != nil {
			return nil, bad
		}
		return &nornv1.ChangeSchedulesReply{Results: k.results}, nil
	}
	k.tries++
	return c.Node.Consult(k.from, register.Request{Schedules: []register.ScheduleChange{*change}}, refusal.SchedulesUnavailable, nornv1.Effect_EFFECT_UNKNOWN, func(now clock.Time, res *register.Result) (gproto.Message, *proto.Error) {
		return c.note(now, k, hand, bad, &res.State)
	})
}

package queues

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/explain"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Machine is what operators have set per queue. The truth is in the register;
// this is what it said last.
type Machine struct {
	Env

	// Known are the names with tasks, whatever their state, or settings: when each was used
	// last, mono ns.
	Known map[string]int64

	sets      map[string]*setting
	remote    *remoteCounts
	names     []string // see [Machine.sorted]
	counted   countedNames
	countedOf countedNames // of the tenant whose were counted last
}

// New knows no queue yet.
func New(env Env) *Machine {
	m := &Machine{Env: env, Known: make(map[string]int64), sets: make(map[string]*setting)}
	m.remote = newRemoteCounts(&m.Env, m.Known)
	return m
}

// Work asks other nodes how many tasks the queues with a limit have there, if somebody wants to know.
func (q *Machine) Work(now clock.Time) { q.remote.work(now) }

// Due is when they are to be asked again, mono ns.
func (q *Machine) Due() int64 { return q.remote.next() }

// setting is one queue's settings with what follows from them.
type setting struct {
	version uint64
	set     *nornv1.QueueSettings
	own     bool       // something is set, not only that the queue was deleted
	retry   crdt.Retry // with the node's defaults
	lease   time.Duration
}

// setQueue is a change on its way to the register.
type setQueue struct {
	from message.Origin
	m    *nornv1.SetQueueRequest
	old  uint64 // the version that it is a change of
}

// Load takes over what the register says, unless more is known: answers may come out of
// order. A resumed queue has its waiting requests looked at.
func (q *Machine) Load(s *register.State) *proto.Error {
	if m := &q.View.State; standing.Earlier(s.Generation, s.Revision, m.Generation, m.Revision) {
		return nil
	}
	state := s.Queues
	for _, name := range slices.Sorted(maps.Keys(state)) {
		r := state[name]
		old := q.sets[name]
		if old != nil && old.version == r.Version {
			continue
		}
		s := &setting{version: r.Version, set: &nornv1.QueueSettings{}}
		if err := gproto.Unmarshal(r.Settings, s.set); err != nil {
			return proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "settings of queue %s: %v", name, err)
		}
		s.retry, s.lease = q.Retry, q.Lease
		if r := s.set.GetRetry(); r != nil {
			s.retry = convert.Retry(q.Retry, r)
		}
		s.retry.FromQueue = true
		if d := s.set.GetLeaseSeconds(); d > 0 {
			s.lease = proto.Seconds(d)
		}
		s.own = gproto.Size(bare(s.set)) > 0
		q.sets[name] = s
		if s.own {
			q.Use(name, q.Round.Now)
		} else {
			q.hide(name)
		}
		q.paused(name, old, s)
	}
	if len(q.sets) == len(state) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(q.sets)) {
		if _, is := state[name]; !is {
			old := q.sets[name]
			delete(q.sets, name)
			q.Emptied(name)
			q.paused(name, old, &setting{})
		}
	}
	return nil
}

// paused does what follows from a queue being paused, or not any more.
func (q *Machine) paused(name string, old, s *setting) {
	q.Dispatch.Index.Pause(name, s.set.GetPaused())
	if old != nil && old.set.GetPaused() && !s.set.GetPaused() {
		q.Dispatch.Resumed(q.Round.Now, name)
	}
}

// Emptied hears from a vnode that nothing is left of a queue there, or that none of its
// settings is. A name without tasks and settings is given back.
func (q *Machine) Emptied(name string) {
	if s := q.sets[name]; s != nil && s.own {
		return
	}
	for _, v := range q.Partitions.Each() {
		if v.Count(name) != nil {
			return
		}
	}
	q.Unuse(name)
}

// Settings gives the settings of a queue; nil when none were ever made.
func (q *Machine) Settings(name string) *nornv1.QueueSettings {
	if s := q.sets[name]; s != nil {
		return s.set
	}
	return nil
}

// Retries is the policy of tasks that bring none.
func (q *Machine) Retries(name string) crdt.Retry {
	if s := q.sets[name]; s != nil {
		return s.retry
	}
	r := q.Retry
	r.FromQueue = true
	return r
}

// LeaseOf is the lease of claims that ask for none.
func (q *Machine) LeaseOf(names []string) time.Duration {
	if len(names) > 0 && q.sets[names[0]] != nil {
		return q.sets[names[0]].lease
	}
	return q.Lease
}

// Admit refuses an enqueue that the queue's settings, or the limits of its tenant, do not allow.
func (q *Machine) Admit(name string, size int) *proto.Error {
	if t := q.Tenants.Of(name); t != nil && (t.Limits.GetTasks() > 0 || t.Limits.GetBytes() > 0) {
		tasks, bytes := q.remote.tenant(q.Round.Now, t.Prefix)
		if e := t.Task(q.Tenants.Unfinished(t.Prefix), tasks); e != nil {
			return e
		}
		if e := t.Size(q.Tenants.Bytes(t.Prefix), bytes, size); e != nil {
			return e
		}
	}
	s := q.Settings(name)
	switch {
	case s == nil:
		return nil
	case s.GetDraining():
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "queue %s is draining and takes no new tasks%s; `norn queue resume %s` opens it again", name, explain.Noted(s), name)
	case s.GetMaxTasks() > 0:
		if n, others := q.remote.unfinished(q.Round.Now, name); n >= s.GetMaxTasks() {
			about := ""
			if others > 0 {
				about = "about "
			}
			return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "queue %s has %s%d tasks that are not finished, and its limit (max-tasks) is %d", name, about, n, s.GetMaxTasks()).Again(time.Second)
		}
	}
	return nil
}

// Count is how many tasks of a queue are in each state, in some partitions.
func (q *Machine) Count(name string, about []ring.Partition) *vnode.Counts {
	return count(q.Partitions, name, about)
}

func count(all *partitions.Set, name string, about []ring.Partition) *vnode.Counts {
	sum := &vnode.Counts{}
	for _, p := range about {
		if n := all.See(p).Count(name); n != nil {
			sum.Add(n)
		}
	}
	return sum
}

// List answers a request for queues.
func (q *Machine) List(now clock.Time, r *message.Request, m *nornv1.QueuesRequest) (gproto.Message, *proto.Error) {
	about := query.About(q.View, q.Partitions, r)
	names, page := m.GetNames(), query.NewFill(m.GetLimit())
	if len(names) > proto.MaxNames {
		return nil, refusal.TooManyNames(len(names))
	}
	last, err := query.QueueCursor.Open(m.GetCursor())
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = q.sorted()
		at, found := slices.BinarySearch(names, string(last))
		if found {
			at++
		}
		names = names[at:]
	}
	reply := &nornv1.QueuesReply{}
	for _, name := range names {
		if err := proto.CheckQueue(name); err != nil {
			return nil, err
		}
		known := q.Knows(name) && r.Scope.May(guard.See, name)
		if !known && (r.Routed || len(m.GetNames()) == 0) {
			continue // another node may know it
		}
		if !known {
			return nil, refusal.NoQueue(name)
		}
		w := q.wire(now, name, about)
		if !page.Takes(w) && len(m.GetNames()) == 0 {
			reply.NextCursor = query.QueueCursor.Seal([]byte(reply.Queues[len(reply.Queues)-1].GetName()))
			break
		}
		reply.Queues = append(reply.Queues, w)
	}
	return reply, nil
}

// sorted gives the names of all queues in order. They are read in pages, and to sort ten
// thousand for each would hold up everybody: those of before are right as long as they are
// as many and all known.
func (q *Machine) sorted() []string {
	known := q.Known
	gone := func(name string) bool { return !q.Knows(name) }
	if len(q.names) != len(known) || slices.ContainsFunc(q.names, gone) {
		q.names = slices.Sorted(maps.Keys(known))
	}
	return q.names
}

// wire is a queue as clients see it.
func (q *Machine) wire(now clock.Time, name string, about []ring.Partition) *nornv1.Queue {
	w := &nornv1.Queue{Name: name, Settings: &nornv1.QueueSettings{}, Count: convert.Count(name, q.Count(name, about))}
	if s := q.sets[name]; s != nil {
		w.Settings, w.Version = gproto.CloneOf(s.set), s.version
	}
	w.Effective = q.effective(name)
	first := now.Wall
	for _, p := range about {
		w.Bytes += vnode.Bytes(q.Partitions.See(p), name)
		if at, ok := vnode.Oldest(q.Partitions.See(p), name); ok {
			first = min(first, at)
		}
	}
	w.OldestReadySeconds = time.Duration(now.Wall - first).Seconds()
	w.WaitingClaims = q.Dispatch.Index.WaitingFor(name)
	return w
}

// Join makes one list of those of several nodes. Who waits at this one is told by it also
// where it leads nothing, and so is not asked.
func (q *Machine) Join(m *nornv1.QueuesRequest) *query.Queues {
	l := &query.Queues{Policy: q.Policy, Asked: m}
	if groups, _ := q.Routes.Readers(); groups != nil && groups.Of[q.Self] == nil {
		l.Waits = q.Dispatch.Index.WaitingFor
	}
	return l
}

// effective fills what is not set with the node's configuration.
func (q *Machine) effective(name string) *nornv1.QueueSettings {
	e := &nornv1.QueueSettings{}
	if s := q.Settings(name); s != nil {
		e = gproto.CloneOf(s)
	}
	r := q.Retries(name)
	e.Retry = &nornv1.RetryPolicy{
		MaxAttempts: r.MaxAttempts, InitialSeconds: r.Initial.Seconds(), MaxSeconds: r.Max.Seconds(),
		Multiplier: float64(r.Multiplier) / 1000, Jitter: float64(r.Jitter) / 1000,
	}
	e.LeaseSeconds = q.LeaseOf([]string{name}).Seconds()
	rule := q.Rule(name)
	e.Retention, e.RetentionSeconds, e.DeadRetentionSeconds = rule.What, rule.After.Seconds(), rule.Dead.Seconds()
	return e
}

// Change asks the register for a change of settings; fresh is set when what is known of the
// register is from after the request.
func (q *Machine) Change(from message.Origin, m *nornv1.SetQueueRequest, fresh bool) (gproto.Message, *proto.Error) {
	name := m.GetName()
	if err := q.check(m); err != nil {
		return nil, err
	}
	version, set := uint64(0), &nornv1.QueueSettings{}
	if s := q.sets[name]; s != nil {
		version, set = s.version, gproto.CloneOf(s.set)
	}
	if want := m.GetIfVersion(); want != 0 && want != version && !fresh {
		return q.anew(from, m)
	} else if want != 0 && want != version {
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "the settings of queue %s are at version %d, not %d; read them again", name, version, want)
	}
	if m.GetDelete() {
		return q.remove(from, m, version)
	}
	for _, path := range m.GetFields() {
		if !setField(set.ProtoReflect(), m.GetSettings().ProtoReflect(), strings.Split(path, ".")) {
			return nil, proto.Invalid("%.140q is no setting of a queue, or has some in it that this server does not know", path)
		}
	}
	if slices.Contains(m.GetFields(), "paused") {
		set.PausedAt, set.PausedBy = nil, ""
		if set.GetPaused() {
			set.PausedAt, set.PausedBy = convert.Timestamp(q.Round.Now.Wall), m.GetSettings().GetPausedBy()
		}
	}
	if gproto.Size(set.GetRetry()) == 0 {
		set.Retry = nil // or it would never be without settings again
	}
	if s := q.sets[name]; gproto.Size(bare(set)) == 0 && (s == nil || !s.own) {
		return q.unset(from, m, fresh)
	}
	err := proto.CheckSettings(set)
	if err == nil && set.GetRetention() == nornv1.Retention_RETENTION_ARCHIVE && !q.HasArchive {
		err = proto.Invalid("this server has no archive directory; start it with --archive-dir")
	}
	if err != nil {
		return nil, err
	}
	return q.write(from, m, version, set)
}

// write asks the register for the settings of a queue, which are at a version now.
func (q *Machine) write(from message.Origin, m *nornv1.SetQueueRequest, version uint64, set *nornv1.QueueSettings) (gproto.Message, *proto.Error) {
	if q.over(set) {
		set.Deleted = nil
	}
	b, problem := gproto.MarshalOptions{Deterministic: true}.Marshal(set)
	if problem != nil {
		return nil, proto.Invalid("settings: %v", problem)
	}
	ask := &setQueue{from: from, m: m, old: version}
	q.Register.Send(register.Request{
		Queues: append([]register.QueueChange{{Name: m.GetName(), Old: version, Settings: b}}, q.leftovers(m.GetName())...),
	}, func(now clock.Time, r register.Result) {
		reply, err := q.changed(now, ask, r)
		q.Round.Done(from, reply, err)
	})
	return nil, nil
}

// anew comes back to a change once the register has been read: this node may be behind.
func (q *Machine) anew(from message.Origin, m *nornv1.SetQueueRequest) (gproto.Message, *proto.Error) {
	return q.Register.Consult(from, register.Request{}, refusal.MembershipUnavailable, nornv1.Effect_EFFECT_NONE, func(clock.Time, *register.Result) (gproto.Message, *proto.Error) {
		return q.Change(from, m, true)
	})
}

// unset takes back settings that a queue does not have, such as the pause of one that was
// never paused. An entry in the register would only be in the way, and where the name is a
// typo nothing is known under it.
func (q *Machine) unset(from message.Origin, m *nornv1.SetQueueRequest, fresh bool) (gproto.Message, *proto.Error) {
	if !fresh {
		return q.anew(from, m)
	}
	switch asked, err := q.ask(from, m.GetName(), q.Join(&nornv1.QueuesRequest{Names: []string{m.GetName()}}), nil); {
	case err != nil:
		return nil, err
	case !asked:
		return q.List(q.Round.Now, &message.Request{From: from}, &nornv1.QueuesRequest{Names: []string{m.GetName()}})
	}
	return nil, nil
}

// ask has those who know the tasks of a queue tell how it is, and tells whether it does:
// else it is this node alone that knows them, or there is nobody for some. What they say
// is the answer, or for then, which may be nil.
func (q *Machine) ask(from message.Origin, name string, join router.Joiner, then func(*router.Scatter)) (bool, *proto.Error) {
	r := q.Routes
	groups, lost := r.Readers()
	switch {
	case lost != nil:
		return false, lost
	case len(groups.Order) == 1 && groups.Order[0] == q.Self:
		return false, nil
	case r.Crowds(from):
		return false, refusal.Crowded(router.MaxWaiting)
	}
	g := r.Gather(q.Round.Now, &message.Request{From: from}, join, router.StatusTimeout-router.ForwardTimeout)
	g.Method = uint16(nornv1.Method_METHOD_QUEUES) // of what is asked, not of what is answered
	g.Then = then
	r.Each(q.Round.Now, g, groups, &nornv1.QueuesRequest{Names: []string{name}})
	return true, nil
}

func (q *Machine) check(m *nornv1.SetQueueRequest) *proto.Error {
	if err := proto.CheckQueue(m.GetName()); err != nil {
		return err
	}
	switch {
	case m.GetDelete() && (len(m.GetFields()) > 0 || m.Settings != nil):
		return proto.Invalid("a request that deletes a queue changes no settings of it")
	case m.GetDelete():
		return nil
	case len(m.GetFields()) == 0:
		return proto.Invalid("the request names no setting to change")
	}
	for _, path := range m.GetFields() {
		if name, _, _ := strings.Cut(path, "."); name == "deleted" {
			return proto.Invalid("deleted is set by the server; delete the queue with delete")
		}
		if path == "paused_at" || path == "paused_by" {
			return proto.Invalid("%s goes with paused: name that field", path)
		}
	}
	return q.Room(q.Round.Now, m.GetName())
}

// changed hears what came of a change.
func (q *Machine) changed(now clock.Time, set *setQueue, r register.Result) (gproto.Message, *proto.Error) {
	switch {
	case r.Err != nil:
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE,
			"the register did not answer: %v; whether the settings were changed is not known", r.Err).Unsure().Keeping("linearizable settings")
	case len(r.QueuesWon) > 0 && r.QueuesWon[0]:
		return q.answer(now, set)
	case r.State.Queues[set.m.GetName()].Version == set.old: // and will not be
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "the register has the settings of %d queues, and no room for those of %s; "+
			"take back those of queues that nobody needs (`norn queue delete`)", len(r.State.Queues), set.m.GetName()).ForGood()
	}
	return q.Change(set.from, set.m, false) // somebody else was first: apply it to theirs
}

// answer tells how a queue is once it was changed. Its tasks are counted by those who know
// them, as in a list. Should they not tell, it is told as it looks from here: the change
// was made.
func (q *Machine) answer(now clock.Time, set *setQueue) (gproto.Message, *proto.Error) {
	own := q.wire(now, set.m.GetName(), query.About(q.View, q.Partitions, &message.Request{}))
	if asked, _ := q.ask(set.from, set.m.GetName(), &query.Changed{Own: own, UpTo: max(set.old, own.GetVersion()), Queues: *q.Join(nil)}, nil); !asked {
		return &nornv1.QueuesReply{Queues: []*nornv1.Queue{own}}, nil
	}
	return nil, nil
}

// setField copies one field, named by a path, from src to dst. A message with fields that
// this build does not know is not copied: nobody has named them, and they may be as large as
// a request, where the register takes no more than [register.MaxData].
func setField(dst, src protoreflect.Message, path []string) bool {
	f := dst.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	switch {
	case f == nil:
		return false
	case len(path) > 1:
		if f.Message() == nil || f.IsList() || f.IsMap() {
			return false
		}
		return setField(dst.Mutable(f).Message(), src.Get(f).Message(), path[1:])
	case src.Has(f) && f.Message() != nil && len(src.Get(f).Message().GetUnknown()) > 0:
		return false
	case src.Has(f):
		dst.Set(f, src.Get(f))
	default:
		dst.Clear(f)
	}
	return true
}

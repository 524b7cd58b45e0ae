package queues

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

const (
	// tallyEvery is how often others are asked for each of them that is: a node of a large
	// cluster asks more of them, and sends as much as ever. tallyLeast is for a small one,
	// and what is up to tallyMost old is not much more than was said to be allowed.
	tallyEvery            = 20 * time.Millisecond
	tallyLeast, tallyMost = 100 * time.Millisecond, 2 * time.Second
	// tallyTimeout is how long an answer is waited for.
	tallyTimeout = time.Second
	// oldTally is from what age on an answer counts no more: the tasks may be finished.
	oldTally = 5 * time.Second
)

// remoteCounts count the unfinished tasks of queues that have a limit. Where there are more nodes
// than replicas this node keeps a part of them, and asks for the rest while enqueues come in.
//
// It does not reckon the rest from what is here: tasks of a client are in few partitions for a
// while, and one that keeps those would refuse with a small part of what is allowed. What is
// not known is not there: rather too many tasks get in than too few.
type remoteCounts struct {
	env     *Env
	known   map[string]int64  // see [Machine.Known]
	tenants map[string]*tally // by prefix
	whose   map[string]bool   // prefixes of tenants that enqueues were judged of since
	judge   map[string]bool   // queues that enqueues were judged of since they were asked for
	of      map[string]*tally
	at      int64          // mono ns before which nobody is asked
	asked   message.Origin // under which that was done last
}

// tally is what others have said of one queue, or of a tenant.
type tally struct {
	at   int64            // when they were asked, mono ns
	n    uint64           // unfinished tasks in their partitions
	size uint64           // bytes of all of them
	here []ring.Partition // the others
}

func newRemoteCounts(env *Env, known map[string]int64) *remoteCounts {
	return &remoteCounts{env: env, known: known, judge: make(map[string]bool), of: make(map[string]*tally), whose: make(map[string]bool), tenants: make(map[string]*tally)}
}

// unfinished is how many tasks of a queue are not finished, as far as that is known here:
// all that others have said of it, and what is here now.
func (t *remoteCounts) unfinished(now clock.Time, name string) (all, others uint64) {
	var here []ring.Partition
	if !t.env.View.Holder {
		t.judge[name] = true
		if k := t.of[name]; k != nil && now.Mono-k.at < int64(oldTally) {
			here, others = k.here, k.n
		}
	}
	if here == nil {
		here = query.About(t.env.View, t.env.Partitions, &message.Request{})
	}
	return unfinished(count(t.env.Partitions, name, here)) + others, others
}

// tenant is how many tasks of a tenant are not finished in partitions that are kept elsewhere, and
// how many bytes all have, as far as others have said.
func (t *remoteCounts) tenant(now clock.Time, prefix string) (tasks, bytes uint64) {
	if t.env.View.Holder {
		return 0, 0
	}
	t.whose[prefix] = true
	if k := t.tenants[prefix]; k != nil && now.Mono-k.at < int64(oldTally) {
		return k.n, k.size
	}
	return 0, 0
}

// names are those of queues that others are asked about.
func (t *remoteCounts) names() []string {
	for name := range t.known { // Any order: sorted below.
		if len(t.whose) > 0 && t.whose[quota.Prefix(name)] {
			t.judge[name] = true
		}
	}
	names := slices.Sorted(maps.Keys(t.judge))
	return names[:min(len(names), proto.MaxNames)]
}

// work asks the others, if it is time and somebody wants to know.
func (t *remoteCounts) work(now clock.Time) {
	if len(t.judge)+len(t.whose) == 0 || now.Mono < t.at || t.open() {
		return
	}
	names, whose := t.names(), slices.Sorted(maps.Keys(t.whose))
	clear(t.whose)
	for _, name := range names {
		delete(t.judge, name)
	}
	for name, k := range t.of { // Any order: each is judged for itself.
		if now.Mono-k.at >= int64(oldTally) {
			delete(t.of, name)
		}
	}
	for prefix, k := range t.tenants { // Any order: likewise.
		if now.Mono-k.at >= int64(oldTally) {
			delete(t.tenants, prefix)
		}
	}
	r, who, sum := t.env.Routes, call.NewGroups(), quota.NewSum()
	here := make([]ring.Partition, 0, len(t.env.View.Cells))
	for p := range t.env.View.Cells {
		to, ok := r.Keeper(ring.Partition(p))
		if ok && t.env.Copying(ring.Partition(p)) {
			to, ok = r.Reader(ring.Partition(p)) // it is still being copied to here
		}
		if !ok || to == t.env.Self {
			here = append(here, ring.Partition(p))
			continue
		}
		who.Add(to, p)
	}
	t.at = now.Mono + int64(min(max(tallyEvery*time.Duration(len(who.Order)), tallyLeast), tallyMost))
	if len(who.Order) == 0 || r.Waiting() >= router.MaxWaiting {
		return
	}
	t.asked = t.env.Origin(nornv1.Method_METHOD_QUEUES)
	g := r.Gather(now, &message.Request{From: t.asked}, sum, tallyTimeout-router.ForwardTimeout)
	g.Then = func(*router.Scatter) {
		for _, name := range names {
			t.of[name] = &tally{at: now.Mono, n: sum.Of[name].Tasks, here: here}
		}
		for _, prefix := range whose {
			t.tenants[prefix] = &tally{at: now.Mono}
		}
		for _, name := range names {
			if k := t.tenants[quota.Prefix(name)]; k != nil && slices.Contains(whose, quota.Prefix(name)) {
				k.n += sum.Of[name].Tasks
				k.size += sum.Of[name].Bytes
			}
		}
	}
	r.Each(now, g, who, &nornv1.QueuesRequest{Names: names})
}

// open tells whether answers are still waited for.
func (t *remoteCounts) open() bool { return t.env.Routes.Waits(t.asked) }

// next is when others are to be asked again, mono ns. Until they have answered there is no
// need to wake up.
func (t *remoteCounts) next() int64 {
	if len(t.judge)+len(t.whose) == 0 || t.open() {
		return int64(clock.Never)
	}
	return t.at
}

package workers

import (
	"bytes"
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/session"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// nameGather is how long renewals of names may wait for each other: ten thousand
	// workers renew theirs by one change of the register a second, not by hundreds.
	nameGather = time.Second
	// nameBatch bounds the changes of one request to the register: it must fit into
	// one proposal.
	nameBatch = 400
	// nameSweep is between two looks for names that nobody has any more, and nameKeep
	// for how long those are kept beyond their leases: a lost worker that returns in
	// that time hears that it is.
	nameSweep = 30 * time.Second
	nameKeep  = 10 * time.Minute
)

// Names are the names of workers: leases in the register, one holder each. The
// register orders the writes; whether a lease has lapsed every node decides for
// itself, by its own monotonic clock: the whole lease and the buffer must have run
// since it first saw the write, which came after the lease began.
type Names struct {
	s  *Machine
	at uint64 // revision that the cells are of
	// Invariant: cells is what the register has at revision at, with the time at which this
	// node first saw each version; seen of a version never changes, or a lease would never
	// lapse.
	cells map[string]*shard
	// Invariant: of has the living holders of cells, and none else (Audit).
	of      map[session.Instance]string // holders
	set     session.SetVersion
	waiting []session.NameRequest
	since   int64 // mono ns since when renewals wait; clock.Never: none do
	urgent  bool  // one waits that is no renewal
	// Invariant: at most one change of names is at the register at a time. A second one could
	// decide the same name by the state before the first.
	busy    bool  // a request is at the register
	sweepAt int64 // mono ns
}

// shard is one name as the register has it.
type shard struct {
	version uint64
	cell    session.Cell
	node    register.Member // the holder's dispatcher
	lease   time.Duration
	// principal is who opened the holder's session.
	principal string
	seen      int64 // mono ns at which this node saw the version
}

// begin makes it that of a process that has seen no register yet.
func (n *Names) begin(s *Machine) {
	n.s, n.since, n.sweepAt = s, clock.Never, clock.Never
	n.cells, n.of = make(map[string]*shard), make(map[session.Instance]string)
}

// Learn takes over what the register says.
func (n *Names) Learn(now clock.Time, state *register.State) {
	if state.NamesAt < n.at || state.NamesAt == n.at && len(n.cells) == len(state.Names) {
		return
	}
	n.at = state.NamesAt
	for name := range n.cells { // Any order: each is judged alone.
		if _, ok := state.Names[name]; !ok {
			delete(n.cells, name)
		}
	}
	var news []session.NameAnswer
	for name, held := range state.Names { // Any order: each is judged alone, what is told is sorted below.
		c := n.cells[name]
		if c != nil && c.version == held.Version {
			continue
		}
		next := readShard(name, held, now)
		n.cells[name] = next
		if c != nil && n.s.Dispatcher.Knows(c.cell.Holder.Instance) {
			news = append(news, n.told(now, c, next)...)
		}
	}
	slices.SortFunc(news, func(a, b session.NameAnswer) int { return compareInstances(a.Instance, b.Instance) })
	for _, a := range news {
		n.s.Dispatcher.Name(now, a)
		n.s.again = true
	}
	if n.sweepAt == clock.Never {
		n.sweepAt = now.Mono + int64(nameSweep)
	}
	if state.HoldersAt == n.set.Version {
		return
	}
	clear(n.of)
	sum := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(n.cells)) {
		if c := n.cells[name]; !c.cell.Dead && !c.cell.Holder.Instance.IsZero() {
			n.of[c.cell.Holder.Instance] = name
			sum.Write(c.cell.Holder.Instance[:])
		}
	}
	n.set = session.SetVersion{Version: state.HoldersAt, Hash: sum.Sum64()}
	n.s.Dispatcher.SetVersion(n.set)
}

// told is what a session here has to hear when its name goes to somebody else, or is
// its worker's by another node: nobody asks as long as nothing is heard of the worker.
func (n *Names) told(now clock.Time, old, next *shard) []session.NameAnswer {
	i, _ := n.s.Dispatcher.Info(now, old.cell.Holder.Instance)
	a := session.NameAnswer{Instance: i.Identity.Instance, Holder: next.cell.Holder}
	switch {
	case next.cell.Holder.Instance.IsZero():
		return nil
	case next.cell.Holder.Instance != i.Identity.Instance:
		a.Verdict = session.NameRefused
	case next.cell.Association > i.Association:
		a.Verdict = session.NameSuperseded
	default:
		return nil
	}
	return []session.NameAnswer{a}
}

// readShard decodes a name of the register. What cannot be read is nobody's: a name must not be
// lost for good to a damaged value.
func readShard(name string, held register.Name, now clock.Time) *shard {
	var w nornv1.SessionName
	c := &shard{version: held.Version, seen: now.Mono}
	if gproto.Unmarshal(held.Data, &w) != nil || len(w.GetInstance()) != proto.SessionInstance || len(w.GetIncarnation()) != len(register.Incarnation{}) {
		return c // nobody's: whoever wants it may have it
	}
	c.cell = session.Cell{
		Holder:      session.Identity{Name: name, Instance: session.Instance(w.GetInstance()), Machine: w.GetMachine(), Lock: w.GetLock()},
		Association: w.GetAssociation(), Dead: w.GetDead(),
	}
	if t := w.GetStartedAt(); t != nil {
		c.cell.Holder.Started = t.AsTime().UnixNano()
	}
	c.node = register.Member{Node: w.GetNode(), Incarnation: register.Incarnation(w.GetIncarnation())}
	c.lease, c.principal = proto.Seconds(w.GetLeaseSeconds()), w.GetPrincipal()
	return c
}

// lapsed tells whether a lease is surely over, wherever its holder's clock stands.
//
// The clock of the holder does not matter: this node has seen the write, and since then the
// whole lease, the bound on drift, and the buffer have run on its own monotonic clock.
func (n *Names) lapsed(c *shard, now clock.Time) bool {
	return now.Mono-c.seen >= int64(c.lease+clock.Margin(c.lease, 0)+n.s.Buffer)
}

// ask takes requests about names.
func (n *Names) ask(now clock.Time, all []session.NameRequest) {
	for _, r := range all {
		c := n.cells[r.Identity.Name]
		renews := r.Op == session.NameAcquire && c != nil && !c.cell.Dead && c.cell.Holder.Instance == r.Identity.Instance && c.cell.Association == r.Association
		n.urgent = n.urgent || !renews
		n.since = min(n.since, now.Mono)
		n.waiting = append(n.waiting, r)
	}
}

// work decides what waits: at the register, or here where nothing is to be written.
func (n *Names) work(now clock.Time) {
	if now.Mono >= n.sweepAt {
		n.sweepAt = now.Mono + int64(nameSweep)
		n.sweep(now)
	}
	if n.busy || len(n.waiting) == 0 || !n.urgent && now.Mono < n.since+int64(nameGather) {
		return
	}
	k := min(len(n.waiting), nameBatch)
	some := n.waiting[:k:k]
	n.waiting = n.waiting[k:]
	if len(n.waiting) == 0 {
		n.waiting, n.urgent, n.since = nil, false, clock.Never
	}
	n.write(now, some)
	n.s.again = true // what was answered here is to be looked at
}

// nameLease is a request that is being written.
type nameLease struct {
	session.NameRequest
	verdict session.NameVerdict
}

// write decides requests by what the register had last, and has the outcomes
// written, each from exactly that.
func (n *Names) write(now clock.Time, some []session.NameRequest) {
	var changes []register.NameChange
	var asked []nameLease
	named := make(map[string]bool)
	for _, r := range some {
		c := n.cells[r.Identity.Name]
		if c == nil {
			c = &shard{}
		}
		next, verdict := c.cell.Apply(r, c.version != 0 && n.lapsed(c, now))
		grants := verdict == session.NameGranted
		if !grants && next == c.cell {
			n.answer(now, r, verdict, c.cell.Holder)
			continue
		}
		if named[r.Identity.Name] { // one at a time
			n.ask(now, []session.NameRequest{r})
			continue
		}
		named[r.Identity.Name] = true
		lease := r.Lease
		if !grants {
			lease = c.lease
		}
		changes = append(changes, register.NameChange{
			Name: r.Identity.Name, Old: c.version, Data: n.data(c, next, lease),
			Other: next.Holder.Instance != c.cell.Holder.Instance || next.Dead != c.cell.Dead,
		})
		asked = append(asked, nameLease{r, verdict})
	}
	if len(changes) == 0 {
		return
	}
	n.busy = true
	n.s.Node.ChangeNames(changes, func(now clock.Time, res register.Result) { n.written(now, asked, res) })
}

// written passes on what became of the changes. One that somebody else was before is
// decided again.
func (n *Names) written(now clock.Time, asked []nameLease, res register.Result) {
	n.busy, n.s.again = false, true
	for i, r := range asked {
		switch {
		case res.Err != nil || len(res.NamesWon) != len(asked):
			n.answer(now, r.NameRequest, session.NameUnknown, session.Identity{})
		case res.NamesWon[i]:
			n.answer(now, r.NameRequest, r.verdict, r.Identity)
		case r.No != 0:
			n.ask(now, []session.NameRequest{r.NameRequest})
		}
	}
}

// answer tells the dispatcher what has become of a request for a name.
func (n *Names) answer(now clock.Time, r session.NameRequest, v session.NameVerdict, holder session.Identity) {
	if r.No == 0 {
		return // of a sweep
	}
	n.s.Dispatcher.Name(now, session.NameAnswer{No: r.No, Instance: r.Identity.Instance, Verdict: v, Holder: holder})
	if v == session.NameGranted && r.Op != session.NameRead {
		n.s.Known.look(now, r.Identity.Instance, r.Association)
	}
}

// data is what the register keeps of a holder; nothing for a name that is free.
func (n *Names) data(was *shard, c session.Cell, lease time.Duration) []byte {
	if c.Holder.Instance.IsZero() {
		return nil
	}
	self := n.s.Self
	w := &nornv1.SessionName{
		Instance: c.Holder.Instance[:], Machine: c.Holder.Machine, Lock: c.Holder.Lock, Association: c.Association, Dead: c.Dead,
		LeaseSeconds: lease.Seconds(), Node: self.Node, Incarnation: self.Incarnation[:], Principal: n.s.Asks.holders.Of(c.Holder.Instance).By,
	}
	if w.Principal == "" && was.cell.Holder.Instance == c.Holder.Instance {
		w.Principal = was.principal
	}
	if c.Holder.Started != 0 {
		w.StartedAt = timestamppb.New(time.Unix(0, c.Holder.Started))
	}
	b, _ := gproto.MarshalOptions{Deterministic: true}.Marshal(w) // it holds no text but what came as text
	return b
}

// sweep has the register's leader give up names that nobody has had for long: names
// must not pile up when workers come and go under ever new ones.
func (n *Names) sweep(now clock.Time) {
	if !n.s.View.Leads || n.busy {
		return
	}
	var changes []register.NameChange
	for name, c := range n.cells { // Any order: sorted below.
		if now.Mono-c.seen >= int64(nameKeep) && n.lapsed(c, now) && now.Mono-c.seen >= 2*int64(c.lease) {
			changes = append(changes, register.NameChange{Name: name, Old: c.version, Other: true})
		}
	}
	if len(changes) == 0 {
		return
	}
	slices.SortFunc(changes, func(a, b register.NameChange) int { return cmp.Compare(a.Name, b.Name) })
	n.busy = true
	n.s.Node.ChangeNames(changes[:min(len(changes), nameBatch)], func(clock.Time, register.Result) { n.busy = false })
}

// next is when there is something to do, mono ns.
func (n *Names) next() int64 {
	at := n.sweepAt
	if len(n.waiting) > 0 && !n.busy {
		if n.urgent {
			return 0
		}
		at = min(at, n.since+int64(nameGather))
	}
	return at
}

// holder gives who has a name.
func (n *Names) holder(name string) (session.Instance, register.Member, bool) {
	c := n.cells[name]
	if c == nil || c.cell.Dead || c.cell.Holder.Instance.IsZero() {
		return session.Instance{}, register.Member{}, false
	}
	return c.cell.Holder.Instance, c.node, true
}

// compareInstances orders them.
func compareInstances(a, b session.Instance) int { return bytes.Compare(a[:], b[:]) }

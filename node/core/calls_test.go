package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// The matrix of calls (the fault matrix of the design, RPC pairs): each of claim, renew,
// update, complete, release and grant fails as a whole, fails in part, is late and comes
// after itself, comes twice, comes from the wrong one; and each comes late, after each
// other one. A grant is what a leader asks of its members for a claim. In each cell:
// tokens rise, no two workers believe in the task at one time, what was acknowledged is
// there in the end on all nodes and a refused call had no effect, and the task is finished
// by somebody at last and handed out no more.

var calls = []string{"claim", "renew", "update", "complete", "release", "grant"}

// calling plays one cell.
type calling struct {
	*trio
	cell                    string
	task                    id.ID
	leader, via             int // the node that leads, and the one that clients ask
	mine                    *belief
	all                     []*belief // workers', in the order in which they heard
	seq                     uint64
	sent                    map[string]int  // attempts at updates that were not surely refused
	acked                   map[string]bool // updates
	completing              int             // attempts to complete it that were not surely refused
	completed               bool            // one was acknowledged
	open                    []*askedCall    // without an answer so far
	late, copies            []letter
	holding, losing, noting func(letter) bool // letters that are held back, lost, noted
}

// belief is a worker with a claim.
type belief struct {
	token uint64
	until int64 // mono ns; it stops then
}

// askedCall is a call that is under way.
type askedCall struct {
	name   string
	answer struct{ is, fine bool }
	from   message.Origin
	via    int
	at     int64
	by     *belief
	data   string // of an update
	after  bool   // it was asked after the task was known to be completed
	beyond uint64 // the highest token that anybody had heard of then
}

func newCalling(t *testing.T, cell string, follower bool) *calling {
	c := &calling{trio: newTrio(t), cell: cell, sent: map[string]int{}, acked: map[string]bool{}}
	c.trio.lead(c.trio.leader(1))
	c.leader = c.trio.leader(1)
	if c.via = c.leader; follower {
		c.via = (c.leader + 1) % 3
	}
	c.task = c.put(c.leader, 1)
	c.pump()
	return c
}

func (c *calling) wrong(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("%s: %s", c.cell, fmt.Sprintf(format, args...))
}

// ofCalls tells whether a letter belongs to a call; others are about who lives and leads.
func ofCalls(l letter) bool {
	return slices.Contains([]string{"Forward", "Forwarded", "Claims", "ClaimsTaken", "Facts", "FactsTaken"}, messageName(l))
}

// pump delivers what is not held back or lost.
func (c *calling) pump() {
	for len(c.post) > 0 {
		l := c.post[0]
		is := func(f func(letter) bool) bool { return f != nil && ofCalls(l) && f(l) }
		if is(c.noting) {
			c.copies = append(c.copies, l)
		}
		switch {
		case is(c.losing):
			c.post = c.post[1:]
		case is(c.holding):
			c.post, c.late = c.post[1:], append(c.late, l)
		default:
			c.trio.deliver(0)
		}
	}
}

// waits lets time pass.
func (c *calling) waits(d, step time.Duration) {
	for end := c.now.Add(d).Mono; c.now.Mono < end; {
		c.pass(step)
		c.pump()
		c.tell()
		c.pump()
		c.listens()
	}
}

// arrives has all that was held back arrive, or come again.
func (c *calling) arrives(all []letter) {
	c.holding, c.losing, c.noting = nil, nil, nil
	for _, l := range all {
		c.post = append(c.post, l)
		c.pump()
	}
}

// asks begins a call of the worker, with its token.
func (c *calling) asks(name string, by *belief) *askedCall {
	a := &askedCall{name: name, via: c.via, at: c.now.Mono, by: by, after: c.completed}
	for _, b := range c.all {
		a.beyond = max(a.beyond, b.token)
	}
	var m gproto.Message
	switch name {
	case "claim", "grant":
		m = claimUpTo(1)
	case "renew":
		m = &nornv1.RenewRequest{Claims: refOf(c.task, by.token), LeaseSeconds: leaseTime.Seconds()}
	case "update":
		a.data = fmt.Sprintf("%d/%d", by.token, c.seq)
		m = &nornv1.UpdateRequest{Id: c.task.Bytes(), Token: by.token, Seq: c.seq, Data: []byte(a.data)}
		c.seq++
		c.sent[a.data]++
	case "complete":
		m = &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: c.task.Bytes(), Token: by.token, AutoSeq: true}}}
		by.until = 0
		c.completing++
	case "release":
		m = &nornv1.ReleaseRequest{Claims: refOf(c.task, by.token)}
		by.until = 0
	}
	a.from = c.send(c.via, m)
	c.open = append(c.open, a)
	c.pump()
	c.listens()
	return a
}

// listens takes in what was answered, late answers too.
func (c *calling) listens() {
	c.open = slices.DeleteFunc(c.open, func(a *askedCall) bool {
		a.answer.is, a.answer.fine = c.answered(a)
		return a.answer.is
	})
}

// heard tells whether a call was answered, and went well.
func (c *calling) heard(a *askedCall) (answered, fine bool) {
	c.listens()
	return a.answer.is, a.answer.fine
}

// answered takes in the answer to a call, if there is one, and tells whether it went well.
func (c *calling) answered(a *askedCall) (answered, fine bool) {
	reply, ok := c.peers[a.via].replies[a.from]
	if !ok {
		return false, false
	}
	if reply.Err != nil {
		c.refused(a, reply.Err.Effect)
		return true, false
	}
	switch m := reply.Message.(type) {
	case *nornv1.ClaimReply:
		for _, g := range m.Grants {
			c.granted(a, g.Token)
		}
		return true, len(m.Grants) > 0
	case *nornv1.RenewReply:
		if m.Results[0].Error == nil && a.by.until > 0 {
			a.by.until = max(a.by.until, a.at+int64(leaseTime))
			c.alone(a.by)
		}
		return true, m.Results[0].Error == nil
	case *nornv1.WriteReply:
		if fine = m.Results[0].Error == nil; !fine {
			c.refused(a, m.Results[0].Error.Effect)
		}
	}
	if fine {
		c.acked[a.data] = c.acked[a.data] || a.name == "update"
		c.completed = c.completed || a.name == "complete"
	}
	return true, fine
}

// refused: unless that is said to be unknown, it surely has not happened and never will.
func (c *calling) refused(a *askedCall, effect nornv1.Effect) {
	if effect == nornv1.Effect_EFFECT_UNKNOWN {
		return
	}
	switch a.name {
	case "update":
		c.sent[a.data]--
	case "complete":
		c.completing--
	}
}

// granted takes in a grant that a worker has heard of.
func (c *calling) granted(a *askedCall, token uint64) {
	if slices.ContainsFunc(c.all, func(b *belief) bool { return b.token == token }) {
		c.wrong("token %x was granted twice", token)
	}
	if token <= a.beyond {
		c.wrong("token %x was asked for after %x was known", token, a.beyond)
	}
	if a.after {
		c.wrong("it was granted after its completion was acknowledged")
	}
	c.mine = &belief{token, a.at + int64(leaseTime)}
	c.all = append(c.all, c.mine)
	c.alone(c.mine)
}

// alone: nobody else believes in the task.
func (c *calling) alone(b *belief) {
	for _, o := range c.all {
		if o != b && o.until > c.now.Mono && b.until > c.now.Mono {
			c.wrong("claims %x and %x are believed in at one time", o.token, b.token)
		}
	}
}

// does has a call done, again and again until it is answered.
func (c *calling) does(name string, by *belief) (fine bool) {
	for range 4 {
		a := c.asks(name, by)
		for range 80 {
			if answered, fine := c.heard(a); answered {
				if fine || name == "claim" || name == "grant" {
					return fine
				}
				break
			}
			c.waits(100*time.Millisecond, 100*time.Millisecond)
		}
	}
	return false
}

// held has a worker claim the task, which most calls need.
func (c *calling) held() *belief {
	if !c.does("claim", nil) {
		c.t.Fatalf("%s: the task is not granted", c.cell)
	}
	return c.mine
}

// expires lets the worker's lease and the buffer run out.
func (c *calling) expires() { c.waits(leaseTime+eta+2*time.Second, time.Second) }

// begins does what a call needs before it, and gives the worker.
func (c *calling) begins(name string) *belief {
	if name == "claim" || name == "grant" {
		return nil
	}
	return c.held()
}

// ends heals everything, and holds what came of it to what was said.
func (c *calling) ends() {
	c.t.Helper()
	c.arrives(c.late)
	c.waits(2*time.Second, 100*time.Millisecond)
	for range 8 {
		if c.completed {
			break
		}
		if c.does("claim", nil) {
			c.does("complete", c.mine)
		} else if c.stateOf(c.leader, c.task) == nornv1.State_STATE_COMPLETED {
			if c.completed = true; c.completing == 0 {
				c.wrong("it is completed, and whoever asked for that was refused")
			}
		} else {
			c.waits(15*time.Second, time.Second)
		}
	}
	if !c.completed {
		c.wrong("nobody finishes it")
	}
	if c.does("claim", nil) {
		c.wrong("it was granted in the end")
	}
	c.waits(5*time.Second, 500*time.Millisecond)
	for i := range c.peers {
		got := ask[*nornv1.GetReply](c.trio, i, &nornv1.GetRequest{Id: c.task.Bytes(), Consistency: &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_ONE}}).Task
		if got.State != nornv1.State_STATE_COMPLETED {
			c.wrong("node %d shows it as %v", i, got.State)
		}
		shown := map[string]bool{}
		for _, u := range got.Updates {
			if shown[string(u.Data)] = true; c.sent[string(u.Data)] <= 0 {
				c.wrong("node %d shows update %q, which nobody has made, or was refused", i, u.Data)
			}
		}
		for data := range c.acked { // Any order: each is looked for.
			if data != "" && c.acked[data] && !shown[data] {
				c.wrong("node %d does not show update %q", i, data)
			}
		}
	}
	c.audit()
}

// faults of one call.
var faultsOfCalls = map[string]func(c *calling, name string){
	// Nothing of it arrives anywhere; the worker says it again once it can.
	"failure": func(c *calling, name string) {
		by := c.begins(name)
		c.losing = func(l letter) bool { return name != "grant" || ofGrants(l) }
		a := c.asks(name, by)
		c.waits(10*time.Second, 100*time.Millisecond)
		if _, fine := c.heard(a); fine {
			c.wrong("it went well, and nobody else has heard of it")
		}
		c.losing = nil
		if name == "grant" || name == "claim" {
			c.expires() // a grant that may have been made is over by then
		}
		c.does(name, by)
	},
	// One node hears nothing of it, and what comes back from there gets lost.
	"partial failure": func(c *calling, name string) {
		by, deaf := c.begins(name), 3-c.leader-c.via
		if c.via == c.leader {
			deaf = (c.leader + 2) % 3
		}
		c.losing = func(l letter) bool { return (l.to == deaf || l.from == deaf) && (name != "grant" || ofGrants(l)) }
		if !c.does(name, by) {
			c.wrong("a majority has heard of it, and it does not go well")
		}
		c.losing = nil
	},
	// It happens, and no answer arrives.
	"answers lost": func(c *calling, name string) {
		by := c.begins(name)
		c.losing = func(l letter) bool {
			return slices.Contains([]string{"Forwarded", "ClaimsTaken", "FactsTaken"}, messageName(l)) && (name != "grant" || ofGrants(l))
		}
		a := c.asks(name, by)
		c.waits(10*time.Second, 100*time.Millisecond)
		if _, fine := c.heard(a); fine {
			c.wrong("it went well, and no answer has arrived")
		}
		c.losing = nil
		c.does(name, by)
	},
	// It is late: the worker has said it again before it arrives.
	"delay": func(c *calling, name string) {
		by := c.begins(name)
		c.holding = func(l letter) bool { return name != "grant" || ofGrants(l) }
		a := c.asks(name, by)
		c.holding = nil
		if name == "update" {
			c.seq-- // the same one
		}
		c.does(name, by)
		c.arrives(c.late)
		c.late = nil
		c.heard(a)
	},
	// All of it comes again, later.
	"replay": func(c *calling, name string) {
		by := c.begins(name)
		c.noting = func(l letter) bool { return name != "grant" || ofGrants(l) }
		c.does(name, by)
		c.noting = nil
		for range 2 {
			c.arrives(slices.Clone(c.copies))
		}
		c.expires()
		c.arrives(c.copies)
	},
	// It is said with a token that nobody has; what a leader asks for, by another node.
	"wrong identity": func(c *calling, name string) {
		by := c.begins(name)
		switch name {
		case "claim", "grant":
			c.holding = ofGrants
			a := c.asks(name, nil)
			c.holding = nil
			other := (c.leader + 2) % 3
			for i := range c.late {
				if l := &c.late[i]; l.from == c.leader && l.to != other {
					l.from = other // which leads nothing
				}
			}
			c.late = slices.DeleteFunc(c.late, func(l letter) bool { return l.from != other })
			c.arrives(c.late)
			c.late = nil
			if _, fine := c.heard(a); fine {
				c.wrong("it was granted because of what another one than the leader has asked")
			}
		default:
			forged := &belief{token: by.token + 7}
			a := c.asks(name, forged)
			c.waits(time.Second, 100*time.Millisecond)
			_, fine := c.heard(a)
			if fine && (name == "renew" || name == "release") {
				c.wrong("it goes well with a token that nobody was given")
			}
			if name == "renew" || name == "release" {
				c.does("renew", by) // the worker's claim is what it was
				if by.until <= c.now.Mono {
					c.wrong("the worker has lost its claim")
				}
			}
		}
	},
}

func ofGrants(l letter) bool {
	return slices.Contains([]string{"Claims", "ClaimsTaken"}, messageName(l))
}

// TestEachCallUnderEachFault is the matrix of single calls.
func TestEachCallUnderEachFault(t *testing.T) {
	for _, name := range calls {
		for fault, play := range faultsOfCalls { // Any order: each is a cluster of its own.
			for _, follower := range []bool{false, true} {
				if name == "grant" && follower {
					continue
				}
				cell := fmt.Sprintf("%s, %s, through a follower: %v", name, fault, follower)
				t.Run(cell, func(t *testing.T) {
					c := newCalling(t, cell, follower)
					play(c, name)
					c.ends()
				})
			}
		}
	}
}

// TestEachPairOfCalls: the first of two is late, and arrives when the other one is done.
func TestEachPairOfCalls(t *testing.T) {
	for _, late := range calls {
		for _, then := range calls {
			for _, follower := range []bool{false, true} {
				cell := fmt.Sprintf("%s after %s, through a follower: %v", late, then, follower)
				if late == then {
					continue
				}
				t.Run(cell, func(t *testing.T) {
					c := newCalling(t, cell, follower)
					c.pair(late, then)
					c.ends()
				})
			}
		}
	}
}

func (c *calling) pair(late, then string) {
	var a *askedCall
	by := c.begins(late)
	switch late {
	case "grant": // one member hears of it later, the worker by the others
		slow := (c.leader + 2) % 3
		c.holding = func(l letter) bool { return ofGrants(l) && l.to == slow }
		by = c.held()
		c.holding = nil
	case "claim":
		if then != "grant" {
			by = c.held()
		}
		c.holding = func(letter) bool { return true }
		a = c.asks(late, nil)
		c.holding = nil
	default:
		c.holding = func(letter) bool { return true }
		a = c.asks(late, by)
		c.holding = nil
	}
	switch then {
	case "grant":
		if late != "claim" {
			c.expires() // then another worker gets the task
		}
		c.does("grant", nil)
	case "claim":
		c.does("claim", nil)
	default:
		c.does(then, by)
	}
	c.arrives(c.late)
	c.late = nil
	c.waits(time.Second, 100*time.Millisecond)
	if a != nil {
		c.heard(a)
	}
}

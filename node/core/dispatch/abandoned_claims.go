package dispatch

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/ring"
)

const (
	// AbandonedFor is how long it is remembered that a request has been given up:
	// for copies of it that come late, for grants of it that are on their way, and
	// for the leaders that are still to be elected after a death.
	AbandonedFor = time.Minute
	// ToldFor is for how long the node that a client told tells the others,
	// every ToldEvery: a word may get lost, and a node may just be starting. It
	// does so once more of all it remembers when a node comes in reach: the one that was
	// told is mostly the one that was cut off.
	ToldFor = 3 * time.Second
	// ToldEvery is how often they hear of it meanwhile.
	ToldEvery = 500 * time.Millisecond
	// maxUnanswered bounds the requests that are remembered. Past it the oldest are
	// forgotten: what they were granted waits for its lease, as it would without.
	maxUnanswered = 1 << 16
)

// abandonedClaims are claim requests that their clients have given up without having
// heard what came of them. A grant that died with the node that was to answer is
// on a majority's disks; that its worker never heard of it, only the worker knows.
// It says so once and for all, by naming the number of the lost request in its
// next one, which has a number of its own. So it does not matter how late, how
// often, or in which order this is heard: nobody will ever believe in a claim that
// was granted to a request named here. It is in memory only.
type abandonedClaims struct {
	c *Machine
	// Invariant: order has exactly the keys of known, each once. A key that were in known alone
	// would never be forgotten, and the map would grow without end (Audit).
	known map[message.AskKey]bool
	order []givenUp // the oldest first
	fresh bool      // some are new: claims that leaders before this one granted are looked through
	// Invariant: told has at most [maxUnanswered] of them (Audit).
	told  []givenUp              // by a client, here, the oldest first: the others hear of them
	until int64                  // mono ns up to which they hear of all of them
	word  *message.AbandonClaims // of this round; nil: none yet
	at    int64                  // mono ns, when they are told again
}

// givenUp is a request, and since when it is known to have been given up, mono ns.
type givenUp struct {
	key message.AskKey
	at  int64
}

// newAbandonedClaims makes the memory of a process that has heard of no abandoned request. It
// starts empty after each restart: clients that still wait name theirs again in their next
// request.
func newAbandonedClaims(c *Machine) *abandonedClaims {
	return &abandonedClaims{c: c, known: make(map[message.AskKey]bool), at: clock.Never}
}

// has tells whether a request is granted nothing because it has been given up.
func (u *abandonedClaims) has(key message.AskKey) bool { return len(u.known) > 0 && u.known[key] }

// name takes over which requests a client names in another one.
// The client's word is believed only for its own session: the key is made of the session of the
// request that names them, so no client can give up another one's requests.
func (u *abandonedClaims) name(now clock.Time, w *claimRequest) {
	for _, number := range w.body.GetUnanswered() {
		key := message.AskKey{Session: w.ask.Session, Request: number}
		if !u.add(now, key) || u.c.View.Alone {
			continue
		}
		u.told = append(u.told[max(0, len(u.told)+1-maxUnanswered):], givenUp{key, now.Mono})
		u.at = min(u.at, now.Mono+int64(ToldEvery))
		if u.word == nil { // before the request itself is sent on: it is to get what this frees
			u.word = &message.AbandonClaims{}
			u.tell(u.word)
		}
		u.word.Asks = append(u.word.Asks, key)
	}
}

// returned has all who are up told once more, as one has come in reach.
func (u *abandonedClaims) returned(now clock.Time) {
	if len(u.told) > 0 {
		u.until, u.at = now.Mono+int64(ToldFor), now.Mono
	}
}

// tell sends a word to all who are up.
func (u *abandonedClaims) tell(word *message.AbandonClaims) {
	for _, m := range view.MembersOf(u.c.View.Alive()) {
		u.c.Round.SendNow(m, word)
	}
}

// hear hears of it from another node.
func (u *abandonedClaims) hear(now clock.Time, m *message.AbandonClaims) {
	for _, key := range m.Asks {
		if key.Named() && key.Request != convert.PushedAsk {
			u.add(now, key)
		}
	}
}

// add notes a request, and tells whether that is news. What this process has
// granted to it is free at once.
func (u *abandonedClaims) add(now clock.Time, key message.AskKey) bool {
	if u.known[key] {
		return false
	}
	if len(u.order) >= maxUnanswered {
		u.drop(1)
	}
	u.known[key], u.fresh = true, true
	u.order = append(u.order, givenUp{key, now.Mono})
	u.stop(key)
	if a := u.c.Index.asked[key]; a != nil {
		for _, g := range slices.Clone(a.grants) { // each is forgotten there
			u.c.Leases.TakeBack(now, g)
		}
	}
	return true
}

// drop forgets the n oldest.
func (u *abandonedClaims) drop(n int) {
	for _, o := range u.order[:n] {
		delete(u.known, o.key)
	}
	u.order = u.order[n:]
}

// spread frees what leaders before this one have granted to the requests that are
// newly known, and tells the other nodes again.
func (u *abandonedClaims) spread(now clock.Time) {
	u.drop(older(u.order, now.Mono-int64(AbandonedFor)))
	u.told = u.told[older(u.told, now.Mono-int64(AbandonedFor)):]
	if u.fresh {
		u.fresh = false
		for p := range u.c.View.Cells {
			u.free(now, ring.Partition(p))
		}
	}
	u.word = nil
	if u.at > now.Mono {
		return
	}
	some := u.told
	if u.until <= now.Mono {
		some = some[older(some, now.Mono-int64(ToldFor)):]
	}
	if u.at = clock.Never; len(some) == 0 {
		return
	}
	u.at = now.Mono + int64(ToldEvery)
	word := &message.AbandonClaims{}
	for _, o := range some {
		word.Asks = append(word.Asks, o.key)
	}
	u.tell(word)
}

// older is how many are from mono ns or before.
func older(all []givenUp, mono int64) (n int) {
	for n < len(all) && all[n].at <= mono {
		n++
	}
	return n
}

// stop sends away what waits here for an answer to a request.
func (u *abandonedClaims) stop(key message.AskKey) {
	if from, ok := u.c.remote.withdraw(key); ok {
		u.c.Round.Refuse(from, refusal.Abandoned())
	}
	if w := u.c.Index.withdraw(key); w != nil {
		u.c.Round.Refuse(w.from, refusal.Abandoned())
	}
}

// free ends the claims of a partition that requests given up have got, if this
// node leads it. Whoever granted them: a leader before this one, too.
// It walks all claims of the partition, which is why it runs once per news and not once per
// request: thousands of requests may be given up in one round after a network cut.
func (u *abandonedClaims) free(now clock.Time, p ring.Partition) {
	v := u.c.Partitions.Use(p)
	if len(u.known) == 0 || v.Leading() == 0 {
		return
	}
	var lost []message.GrantRef
	v.Held(func(task id.ID, r *claim.Record) {
		if key := (message.AskKey{Session: r.Session, Request: r.Request}); u.known[key] {
			lost = append(lost, message.GrantRef{Partition: p, Task: task, Token: r.Token, Ask: key})
		}
	})
	for _, g := range lost {
		u.c.Leases.TakeBack(now, g)
	}
}

// learned looks at a claim that a member holds and that this leader has just heard
// of.
func (u *abandonedClaims) learned(now clock.Time, p ring.Partition, task id.ID, r *claim.Record) {
	if key := (message.AskKey{Session: r.Session, Request: r.Request}); u.has(key) && u.c.Partitions.See(p).Leading() != 0 {
		u.c.Leases.TakeBack(now, message.GrantRef{Partition: p, Task: task, Token: r.Token, Ask: key})
	}
}

// nextWord is when something is due, mono ns.
func (u *abandonedClaims) nextWord() int64 {
	if u.fresh {
		return 0
	}
	return u.at // what is old enough to be forgotten has time
}

package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/norn-dev/norn/register"
)

// errMany is why a further member is not taken in.
var errMany = errors.New("too many members")

// watcher hears memberlist's events and keeps what it says. memberlist calls it
// under its own lock, so it only writes down.
type watcher struct {
	self string
	meta []byte
	log  *slog.Logger

	mu    sync.Mutex // guards alive
	alive map[string]seen
	wake  chan struct{} // room for one: something has changed
	lost  chan struct{} // likewise: somebody is gone
}

// seen is a living peer, and the address of its gossip.
type seen struct {
	peer Peer
	at   netip.AddrPort
}

func newWatcher(self string, meta []byte, log *slog.Logger) *watcher {
	return &watcher{self: self, meta: meta, log: log, alive: make(map[string]seen), wake: make(chan struct{}, 1), lost: make(chan struct{}, 1)}
}

// poke makes sure that whoever reads c looks again.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// NodeMeta is what the node tells about itself.
func (w *watcher) NodeMeta(int) []byte { return w.meta }

// NotifyMsg drops messages: none are sent.
func (w *watcher) NotifyMsg([]byte) {}

// GetBroadcasts has none.
func (w *watcher) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is empty.
func (w *watcher) LocalState(bool) []byte { return nil }

// MergeRemoteState drops it: none is sent.
func (w *watcher) MergeRemoteState([]byte, bool) {}

// NotifyAlive refuses members that are not described as ours are.
func (w *watcher) NotifyAlive(n *memberlist.Node) error {
	if _, err := parsePeer(n.Name, n.Meta); err != nil {
		return err
	}
	if _, ok := netip.AddrFromSlice(n.Addr); !ok || n.Port == 0 {
		return fmt.Errorf("%w: no address", ErrMeta)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.alive[n.Name]; !known && n.Name != w.self && len(w.alive) >= maxMembers {
		return errMany
	}
	return nil
}

// maxMembers is how many others are taken in: two incarnations of every node.
const maxMembers = 2 * register.MaxNodes

// NotifyJoin notes a member.
func (w *watcher) NotifyJoin(n *memberlist.Node) { w.note(n) }

// NotifyUpdate notes what has changed about a member.
func (w *watcher) NotifyUpdate(n *memberlist.Node) { w.note(n) }

func (w *watcher) note(n *memberlist.Node) {
	p, err := parsePeer(n.Name, n.Meta)
	ip, ok := netip.AddrFromSlice(n.Addr)
	if n.Name == w.self || err != nil || !ok {
		return // NotifyAlive has refused the others
	}
	w.mu.Lock()
	w.alive[strings.Clone(n.Name)] = seen{p, netip.AddrPortFrom(ip.Unmap(), n.Port)}
	w.mu.Unlock()
	w.log.Info("gossip.alive", "peer", p.Member.Node, "incarnation", p.Member.Incarnation.String(), "address", p.Address)
	poke(w.wake)
}

// NotifyLeave notes that a member is dead, or has left.
func (w *watcher) NotifyLeave(n *memberlist.Node) {
	w.mu.Lock()
	was, known := w.alive[n.Name]
	delete(w.alive, n.Name)
	w.mu.Unlock()
	if !known {
		return
	}
	w.log.Info("gossip.gone", "peer", was.peer.Member.Node, "incarnation", was.peer.Member.Incarnation.String())
	poke(w.wake)
	poke(w.lost)
}

// peers lists who is alive, in order.
func (w *watcher) peers() []Peer {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Peer, 0, len(w.alive))
	for _, s := range w.alive { // Any order: it is sorted below.
		out = append(out, s.peer)
	}
	slices.SortFunc(out, Peer.compare)
	return out
}

// at tells where living peers are.
func (w *watcher) at() map[netip.AddrPort]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[netip.AddrPort]bool, len(w.alive))
	for _, s := range w.alive { // Any order: a set is built.
		out[s.at] = true
	}
	return out
}

// tell calls fn with every change, until ctx ends. Changes that come together
// are told together.
func (w *watcher) tell(ctx context.Context, fn func([]Peer)) {
	last := []Peer{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		if now := w.peers(); !slices.Equal(now, last) {
			last = now
			fn(slices.Clone(now))
		}
	}
}

// throttle lets something happen once a minute.
type throttle struct{ last atomic.Int64 }

const throttled = time.Minute

func (t *throttle) now() bool {
	now := time.Now().UnixNano()
	last := t.last.Load()
	return (last == 0 || now-last >= int64(throttled)) && t.last.CompareAndSwap(last, now)
}

// chatter takes memberlist's log. Nearly all of it is of no use to operators;
// what tells of a mistake of theirs is a warning, once a minute.
type chatter struct {
	log       *slog.Logger
	key, path throttle
}

// Write takes one line.
func (c *chatter) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	switch {
	case strings.Contains(text, "no installed keys could decrypt") && c.key.now():
		c.log.Warn("gossip.key", "meaning", "another node uses another gossip key", "message", text)
	case strings.Contains(text, "over TCP but UDP probes failed") && c.path.now():
		c.log.Warn("gossip.udp", "meaning", "a node is reached by TCP and not by UDP; is the peer port open for UDP?", "message", text)
	default:
		c.log.Debug("gossip.memberlist", "message", text)
	}
	return len(line), nil
}

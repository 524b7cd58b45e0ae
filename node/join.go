package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/inbox"
	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
)

// A joiner asks again after a pause that doubles between these.
const (
	joinPause    = 200 * time.Millisecond
	maxJoinPause = 5 * time.Second
)

// join asks to be let into a cluster until somebody says yes: a joiner waits,
// it does not give up (design 4). Then the node begins.
func (n *Node) join(ctx context.Context) {
	ask := peer.JoinRequest{Node: n.record()}
	if n.dir.old != nil {
		ask.Cluster = n.dir.oldCluster()
	}
	others := foreignTo(n) // all nodes may be started with the same list
	if len(others) == 0 {
		others = n.cfg.Join
	}
	said := ""
	for pause := joinPause; ; pause = min(2*pause, maxJoinPause) {
		reply, err := n.members.network.Dialer().Join(ctx, others, ask)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if err := n.enter(ctx, reply); err != nil && ctx.Err() == nil { // who is stopped in the middle goes on at the next start
				n.fatal(err)
			}
			return
		}
		if removed := (*proto.Error)(nil); errors.As(err, &removed) && removed.Kind == nornv1.ErrorKind_ERROR_KIND_CONFLICT {
			// It was let in once and did not come in time. It has nothing that would
			// be of that incarnation: it asks again under another.
			n.log.Warn("join.again", "incarnation", n.self.Incarnation.String(), "reason", err)
			if err := os.Remove(filepath.Join(n.cfg.Data, joiningFile)); err != nil {
				n.fatal(fmt.Errorf("join: %w", err))
			} else {
				n.giveWay()
			}
			return
		}
		if n.cfg.BootstrapExpect > 0 && n.dir.old == nil {
			made, why := bootstrap{n}.try(ctx)
			if made {
				why = n.begin(ctx)
			}
			if ctx.Err() != nil {
				return
			}
			if made && why == nil {
				return
			}
			if made || errors.Is(why, errFound) {
				n.fatal(why)
				return
			}
			err = why
		}
		if text := err.Error(); text != said {
			said = text
			n.log.Warn("join.waiting", "asked", strings.Join(n.cfg.Join, ","), "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// enter formats the directory for the cluster and starts the node in it.
func (n *Node) enter(ctx context.Context, reply peer.JoinReply) error {
	if err := n.dir.enter(n.cfg, reply.Cluster, n.openStore); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	n.log.Info("join.accepted", "cluster", reply.Cluster.ID.String(), "by", reply.By.Node)
	n.members.mu.Lock()
	for _, node := range reply.Members {
		n.members.nodes[node.Member] = node
	}
	n.members.mu.Unlock()
	return n.begin(ctx)
}

// seedPause is between two looks at those seeds that have not answered yet,
// doubling up to maxSeedPause.
const (
	seedPause    = time.Second
	maxSeedPause = time.Minute
)

// checkSeeds looks whether the nodes at the addresses to join are of this node's
// cluster: whoever started a node without them first has made a cluster of one,
// and is to hear so; and where they have begun anew from a backup, this node is of
// the life before. Who does not answer is asked again.
func (n *Node) checkSeeds(ctx context.Context) {
	left := slices.Clone(n.cfg.Join)
	for first, pause := true, seedPause; ; first, pause = false, min(2*pause, maxSeedPause) {
		left = slices.DeleteFunc(left, func(addr string) bool {
			who, err := n.members.network.Dialer().Probe(ctx, addr)
			return err == nil && n.checkSeed(addr, &who, first)
		})
		if len(left) == 0 || n.Alive() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// checkSeed judges one answer, and tells whether that was all there is to know.
func (n *Node) checkSeed(addr string, who *peer.Identity, first bool) bool {
	state := n.members.group.Load().State()
	n.members.seed(addr, who)
	switch {
	case who.Cluster == (register.UUID{}):
		return false
	case who.Cluster == n.cluster.ID && len(state.Nodes) > 0 && state.Generation < who.Rebuilt:
		if !rebuilt(n.members, state.Generation) {
			n.log.Warn("restore.denied", "by", who.Member.Node, "cluster_generation", who.Rebuilt, "generation", state.Generation,
				"meaning", "it says that the cluster has begun anew from a backup without this node, and at other addresses of join it goes on as it was: the node stays as it is and asks again")
			return false
		}
		if err := (oldLife{n}).renounce(who); err != nil {
			n.fatal(err)
		} else {
			n.giveWay()
		}
	case who.Cluster != n.cluster.ID:
		err := fmt.Errorf("%w: %s belongs to cluster %s, and node %s at %s to another cluster, %s; a node joins one with an empty data directory only",
			ErrDirectory, n.cfg.Data, n.cluster.ID, who.Member.Node, addr, who.Cluster)
		if first && aloneIn(&state) {
			n.fatal(err)
		} else {
			n.log.Error("join.other_cluster", "error", err)
		}
	}
	return true
}

// neighbours takes what other nodes say.
type neighbours struct{ m *membership }

var _ peer.Handler = neighbours{}

// Messages hands them to the loop. What does not fit is dropped: whoever sent
// it sends it again.
func (h neighbours) Messages(from register.Member, all []message.PeerMessage) {
	n := h.m.n
	var d inbox.Delivery
	for _, m := range all {
		weight, first := weighPeer(m)
		if !n.inbox.AdmitPeer(weight) {
			n.metrics.Crowded.Inc()
			continue
		}
		w := inbox.Waiting{Event: &message.FromPeer{From: from, Message: m}, Weight: weight}
		if first {
			d.First = append(d.First, w)
		} else {
			d.Rest = append(d.Rest, w)
		}
	}
	if !d.Empty() {
		n.inbox.Put(&d)
	}
}

// weighPeer is about what a message takes in memory, and whether somebody waits
// for it here. A message that is about an earlier one must not overtake it.
func weighPeer(m message.PeerMessage) (weight int, first bool) {
	const each, fact = 128, 128
	switch m := m.(type) {
	case *message.Facts:
		for i := range m.Parts {
			for j := range m.Parts[i].Facts {
				weight += fact + len(m.Parts[i].Facts[j].Body)
			}
		}
		return each + weight, false
	case *message.Repair:
		for i := range m.Message.Facts {
			weight += fact + len(m.Message.Facts[i].Body)
		}
		for i := range m.Message.Push {
			weight += fact + len(m.Message.Push[i].Body)
		}
		return each + weight, false
	case *message.Forward:
		return each + gproto.Size(m.Body), false
	case *message.Forwarded:
		if m.Message != nil {
			weight = gproto.Size(m.Message)
		}
		return each + weight, true
	case *message.Fetched:
		for i := range m.Facts {
			weight += fact + len(m.Facts[i].Body)
		}
		return each + weight, true
	case *message.FactsTaken, *message.QueueHeads:
		return each, true
	}
	return each, false
}

func (h neighbours) Up(who register.Member)   { h.connected(who, true) }
func (h neighbours) Down(who register.Member) { h.connected(who, false) }

func (h neighbours) connected(who register.Member, up bool) {
	h.m.mu.Lock()
	if up {
		h.m.up[who] = true
		delete(h.m.told, who)
	} else {
		delete(h.m.up, who)
	}
	h.m.mu.Unlock()
	h.m.count()
	g := h.m.group.Load()
	switch {
	case g == nil:
	case up:
		g.Found(who)
	default:
		g.Unreachable(who)
		g.Lost(who)
	}
}

// Join decides about a node that wants to become a member: it must be reached
// where it says it is, and is written into the register as joining. The rest
// the register's leader does.
func (h neighbours) Join(ctx context.Context, r peer.JoinRequest) (peer.JoinReply, error) {
	m := h.m
	g := m.group.Load()
	if g == nil {
		return peer.JoinReply{}, errors.New("this node is joining itself; ask another one")
	}
	if err := h.reach(ctx, &r); err != nil {
		return peer.JoinReply{}, err
	}
	r.Reached()
	for {
		state, err := h.ask(ctx, register.Request{})
		if err != nil {
			return peer.JoinReply{}, fmt.Errorf("the register does not answer: %w", err)
		}
		have, found := state.Find(r.Node.Member)
		switch {
		case found && have.Status == register.Removed:
			return peer.JoinReply{}, proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "node %s in incarnation %s was removed from the cluster; start it with an empty data directory", have.Node, have.Incarnation)
		case found:
			return replyTo(&state), nil
		}
		if err := room(&state, r.Node.Member); err != nil {
			return peer.JoinReply{}, err
		}
		change := register.NodeChange{New: r.Node}
		change.New.Status = register.Joining
		if _, err := h.ask(ctx, register.Request{Nodes: []register.NodeChange{change}}); err != nil {
			return peer.JoinReply{}, fmt.Errorf("the register does not answer: %w", err)
		}
		state = g.State()
		if _, found = state.Find(r.Node.Member); found {
			continue
		}
		select { // what was in its way is told in the next turn
		case <-ctx.Done():
			return peer.JoinReply{}, ctx.Err()
		case <-time.After(joinPause):
		}
	}
}

// room says why the register takes no new record of a node.
func room(s *register.State, who register.Member) error {
	living := 0
	for i := range s.Nodes {
		o := &s.Nodes[i]
		if o.Status != register.Removed {
			living++
		}
		// It was let in under another name and died before it knew that, or two directories
		// are copies of one that asked to be let in: it asks again in another incarnation.
		if o.Incarnation.ID() == who.Incarnation.ID() {
			return proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "incarnation %s has come before, as node %s", who.Incarnation, o.Node)
		}
	}
	if living >= register.MaxNodes {
		return fmt.Errorf("the cluster has %d nodes, the limit", register.MaxNodes)
	}
	return nil
}

func replyTo(s *register.State) peer.JoinReply {
	reply := peer.JoinReply{Cluster: s.Cluster, Generation: s.Generation}
	for _, node := range s.Nodes {
		if node.Status != register.Removed {
			reply.Members = append(reply.Members, node)
		}
	}
	return reply
}

// reach dials a joiner back.
func (h neighbours) reach(ctx context.Context, r *peer.JoinRequest) error {
	all := []error{fmt.Errorf("node %s says no address at which it can be reached; set --peer-advertise", r.Node.Node)}
	for _, addr := range r.Node.Addresses {
		who, err := h.m.network.Dialer().Probe(ctx, addr)
		switch {
		case err != nil:
			err = fmt.Errorf("node %s cannot be dialled back at %s; set --peer-advertise to where others reach it: %w", r.Node.Node, addr, err)
		case who.Member != r.Node.Member:
			err = fmt.Errorf("at %s, where node %s (incarnation %s) says it is, answers node %s (incarnation %s); set --peer-advertise", addr, r.Node.Node, r.Node.Incarnation, who.Member.Node, who.Member.Incarnation)
		default:
			return nil
		}
		all = append(all, err)
	}
	if len(all) > 1 {
		all = all[1:]
	}
	return errors.Join(all...)
}

// ask asks the register and waits.
func (h neighbours) ask(ctx context.Context, r register.Request) (register.State, error) {
	answer := make(chan register.Result, 1)
	h.m.group.Load().Do(r, func(result register.Result) { answer <- result })
	select {
	case result := <-answer:
		return result.State, result.Err
	case <-ctx.Done():
		return register.State{}, ctx.Err()
	}
}

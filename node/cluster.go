package node

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/gossip"
	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/register/raftnode"
)

// ports are where other nodes reach this one: connections and gossip's packets
// under one number.
type ports struct {
	tcp net.Listener
	udp net.PacketConn
}

// portTries is how often a free port is looked for that both protocols have.
const portTries = 20

func listenPeers(ctx context.Context, addr string) (p ports, err error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return p, fmt.Errorf("peer port: %w", err)
	}
	for range portTries {
		if p.tcp, err = listen(ctx, addr); err != nil {
			return p, fmt.Errorf("peer port: %w", err)
		}
		if p.udp, err = net.ListenPacket("udp", p.tcp.Addr().String()); err == nil {
			return p, nil
		}
		err = errors.Join(fmt.Errorf("peer port: %w", err), p.tcp.Close())
		if port != "0" {
			break
		}
	}
	return p, err
}

func (p ports) close() error { return errors.Join(p.tcp.Close(), p.udp.Close()) }

// membership is what a node knows of the others at the edge: where they are, and
// who is connected.
type membership struct {
	n       *Node
	network *peer.Network
	group   atomic.Pointer[raftnode.Node]        // nil until this node is in a cluster
	leaves  atomic.Bool                          // this node was told to leave
	empty   atomic.Bool                          // it is no member any more, and has nothing left
	asked   atomic.Int64                         // how often the others were asked whether they can spare this node
	witness atomic.Pointer[standing.Attestation] // what this node can say when others ask that
	lost    error                                // what was found out of this disk before the node began; nil: nothing

	mu       sync.Mutex // guards what follows
	nodes    map[register.Member]register.Node
	heard    map[register.Member]gossip.Peer
	callers  map[register.Member][]string // where those are that have called and that the register here does not name
	up       map[register.Member]bool
	told     map[register.Member]spell // who says that another process is this node
	seeds    map[string]peer.Identity  // who has answered at the addresses to join
	gossip   *gossip.Gossip            // nil until this node is in a cluster, and knows where it is reached
	plain    bool                      // gossip has no keys
	describe bool                      // a change of this node's own record is under way
	removed  bool                      // it was said that this node was removed
	waits    bool                      // it was said that this node waits for another one's place

	forgetting sync.Mutex // held while the directory's incarnation ends
	forgotten  bool       // it has; guarded by forgetting
	awaits     bool       // the others are asked whether they can spare this node; guarded by forgetting

	vouched       vouches
	saidForgotten bool // that this node's disk was set back; the loop's alone
	keeps         kept
}

func newMembership(n *Node) *membership {
	m := &membership{
		n: n, nodes: make(map[register.Member]register.Node), heard: make(map[register.Member]gossip.Peer), callers: make(map[register.Member][]string),
		up: make(map[register.Member]bool), told: make(map[register.Member]spell), seeds: make(map[string]peer.Identity),
	}
	m.network = peer.New(peer.Config{
		Self: n.self, Cluster: n.cluster.ID, Boot: n.dir.boot, Build: n.opts.Version, Logger: n.log,
		Generation: m.generation, Revision: m.revision, Rebuilt: m.lastRebuilt, Addresses: m.addresses, Advertise: n.record().Addresses, Handler: neighbours{m},
		Security: n.opts.Peers, Logins: n.opts.Logins, Admit: m.admit, Gossip: m.ingest, Outdated: m.outdated, Spare: m.spare,
		Sender: group.Sender, Members: m.members, Standing: m.standing,
		Rival: m.rival, Expect: n.cfg.BootstrapExpect, Among: among(n.cfg, n.record().Addresses),
		Limits: fitPeers(peerLimits(), n.opts.Memory), Timing: peerTiming(n.cfg), Dial: n.names.Dial,
	})
	n.metrics.Damaged(m.network)
	return m
}

// record is this node as the others are to know it.
func (n *Node) record() register.Node {
	return record(n.cfg, n.self, n.ports.tcp.Addr().String())
}

// clientAddress is where clients reach this node, as far as it can know.
func clientAddress(n *Node) string {
	host, _, _ := net.SplitHostPort(n.record().Addresses[0]) // "" is no host
	return reachedAt(n.listener.Addr(), host)
}

// reachedAt is the address of a port that listens somewhere: where that is on every address
// of the machine, it is reached where the port for nodes is.
func reachedAt(listens net.Addr, host string) string {
	at, tcp := listens.(*net.TCPAddr)
	if !tcp || !at.IP.IsUnspecified() || host == "" || net.ParseIP(host) != nil && net.ParseIP(host).IsUnspecified() {
		return listens.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(at.Port))
}

func (m *membership) generation() uint64 {
	if g := m.group.Load(); g != nil {
		return g.State().Generation
	}
	return 0
}

func (m *membership) revision() uint64 {
	if g := m.group.Load(); g != nil {
		return g.State().Revision
	}
	return 0
}

// addresses are where a node may be reached: what the register says, then what
// gossip says.
func (m *membership) addresses(who register.Member) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.Clone(m.nodes[who].Addresses)
	if p, ok := m.heard[who]; ok && !slices.Contains(all, p.Address) {
		all = append(all, p.Address)
	}
	own := m.n.record().Addresses // those of a node in whose place this one is
	return slices.DeleteFunc(all, func(a string) bool { return slices.Contains(own, a) })
}

// outdatedAfter is how long this process is told that another one runs on its
// data directory before it believes it: peers miss a connection that has ended
// without a word after their time-out.
func outdatedAfter(c *config.Config) time.Duration { return max(10*time.Second, 4*c.PeerTimeout) }

// outdated hears that a peer takes another process for this node.
func (m *membership) outdated(by register.Member, err error) {
	if forgot(err) && m.outlived(by) { // it keeps its register, in which an operator says how to go on
		m.n.inbox.Post(message.Forgot{Why: err.Error()})
		return
	}
	if forgot(err) { // no process before this one is refused so
		m.end(err)
		return
	}
	if !doubled(m, by, time.Now()) {
		return
	}
	m.n.fatal(fmt.Errorf("%w: %s is a copy of the directory of a node that runs elsewhere, or an old one: %w", ErrDirectory, m.n.cfg.Data, err))
}

// spell is since when somebody says something, and when last.
type spell struct{ first, last time.Time }

// doubled tells whether enough say, for long enough, that another process is this node: two,
// or the only other one. One of several may lie, or have been lied to.
func doubled(m *membership, by register.Member, now time.Time) bool {
	long, needed, enough := outdatedAfter(m.n.cfg), least(m), 0
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.told[by]
	if now.Sub(s.last) > long {
		s.first = now
	}
	s.last = now
	m.told[by] = s
	for _, s := range m.told { // Any order: they are counted.
		if now.Sub(s.last) <= long && s.last.Sub(s.first) >= long {
			enough++
		}
	}
	return enough >= needed
}

// admit lets in who is in the register, whatever became of it: a node that was
// removed may hold what nobody else has. Of others this node asks back.
func (m *membership) admit(h peer.Hello) error {
	g := m.group.Load()
	if g == nil {
		return errors.New("this node is about to begin")
	}
	state := g.State()
	known, err := admits(&state, &h)
	if err != nil || known {
		return err
	}
	if !m.vouched.knows(m, &state, &h) {
		return unnamed(&h)
	}
	m.called(&h)
	return nil
}

// admits judges by a state of the register, and tells whether it names the node.
func admits(state *register.State, h *peer.Hello) (known bool, err error) {
	have, known := state.Find(h.From)
	if rebuilt, _ := state.LastRebuilt(); h.Generation < rebuilt && (!known || have.Status == register.Removed) {
		return known, fmt.Errorf("node %s in incarnation %s is of generation %d, before the cluster began anew from a backup (generation %d): start it again with --join to a node of the cluster as it is now, and it joins with the tasks it has", h.From.Node, h.From.Incarnation, h.Generation, rebuilt)
	}
	if !known && len(state.Nodes) > 0 && h.Generation != state.Generation {
		return false, unnamed(h)
	}
	return known, nil
}

func unnamed(h *peer.Hello) error {
	return fmt.Errorf("node %s in incarnation %s is not known to the cluster, nor to those that were asked back; if its directory is new, it has to join first (--join)", h.From.Node, h.From.Incarnation)
}

// aloneIn tells whether a register knows of one node alone. Those of a life before and
// those that it has outlived are in it as removed ones, and no company.
func aloneIn(s *register.State) bool {
	living := 0
	for i := range s.Nodes {
		if s.Nodes[i].Status != register.Removed {
			living++
		}
	}
	return living == 1
}

func (m *membership) ingest(c net.Conn) {
	m.mu.Lock()
	g := m.gossip
	m.mu.Unlock()
	if g == nil || g.Ingest(c) != nil {
		_ = c.Close()
	}
}

// peerTiming is that of connections between nodes.
func peerTiming(c *config.Config) peer.Timing {
	return peer.Timing{Alive: c.PeerHeartbeat, Idle: c.PeerTimeout}
}

// groupConfig is that of a member of the register's group.
func groupConfig(c *config.Config, self register.Member, cluster register.UUID) group.Config {
	g := group.Config{Self: self, Cluster: cluster, Stable: time.Second, Heartbeat: c.RegisterHeartbeat}
	if c.RegisterHeartbeat > 0 {
		g.Election = int(c.RegisterElectionTimeout / c.RegisterHeartbeat)
	}
	return g
}

// open starts this node's member of the register's group, and gossip.
func (m *membership) open(ctx context.Context) error {
	n := m.n
	g, err := raftnode.Open(raftnode.Config{
		Group: groupConfig(n.cfg, n.self, n.cluster.ID), Store: timedStore{n.dir.register, &n.stall}, Network: m.network.Raft(),
		Now: n.clock.Now, Failed: m.end, Log: n.log, Seen: m.seen,
	})
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	m.group.Store(g)
	m.network.SetCluster(n.cluster.ID)
	keys, err := m.gossipKeys()
	if err != nil {
		return errors.Join(err, g.Close())
	}
	m.mu.Lock()
	m.plain = len(keys) == 0
	m.mu.Unlock()
	if err := (talker{m}).start(ctx, keys); err != nil {
		return errors.Join(err, g.Close())
	}
	return nil
}

// gossipKeys are those of the file, or one that follows from each of the secrets of
// the nodes, which who can send a packet need not know. None: gossip is in plain.
func (m *membership) gossipKeys() ([][]byte, error) {
	n := m.n
	if n.cfg.GossipKeyFile != "" {
		b, err := os.ReadFile(n.cfg.GossipKeyFile)
		if err != nil {
			return nil, fmt.Errorf("gossip-key-file: %w", err)
		}
		return gossip.ParseKeys(string(b))
	}
	var keys [][]byte
	for _, secret := range n.opts.Peers.Secrets {
		h := hmac.New(sha256.New, []byte(secret))
		h.Write([]byte("norn gossip " + n.cluster.ID.String()))
		keys = append(keys, h.Sum(nil))
	}
	return keys, nil
}

// gossips says how gossip travels.
func (m *membership) gossips() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.plain {
		return "plain"
	}
	return "encrypted"
}

// begin tells the core what the register says, from now on each time it changes.
// Until it has asked itself the last state on disk is better than none: whoever
// is cut off from the register keeps taking tasks.
func (m *membership) begin() {
	g := m.group.Load()
	m.changed(g.State())
	g.Subscribe(m.changed)
	if m.lost != nil {
		m.await(m.lost)
	}
}

// changed takes over a state of the register. It runs on the group's goroutine.
func (m *membership) changed(s register.State) {
	status := m.group.Load().Status()
	m.tell(s, &status)
	m.mu.Lock()
	clear(m.nodes)
	var keep []register.Member
	for _, node := range s.Nodes {
		m.nodes[node.Member] = node
		if node.Member != m.n.self && node.Status != register.Removed {
			keep = append(keep, node.Member)
		}
	}
	talk, seeds := m.gossip, elsewhere(m)
	m.mu.Unlock()
	m.network.Keep(keep)
	if own, found := s.Find(m.n.self); found && own.Status != register.Removed {
		m.leaves.Store(own.Status == register.Leaving)
	}
	if talk != nil {
		talk.SetSeeds(slices.Concat(m.n.cfg.Join, seeds))
	}
	m.present(&s)
}

// seen hears of another leader or other voters. It runs on the group's goroutine.
func (m *membership) seen(status group.Status) {
	if g := m.group.Load(); g != nil { // else it is being opened
		m.tell(g.State(), &status)
	}
	if m.outside(&status) { // the state that says so does not come here any more
		m.mu.Lock()
		tell := !m.removed
		m.removed = true
		m.mu.Unlock()
		if tell {
			m.n.sayRemoved()
		}
	}
}

func (m *membership) tell(s register.State, status *group.Status) {
	m.n.opts.Access.Learn(&s)
	m.n.opts.Access.Contact(status.Leader != register.Member{})
	m.n.inbox.Post(message.Changed{
		State: s, Leads: status.Leader == m.n.self, Majority: status.Leader != register.Member{},
		Voters: status.Voters, Outgoing: status.Outgoing,
	})
}

// present has the register say of this node what its configuration says now.
func (m *membership) present(s *register.State) {
	have, found := s.Find(m.n.self)
	want := m.n.record()
	gone := found && have.Status == register.Removed
	same := have.Zone == want.Zone && have.Weight == want.Weight && slices.Equal(have.Addresses, want.Addresses)
	m.mu.Lock()
	tell, change := gone && !m.removed, found && !gone && !same && !m.describe
	m.removed, m.describe = m.removed || gone, m.describe || change
	rival, waits := inPlace(s, &have)
	waits = waits && found && have.Status == register.Joining
	wait := waits && !m.waits
	m.waits = m.waits || waits
	m.mu.Unlock()
	if wait {
		m.n.log.Warn("join.place_taken", "incarnation", have.Incarnation.String(), "other", rival.Incarnation.String(), "at", strings.Join(rival.Addresses, ","),
			"meaning", "another node has this name or address: this one waits for its place until that is dead or removed")
	}
	if tell {
		m.n.sayRemoved()
	}
	if !change {
		return
	}
	old := have.Version
	have.Zone, have.Weight, have.Addresses = want.Zone, want.Weight, want.Addresses
	g := m.group.Load()
	g.Do(register.Request{Nodes: []register.NodeChange{{Old: old, New: have}}}, func(register.Result) {
		m.n.running.Go(func() { // what came of it is in a state; a failure is tried again
			select {
			case <-time.After(time.Second):
			case <-m.n.ctx.Done():
				return
			}
			m.mu.Lock()
			m.describe = false
			m.mu.Unlock()
			state := g.State()
			m.present(&state)
		})
	})
}

// Left tells whether a node was told to leave, has handed over all that it
// had, and is no member any more: whoever runs it is then to stop it. One that
// was given up while it did not answer goes on, for it may have something left.
func Left(n *Node) bool {
	m := n.members
	g := m.group.Load()
	if g == nil || !m.leaves.Load() || !m.empty.Load() || rejoins(n) {
		return false
	}
	s := g.Status() // a change of voters may still need this one's vote
	votes := slices.Contains(s.Voters, n.self) || slices.Contains(s.Outgoing, n.self)
	return !votes || m.outside(&s)
}

// sayRemoved stops what only members do, and says so.
func (n *Node) sayRemoved() {
	n.inbox.Post(message.Dismissed{})
	if n.members.leaves.Load() {
		n.log.Info("node.left", "meaning", "this node has left the cluster as it was told to; it ends when nothing is left that it has to hand over")
		return
	}
	n.log.Error("node.removed", "meaning", "this node was removed from the cluster, or another one has taken its place: it hands over what it has and does nothing else; "+
		"to let the machine join again, stop it and start it with an empty data directory and --join")
}

// inPlace finds the node whose name or address a node has.
func inPlace(s *register.State, of *register.Node) (register.Node, bool) {
	for _, n := range s.Nodes {
		shares := n.Node == of.Node || slices.ContainsFunc(n.Addresses, func(a string) bool { return slices.Contains(of.Addresses, a) })
		if n.Member != of.Member && n.Status != register.Removed && n.Status != register.Joining && shares {
			return n, true
		}
	}
	return register.Node{}, false
}

// hear takes over what gossip says of addresses.
func (m *membership) hear(peers []gossip.Peer) {
	m.mu.Lock()
	clear(m.heard)
	for _, p := range peers {
		m.heard[p.Member] = p
	}
	m.mu.Unlock()
	m.count()
}

// count tells the core who is connected, and where clients reach whom.
func (m *membership) count() {
	m.mu.Lock()
	e := message.Alive{Members: slices.Collect(maps.Keys(m.up)), Clients: make(map[register.Member]string, len(m.heard))}
	for who, p := range m.heard { // Any order: it is a map.
		e.Clients[who] = p.Client
	}
	slices.SortFunc(e.Members, register.Member.Compare)
	m.n.inbox.Post(e) // under the lock, so that the newest comes last
	m.mu.Unlock()
}

// leave says good-bye to gossip.
func (m *membership) leave() {
	m.mu.Lock()
	talk := m.gossip
	m.mu.Unlock()
	if talk != nil {
		_ = talk.Leave(200 * time.Millisecond)
	}
}

// close ends everything but the stores.
func (m *membership) close() (err error) {
	if g := m.group.Load(); g != nil {
		err = g.Close()
	}
	m.mu.Lock()
	talk := m.gossip
	m.gossip = nil
	m.mu.Unlock()
	if talk != nil {
		err = errors.Join(err, talk.Close())
	} else {
		_ = m.n.ports.udp.Close()
	}
	m.network.Close()
	return err
}

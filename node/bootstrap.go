package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/raftnode"
)

// bootstrap is a node with an empty directory that is started alike with others, to make a
// cluster with them where there is none (bootstrap-expect).
type bootstrap struct{ *Node }

// bootstrapTime is how long the others have to answer.
const bootstrapTime = 2 * time.Second

// newCluster draws a cluster as it is configured.
func newCluster(cfg *config.Config) (c register.Cluster) {
	_, _ = rand.Read(c.ID[:])
	c.ID[6], c.ID[8] = c.ID[6]&0x0f|0x40, c.ID[8]&0x3f|0x80 // a UUID of version 4
	c.Partitions, c.Replicas = cfg.Partitions, cfg.Replicas
	return c
}

// among tells apart nodes that are started with different addresses to join: they would make
// clusters with different nodes, and one may be of two. A list that leaves out the node's own
// address counts with it.
func among(cfg *config.Config, own []string) []byte {
	all := slices.Clone(cfg.Join)
	slices.Sort(all)
	if all = slices.Compact(all); len(all) < cfg.BootstrapExpect {
		all = append(all, own...)
		slices.Sort(all)
		all = slices.Compact(all)
	}
	sum := sha256.Sum256([]byte(strings.Join(all, "\n")))
	return sum[:16]
}

// try makes the cluster if this node is the one to do that: all that are named have answered
// that they belong to none and are to begin with the same ones, and it is the first of them by
// name. Else it says for whom, or what, it waits. Who has asked only some of them must not: two
// that see different ones would make two clusters, and two that have lost their disks would
// make one beside the third.
func (b bootstrap) try(ctx context.Context) (made bool, err error) {
	if err := b.agreed(ctx); err != nil {
		return false, err
	}
	if err := b.dir.found(b.cfg, b.record(), b.openStore); err != nil {
		return false, fmt.Errorf("%w: %w", errFound, err)
	}
	b.log.Info("cluster.made", "cluster", b.dir.cluster.ID.String(), "nodes", b.cfg.BootstrapExpect, "meaning", "all nodes of bootstrap-expect belong to no cluster, and this one is the first by name: it has made it, and the others join; tasks are taken when the copies are there")
	return true, nil
}

// agreed asks all others, twice, and is nil when this node is to make the cluster now.
func (b bootstrap) agreed(ctx context.Context) error {
	v := verdict{self: b.self, expect: b.cfg.BootstrapExpect, among: among(b.cfg, b.record().Addresses)}
	first, err := v.on(b.ask(ctx))
	if err != nil {
		return err
	}
	again, err := v.on(b.ask(ctx))
	if err == nil && !maps.Equal(first, again) {
		err = errors.New("a new cluster cannot be made yet: a node has begun anew while it was asked")
	}
	return err
}

// ask asks each address that is not this node's own.
func (b bootstrap) ask(ctx context.Context) (all []heardFrom) {
	ctx, cancel := context.WithTimeout(ctx, bootstrapTime)
	defer cancel()
	own := b.record().Addresses
	var mu sync.Mutex // guards the answers
	var asking sync.WaitGroup
	for _, addr := range b.cfg.Join {
		if slices.Contains(own, addr) {
			continue
		}
		asking.Go(func() {
			who, err := b.members.network.Dialer().Probe(ctx, addr)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, heardFrom{addr: addr, who: who, silent: err != nil})
		})
	}
	asking.Wait()
	return all
}

// verdict is the rule by which a cluster is made. It is pure: TestTheRuleMakesOneCluster looks at
// everything that can happen to three nodes that go by it.
//
// It needs two rounds of answers: after one a node that answered first may have been let into a
// cluster, and got copies there, before the last one had lost its disk and answered. Whoever
// answers twice in one incarnation was empty all the time between, so that there was a moment
// at which nobody had anything.
type verdict struct {
	self   register.Member // it belongs to no cluster: its directory is empty
	expect int
	among  []byte
}

// heardFrom is what an address answered.
type heardFrom struct {
	addr   string
	who    peer.Identity
	silent bool // it did not
}

// on judges one round. The error is nil when nothing of it keeps this node from making the
// cluster with those that it met.
func (v *verdict) on(heard []heardFrom) (met map[register.Member]bool, err error) {
	met, silent := map[register.Member]bool{v.self: true}, []string{}
	slices.SortFunc(heard, func(a, b heardFrom) int { return strings.Compare(a.addr, b.addr) })
	for _, h := range heard {
		switch {
		case h.silent:
			silent = append(silent, h.addr)
		case h.who.Cluster != register.UUID{}:
			return nil, fmt.Errorf("node %s at %s belongs to cluster %s: this one joins it, and makes none", h.who.Member.Node, h.addr, h.who.Cluster)
		case h.who.Member == v.self:
		case h.who.Expect != v.expect || !bytes.Equal(h.who.Among, v.among):
			return nil, fmt.Errorf("node %s at %s is started with another join, or another bootstrap-expect (%d): give all the same", h.who.Member.Node, h.addr, h.who.Expect)
		default:
			met[h.who.Member] = true
		}
	}
	switch {
	case len(silent) > 0:
		return nil, fmt.Errorf("a new cluster of %d nodes waits for an answer of %s", v.expect, strings.Join(silent, ", "))
	case len(met) != v.expect:
		return nil, fmt.Errorf("a new cluster of %d nodes cannot be made: %d answer at the addresses of join, this one among them", v.expect, len(met))
	}
	for who := range met { // Any order: each is looked at by itself.
		if who != v.self && who.Node == v.self.Node {
			return nil, fmt.Errorf("a new cluster cannot be made: two nodes have the name %s", who.Node)
		}
		if who.Node < v.self.Node {
			return nil, fmt.Errorf("node %s, the first by name, is to make the new cluster", who.Node)
		}
	}
	return met, nil
}

// errFound is why a cluster that was to be made was not: the directory cannot be written.
var errFound = fmt.Errorf("make the cluster")

// found formats a directory for a new cluster that grows to the nodes it was made with.
func (d *directory) found(cfg *config.Config, self register.Node, open openStore) error {
	d.cluster = newCluster(cfg)
	state := core.Growing(register.First(d.cluster, self), cfg.BootstrapExpect)
	err := d.format(cfg, open, func() error { return raftnode.Begin(d.register, state, d.self) })
	if err == nil {
		err = endOldLife(cfg.Data)
	}
	return err
}

// rival hears that a member of another cluster means this node: its name and address are
// those of a member there. Alone in a cluster of its own, because it was started with an empty
// directory and without join, it would take tasks that have no way back. It stops, once who
// says so is found where it says it is.
func (m *membership) rival(h *peer.Hello) {
	n := m.n
	g := m.group.Load()
	if g == nil || len(n.cfg.Join) > 0 {
		return
	}
	if state := g.State(); !aloneIn(&state) || state.Generation > 0 {
		return
	}
	n.running.Go(func() {
		ctx, cancel := context.WithTimeout(n.ctx, seedTime)
		defer cancel()
		for _, addr := range h.Addresses {
			who, err := m.network.Dialer().Probe(ctx, addr)
			if err == nil && who.Member == h.From && who.Cluster == h.Cluster {
				n.fatal(fmt.Errorf("%w: %s was empty and began cluster %s, and node %s at %s has %s as a member of cluster %s: stop, move the directory away, keep it, and start with --join %s (give join always, its tasks go with the directory)",
					ErrDirectory, n.cfg.Data, n.cluster.ID, h.From.Node, addr, n.self.Node, h.Cluster, addr))
				return
			}
		}
	})
}

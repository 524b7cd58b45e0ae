package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
)

// forgot tells whether a node has to end because its disk was set back, or has
// lost the end of its log.
func forgot(err error) bool {
	return errors.Is(err, standing.ErrForgot) || errors.Is(err, group.ErrForgot) || errors.Is(err, peer.ErrSetBack)
}

// end stops the node for good, or until it starts again as another incarnation.
func (m *membership) end(err error) {
	switch {
	case errors.Is(err, standing.ErrForgot): // which has asked whether it can be spared
		if !m.forget(err) {
			m.n.fatal(err)
		}
	case forgot(err):
		m.await(err)
	default:
		m.n.fatal(err)
	}
}

// forget has the directory take a new incarnation at the next start, with the
// facts that it has (K4), and stops the node, in order: what is on disk can be
// read, it is only not all. It tells whether that can be done: alone there is
// nobody to join. Several may say so at one moment; the first one counts.
func (m *membership) forget(err error) bool {
	m.forgetting.Lock()
	defer m.forgetting.Unlock()
	if m.forgotten {
		return true
	}
	n, join := m.n, m.others()
	if len(join) == 0 {
		return false
	}
	if bad := n.dir.expire(n.cfg.Data, join); bad != nil {
		n.log.Error("node.forgot", "error", bad)
		return false
	}
	n.log.Error("node.forgot", "incarnation", n.self.Incarnation.String(), "error", err,
		"meaning", "this disk has lost what it had acknowledged: this incarnation neither votes nor acknowledges anything any more; the node starts again as another one and hands over the tasks it has")
	m.forgotten = true
	n.failOnce.Do(func() {
		n.failure = fmt.Errorf("%w: %w", ErrStartAgain, err)
		close(n.failed)
	})
	return true
}

// sayForgotten says once that this node's disk was set back and that it waits.
func (m *membership) sayForgotten(err error) {
	if err == nil || m.saidForgotten {
		m.saidForgotten = m.saidForgotten && err != nil
		return
	}
	m.saidForgotten = true
	m.mu.Lock()
	alone := len(m.nodes) == 1
	m.mu.Unlock()
	if alone {
		m.n.log.Error("node.forgot", "incarnation", m.n.self.Incarnation.String(), "error", err,
			"meaning", "this disk has lost what it had acknowledged, and there are no other nodes that may have it: this one goes on with what is left; if there is a copy of its data directory from when it stopped, stop it now and bring that back; look after this disk")
		return
	}
	m.n.log.Error("node.forgot", "incarnation", m.n.self.Incarnation.String(), "error", err,
		"meaning", "this disk has lost what it had acknowledged: this node neither votes nor takes claims, and keeps what it has readable; it becomes another incarnation as soon as a majority of the others is in reach and intact")
}

// expire ends the incarnation of a directory: at the next start it joins with its
// facts as another one.
func (d *directory) expire(data string, join []string) error {
	path := func(name string) string { return filepath.Join(data, name) }
	b, err := os.ReadFile(path(identityFile))
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	var old identity
	if err := json.Unmarshal(b, &old); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	old.Join = join
	if b, err = json.MarshalIndent(old, "", "  "); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	var fresh register.Incarnation
	_, _ = rand.Read(fresh[:])
	if err := writeFile(path(joiningFile), []byte(fresh.String())); err != nil {
		return err
	}
	if err := writeFile(path(oldLifeFile), append(b, '\n')); err != nil { // from here on it counts
		return err
	}
	if err := os.Remove(path(identityFile)); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return syncDir(data)
}

// others are the addresses of all other members, and of whoever else has called or
// is to be asked: what this disk knows of the members may be of when there were none.
func (m *membership) others() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for who, node := range m.nodes { // Any order: they are sorted.
		if who != m.n.self && node.Status != register.Removed {
			all = append(all, node.Addresses...)
		}
	}
	for _, at := range m.callers { // Any order: they are sorted.
		all = append(all, at...)
	}
	all = append(all, m.n.cfg.Join...)
	own := m.n.record().Addresses
	all = slices.DeleteFunc(all, func(a string) bool { return slices.Contains(own, a) })
	slices.Sort(all)
	return slices.Compact(all)
}

// maxCallers bounds those that are remembered of who has called.
const maxCallers = 16

// called remembers where a member is that the register here does not name.
func (m *membership) called(h *peer.Hello) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.callers[h.From]; known || len(m.callers) < maxCallers {
		m.callers[h.From] = h.Addresses
	}
}

// seedTime is how long a node that is alone waits for those it is to join.
const seedTime = time.Second

// outgrown tells whether the cluster goes on without this node, whose disk knows of no
// other: it was set back to when it was alone, and would be a majority by itself
// until somebody comes. Who can be asked is asked before it begins. It joins then.
func (m *membership) outgrown(ctx context.Context) (bool, error) {
	n := m.n
	own := n.record().Addresses
	seeds := slices.DeleteFunc(slices.Clone(n.cfg.Join), func(a string) bool { return slices.Contains(own, a) })
	if len(seeds) == 0 {
		return false, nil
	}
	view := n.dir.register.Snapshot()
	state, err := group.Export(view)
	view.Close()
	if err != nil {
		return false, fmt.Errorf("register: %w", err)
	}
	removed := func(who register.Member) bool { // one may still run
		have, known := state.Find(who)
		return known && have.Status == register.Removed
	}
	if !aloneIn(&state) || removed(n.self) {
		return false, nil
	}
	asking, cancel := context.WithTimeout(ctx, seedTime)
	defer cancel()
	met := make(chan error, len(seeds))
	for _, addr := range seeds {
		go func() {
			who, err := m.network.Dialer().Probe(asking, addr)
			if err == nil && who.Cluster == n.cluster.ID && who.Member != n.self && !removed(who.Member) && who.Generation == state.Generation {
				err = fmt.Errorf("%w: it knows of no other node, and %s at %s is of its cluster", group.ErrForgot, who.Member.Node, addr)
			}
			met <- err
		}()
	}
	var found error
	for range seeds {
		if err := <-met; errors.Is(err, group.ErrForgot) {
			found = err
			cancel()
		}
	}
	if found == nil {
		return false, nil
	}
	if m.spared(ctx) && m.forget(found) {
		return true, nil
	}
	m.lost = found // it begins, and stands for nothing
	return false, nil
}

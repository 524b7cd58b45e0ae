package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
)

const (
	sparePause = time.Second      // between two times that the others are asked
	spareFirst = 2 * time.Second  // before the first: those that were set back together find out at about the same time
	spareTime  = 2 * time.Second  // for their answers
	denyAfter  = 10 * time.Second // those who are behind know by then what is decided
)

// spare is what this node says to another one that asks whether it can be spared.
func (m *membership) spare(who register.Member) message.MayRetire { return m.witness.Load().For(who) }

// await keeps a node whose disk has lost what it had acknowledged, until the others can spare
// it (K4): several may have been set back at once, and if all of them became other
// incarnations nobody would be a majority any more. Meanwhile it stands for nothing. The
// register may not answer it, and the others may refuse it, so that the core, which asks the
// same where it can, knows too little: the others are asked as by somebody from outside.
func (m *membership) await(err error) {
	m.forgetting.Lock()
	again := m.awaits || m.forgotten
	m.awaits = true
	m.forgetting.Unlock()
	if again {
		return
	}
	n := m.n
	n.inbox.Post(message.Forgot{Why: strings.TrimPrefix(err.Error(), group.ErrForgot.Error()+": "), Asked: true})
	n.running.Go(func() {
		if g := m.group.Load(); g != nil {
			_ = g.Close() // with others that were set back its votes would be a majority
		}
		since := time.Now()
		for pause := spareFirst; pause == spareFirst || !m.over(err, since); pause = sparePause {
			m.asked.Add(1)
			select {
			case <-n.ctx.Done():
				return
			case <-n.failed:
				return
			case <-time.After(pause):
			}
		}
		if n.Alive() == nil && !m.forget(err) {
			n.fatal(err)
		}
	})
}

// over asks the others, and tells whether a node that stands aside by somebody's word need
// not any more: two at least say the same and all can spare it, so that it becomes another
// incarnation; or for a while no more say so than deny it, and it starts again as it is. One
// alone, who may lie, decides neither.
func (m *membership) over(err error, since time.Time) bool {
	spared, known := m.inquire(m.n.ctx)
	yes, no := m.upheld(err, known)
	if no > 0 && no >= yes && time.Since(since) > denyAfter {
		m.n.log.Warn("node.denied", "error", err, "meaning", "what was said of this disk is not so by the others: the node starts again as it is")
		m.n.giveWay()
		return true
	}
	return spared && yes >= 2
}

// upheld counts those who say the same as an error does, and those who know otherwise. What
// this node has found out itself needs nobody's word.
func (m *membership) upheld(err error, all []*peer.Known) (yes, no int) {
	var a *group.Accusation
	accused := errors.As(err, &a)
	if !accused && !errors.Is(err, peer.ErrSetBack) {
		return 2, 0
	}
	boot, life := m.n.dir.boot, peer.Life(m.network)
	for _, k := range all {
		switch {
		case accused && k.Term >= a.Term && k.Commit >= a.Commit, !accused && (k.Boot > boot || k.Boot == boot && k.Life != life):
			yes++
		case accused && k.Follows, !accused && k.Boot > 0:
			no++
		}
	}
	return yes, no
}

// standing is how the register's group is seen here.
func (m *membership) standing() (term, commit uint64, follows bool) {
	g := m.group.Load()
	if g == nil {
		return 0, 0, false
	}
	s := g.Status()
	return s.Term, s.Commit, s.Leader != register.Member{}
}

// spared asks all others, and those of whom they tell, whether they can spare this node.
func (m *membership) spared(ctx context.Context) bool {
	spared, _ := m.inquire(ctx)
	return spared
}

// inquire is spared, with what they know of this node.
func (m *membership) inquire(ctx context.Context) (spared bool, known []*peer.Known) {
	ctx, cancel := context.WithTimeout(ctx, spareTime)
	defer cancel()
	own := m.n.record().Addresses
	done := make(map[string]bool)
	for _, addr := range own {
		done[addr] = true
	}
	var mu sync.Mutex // guards what follows
	heard := make(map[register.Member]bool)
	said, generations, more := make(map[register.Member]message.MayRetire), make(map[register.Member]uint64), m.others()
	for len(more) > 0 {
		var asking sync.WaitGroup
		wave := more
		more = nil
		for _, addr := range wave {
			if done[addr] {
				continue
			}
			done[addr] = true
			asking.Go(func() {
				who, s, nodes, err := m.network.Dialer().Spare(ctx, addr, m.n.self)
				if err != nil || who.Cluster != m.n.cluster.ID || who.Member == m.n.self {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if who.Known != nil && !heard[who.Member] {
					heard[who.Member], known = true, append(known, who.Known)
				}
				if !s.Sound {
					return
				}
				said[who.Member], generations[who.Member] = s, who.Generation
				for i := range nodes {
					more = append(more, nodes[i].Addresses...)
				}
			})
		}
		asking.Wait()
	}
	newest := secondOf(slices.Collect(maps.Values(generations))) // a generation that one alone speaks of may not be
	for who, g := range generations {                            // Any order: each is looked at by itself.
		if g < newest {
			delete(said, who) // of before the register began anew
		}
	}
	return standing.MayEnd(m.n.self, said, least(m)), known
}

// secondOf is the largest number but one, or the only one; 0 of none.
func secondOf(all []uint64) uint64 {
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return all[max(0, len(all)-2)]
}

// least is how many others have to say that this node can be spared: two, or the only one.
func least(m *membership) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	others := 0
	for who, node := range m.nodes { // Any order: they are counted.
		if who != m.n.self && node.Status != register.Removed {
			others++
		}
	}
	if others == 1 {
		return 1
	}
	return 2
}

package node

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
)

const (
	sparePause = time.Second     // between two times that the others are asked
	spareFirst = 2 * time.Second // before the first: those that were set back together find out at about the same time
	spareTime  = 2 * time.Second // for their answers
)

// spare is what this node says to another one that asks whether it can be spared.
func (m *membership) spare(who register.Member) core.Spare { return m.witness.Load().For(who) }

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
	n.inbox.post(core.Forgot{Why: strings.TrimPrefix(err.Error(), group.ErrForgot.Error()+": ")})
	n.running.Go(func() {
		if g := m.group.Load(); g != nil {
			_ = g.Close() // with others that were set back its votes would be a majority
		}
		for pause := spareFirst; pause == spareFirst || !m.spared(n.ctx); pause = sparePause {
			m.asked.Add(1)
			select {
			case <-n.ctx.Done():
				return
			case <-n.failed:
				return
			case <-time.After(pause):
			}
		}
		if !m.forget(err) {
			n.fatal(err)
		}
	})
}

// spared asks all others, and those of whom they tell, whether they can spare this node.
func (m *membership) spared(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, spareTime)
	defer cancel()
	own := m.n.record().Addresses
	done := make(map[string]bool)
	for _, addr := range own {
		done[addr] = true
	}
	var mu sync.Mutex // guards what follows
	said, generations, more := make(map[register.Member]core.Spare), make(map[register.Member]uint64), m.others()
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
				if err != nil || who.Cluster != m.n.cluster.ID || who.Member == m.n.self || !s.Sound {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				said[who.Member], generations[who.Member] = s, who.Generation
				for i := range nodes {
					more = append(more, nodes[i].Addresses...)
				}
			})
		}
		asking.Wait()
	}
	var newest uint64
	for _, g := range generations { // Any order: the newest counts.
		newest = max(newest, g)
	}
	for who, g := range generations { // Any order: each is looked at by itself.
		if g < newest {
			delete(said, who) // of before the register began anew
		}
	}
	return core.Spared(m.n.self, said)
}

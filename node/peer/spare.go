package peer

import (
	"context"
	"fmt"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// Spare asks who answers at an address whether a node that has lost what it had acknowledged
// can be spared. It is no hello: that is refused to such a node. What comes with it is where
// all those are that are needed then.
func (d Dialer) Spare(ctx context.Context, addr string, who register.Member) (Identity, message.MayRetire, []register.Node, error) {
	var p nornv1.PeerProbeReply
	i, err := d.probe(ctx, addr, &nornv1.PeerProbe{Spare: node(who)}, &p)
	if k := p.GetKnown(); err == nil && k != nil {
		i.Known = &Known{k.GetBoot(), k.GetLife(), k.GetTerm(), k.GetCommit(), k.GetFollows()}
	}
	if err != nil || p.GetSpare() == nil { // it does not count
		return i, message.MayRetire{}, nil, err
	}
	s, nodes, err := spareOf(p.GetSpare())
	return i, s, nodes, err
}

// knownHere is what is said of another node.
func knownHere(n *Network, who register.Member) *nornv1.PeerKnown {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.lives[who.Incarnation]
	k := &nornv1.PeerKnown{Boot: l.boot, Life: l.tag}
	if n.cfg.Standing != nil {
		k.Term, k.Commit, k.Follows = n.cfg.Standing()
	}
	return k
}

// Life is the random number of this process's hellos.
func Life(n *Network) uint64 { return n.life }

// spareProto is what travels; nil: the one who is asked does not count.
func spareProto(s message.MayRetire, addresses func(register.Member) []string) *nornv1.PeerSpare {
	if !s.Sound {
		return nil
	}
	p := &nornv1.PeerSpare{Revision: s.Revision}
	at := make(map[register.Member]uint32)
	for _, of := range s.Needs {
		need := &nornv1.PeerNeed{}
		for _, m := range of {
			if _, known := at[m]; !known {
				at[m] = uint32(len(p.Members))
				p.Members = append(p.Members, memberProto(register.Node{Member: m, Addresses: addresses(m)}))
			}
			need.Members = append(need.Members, at[m])
		}
		p.Needs = append(p.Needs, need)
	}
	return p
}

func spareOf(p *nornv1.PeerSpare) (s message.MayRetire, nodes []register.Node, err error) {
	if nodes, err = membersOf(p.GetMembers()); err != nil {
		return s, nil, err
	}
	s.Sound, s.Revision = true, p.GetRevision()
	for _, need := range p.GetNeeds() {
		var of []register.Member
		for _, i := range need.GetMembers() {
			if int(i) >= len(nodes) {
				return message.MayRetire{}, nil, fmt.Errorf("%w: member %d of %d", ErrMalformed, i, len(nodes))
			}
			of = append(of, nodes[i].Member)
		}
		s.Needs = append(s.Needs, of)
	}
	return s, nodes, nil
}

package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
)

// TestAVoteThatCannotBeReadIsTold: what voters, and then candidates, say of claims
// comes as rubbish. Nobody leads by it, and those who got it tell from whom; when it
// can be read again there are leaders.
func TestAVoteThatCannotBeReadIsTold(t *testing.T) {
	r := newTrio(t)
	gone := r.leader(1)
	r.kill(gone)
	r.tell()
	spoil := map[string]func(letter){
		"votes": func(l letter) {
			if m, ok := l.message.(*message.Votes); ok {
				for i := range m.Votes {
					if v := &m.Votes[i]; v.Granted && !v.Pre && l.from != l.to {
						v.Claims = []byte{255}
					}
				}
			}
		},
		"pushes": func(l letter) {
			if m, ok := l.message.(*message.Pushes); ok && l.from != l.to {
				for i := range m.Pushes {
					m.Pushes[i].Claims = []byte{255}
				}
			}
		},
	}
	for _, what := range []string{"votes", "pushes"} {
		before := r.unread()
		r.live(5*time.Second, 50*time.Millisecond, func(l letter) bool {
			spoil[what](l)
			return false
		})
		if cell := r.state().Cells[1]; cell.Leader != r.peers[gone].self {
			t.Fatalf("%s: %s leads by what it could not read", what, cell.Leader.Node)
		}
		if r.unread() == before {
			t.Errorf("%s: nobody tells", what)
		}
	}
	for i, p := range r.peers {
		if p.down {
			continue
		}
		if s := p.core.Stats(); s.Unread > 0 && (s.UnreadLast.Why == "" || s.UnreadLast.Peer == p.self.Node || s.UnreadLast.Peer == r.peers[gone].self.Node || s.UnreadLast.Peer == "") {
			t.Errorf("node %d tells %+v", i+1, s.UnreadLast)
		}
	}
	r.elect()
}

// unread is how often claims could not be read.
func (r *trio) unread() (n uint64) {
	for _, p := range r.peers {
		if !p.down {
			n += p.core.Stats().Unread
		}
	}
	return n
}

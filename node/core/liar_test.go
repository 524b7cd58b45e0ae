package core

import (
	"testing"

	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/vnode"
)

// TestNoEpochOfOneMemberIsTheLast: a member says epochs and promises that leave no higher
// one, or few, in each message that has one. The others elect leaders all the same, with it
// and without it, and their epochs fit into tokens.
func TestNoEpochOfOneMemberIsTheLast(t *testing.T) {
	for _, huge := range []uint64{election.Window / 2, election.Window, 1 << 20, 1 << 31, 1<<32 - 1, 1 << 40, 1<<63 - 1, ^uint64(0) - 1, ^uint64(0)} {
		r := newTrio(t)
		i := r.leader(1)
		liar := (i + 1) % 3
		all := []register.Member{r.peers[0].self, r.peers[1].self, r.peers[2].self}
		cell := r.peers[i].core.view.Cells[1]
		none := vnode.AppendHeld(nil, nil)
		for _, m := range []message.PeerMessage{
			&message.Ballots{Ballots: []message.Ballot{{Partition: 1, Epoch: huge, Nonce: 7, Old: cell.Epoch, From: all, To: all, Transfer: true}}},
			&message.Ballots{Ballots: []message.Ballot{{Partition: 1, Epoch: huge, Nonce: 9, Old: huge, From: all, To: all[:2], Transfer: true}}},
			&message.Pushes{Pushes: []message.Pushed{{Partition: 1, Epoch: huge, Nonce: 7, Claims: none}}},
			&message.Claims{Round: 99, Parts: []message.PartClaims{{Partition: 1, Epoch: huge, Claims: none}}},
			&message.NotHeld{Parts: []message.PartClaims{{Partition: 1, Epoch: huge, Claims: none}}},
			&message.Votes{Votes: []message.CastVote{{Vote: message.Vote{Partition: 1, Epoch: cell.Epoch, Nonce: cell.Nonce, Promise: huge}}}, Mark: ^uint64(0)},
			&message.PushesTaken{Votes: []message.Vote{{Partition: 1, Epoch: cell.Epoch, Nonce: cell.Nonce, Promise: huge}}, Mark: ^uint64(0)},
			&message.Elect{Stand: []message.Stand{{Partition: 1, Epoch: cell.Epoch, Nonce: cell.Nonce, To: all, Floor: huge}}},
			&message.DurabilityEpoch{Mark: ^uint64(0)},
		} {
			for j := range r.peers {
				if j != liar {
					r.say(liar, j, m)
				}
			}
		}
		r.elect()
		for _, away := range []int{liar, i} { // each is missed once
			r.kill(away)
			r.elect()
			for p, cell := range r.state().Cells {
				if cell.Epoch >= 1<<31 {
					t.Fatalf("%d: without %d partition %d is led in epoch %d", huge, away, p, cell.Epoch)
				}
			}
			r.open(away)
			r.elect()
		}
		for j := range r.peers {
			if err := Forgotten(r.peers[j].core); err != nil {
				t.Errorf("%d: %d: %v", huge, j, err)
			}
		}
	}
}

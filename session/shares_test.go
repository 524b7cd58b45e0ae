package session

import (
	"testing"

	"pgregory.net/rapid"
)

// Shares never exceed the room, give all of it while there is need for it, and
// over time are those of the weights.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "queues")
		p, queues, sum := &Shares{}, make([]Appetite, n), 0
		for i := range queues {
			queues[i] = Appetite{Queue: string(rune('a' + i)), Weight: rapid.IntRange(1, 20).Draw(t, "weight")}
			sum += queues[i].Weight
		}
		got, total := map[string]int{}, 0
		for range 200 {
			room := rapid.IntRange(1, 20).Draw(t, "room")
			for i := range queues {
				queues[i].Room = room
			}
			shares := p.Split(queues, make([]bool, n), room)
			all := 0
			for i, s := range shares {
				if s < 0 || s > room {
					t.Fatalf("share %d of room %d", s, room)
				}
				all += s
				got[queues[i].Queue] += s
				p.Took(queues[i].Queue, s)
			}
			if all != room {
				t.Fatalf("shares %v of room %d", shares, room)
			}
			total += room
		}
		for _, q := range queues {
			want := float64(total*q.Weight) / float64(sum)
			if d := float64(got[q.Queue]) - want; d > 2*float64(n) || d < -2*float64(n) {
				t.Fatalf("%s with weight %d of %d got %d of %d", q.Queue, q.Weight, sum, got[q.Queue], total)
			}
		}
	})
}

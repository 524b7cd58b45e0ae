package session

import (
	"cmp"
	"slices"
)

// Appetite is the room for the tasks of one queue.
type Appetite struct {
	Queue  string
	Room   int // at least 1
	Weight int // at least 1
}

// Shares divides room among queues by their weights: deficit round robin
// (Shreedhar and Varghese, SIGCOMM 1995) with tasks as the unit. What a share falls
// short of by rounding or by a queue's slots is kept as credit, up to one round's.
// The zero Shares is ready.
type Shares struct{ credit map[string]float64 }

// Split shares room among the queues that are not empty, by weight: how many tasks
// to ask each for.
func (s *Shares) Split(queues []Appetite, empty []bool, room int) []int {
	if s.credit == nil {
		s.credit = make(map[string]float64)
	}
	weights := 0
	for i := range queues {
		if !empty[i] {
			weights += queues[i].Weight
		}
	}
	for i, q := range queues {
		if !empty[i] {
			earned := float64(room*q.Weight) / float64(weights)
			s.credit[q.Queue] = min(s.credit[q.Queue]+earned, earned+1)
		}
	}
	order := s.byCredit(queues)
	shares := make([]int, len(queues))
	for _, i := range order {
		if !empty[i] {
			shares[i] = max(min(int(s.credit[queues[i].Queue]), queues[i].Room, room), 0)
			room -= shares[i]
		}
	}
	for _, i := range order { // of what rounding has left one each, first to whom most is owed
		if !empty[i] && room > 0 && shares[i] < queues[i].Room {
			shares[i]++
			room--
		}
	}
	return shares
}

// Leftover offers what is left to the queues that gave all they were asked for.
func (s *Shares) Leftover(queues []Appetite, empty []bool, room int) []int {
	shares := make([]int, len(queues))
	for _, i := range s.byCredit(queues) {
		if !empty[i] {
			shares[i] = min(queues[i].Room, room)
			room -= shares[i]
		}
	}
	return shares
}

// Took counts tasks that a queue gave of its share.
func (s *Shares) Took(queue string, n int) { s.credit[queue] -= float64(n) }

// Empty forgets the credit of a queue that gave less than it was asked for: who has
// no need does not save up.
func (s *Shares) Empty(queue string) { s.credit[queue] = 0 }

// byCredit are the indices of queues, the one that most is owed to first.
func (s *Shares) byCredit(queues []Appetite) []int {
	order := make([]int, len(queues))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(s.credit[queues[b].Queue], s.credit[queues[a].Queue])
	})
	return order
}

package model

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/norn-dev/norn/quorum"
)

// Limits of a configuration: what fits into a state.
const (
	// MaxNodes is the number of nodes a mask of four bits names.
	MaxNodes = 4
	// MaxCandidacies is the number of elections beyond the initial one.
	MaxCandidacies = 3
	// MaxGrants is the number of new claims a leader grants.
	MaxGrants = 2

	slots  = 1 + MaxCandidacies // slot 0 is the initial leader's epoch
	claims = slots * MaxGrants  // claim = grant*slots + slot of its leader
)

// ErrConfig is returned when a configuration does not fit into a state, or
// makes no sense.
var ErrConfig = errors.New("bad configuration of the model")

// Config says which cluster is explored and which steps exist. Every switch
// that is on adds behaviours; what one configuration leaves out another has.
type Config struct {
	// Name is short, for tables.
	Name string
	// Nodes is the number of nodes, at most [MaxNodes].
	Nodes int
	// Cohorts are sets of nodes as masks, bit i for node i; the first is the
	// initial one, in which the initial leader has epoch 1.
	Cohorts []uint8
	// Moves says, for each cohort, which cohorts an election from it may
	// install (indices of Cohorts).
	Moves [][]int
	// Candidacies is the number of elections that are started, at most
	// [MaxCandidacies]; Grants that of new claims per leader.
	Candidacies, Grants int
	// Over: claims may end at any time, for lack of renewals or because the
	// worker is through with them; from then on each node may take them for
	// lapsed, or not yet.
	Over bool
	// Release: leaders release claims, those never handed out and those that
	// workers give back.
	Release bool
	// Retry: a leader answers a repeated claim request with a claim of an
	// earlier epoch whose fate was unknown, once its renewal has committed.
	Retry bool
	// Complete: a coordinator completes the task by quorum.
	Complete bool
	// Zombies: nodes read the register and drop what they hold when they are
	// no members any more.
	Zombies bool
	// Full: no step is skipped and no state put in the place of another, but
	// for symmetry.
	Full bool
	// Follow: followers copy their leader's claims within its epoch.
	Follow bool
}

// check says whether c can be explored.
func (c *Config) check() error {
	switch {
	case c.Nodes < 1 || c.Nodes > MaxNodes:
		return fmt.Errorf("%w: %d nodes, limit %d", ErrConfig, c.Nodes, MaxNodes)
	case c.Candidacies < 0 || c.Candidacies > MaxCandidacies:
		return fmt.Errorf("%w: %d candidacies, limit %d", ErrConfig, c.Candidacies, MaxCandidacies)
	case c.Grants < 1 || c.Grants > MaxGrants:
		return fmt.Errorf("%w: %d grants per leader, limit %d", ErrConfig, c.Grants, MaxGrants)
	case len(c.Cohorts) == 0 || len(c.Moves) != len(c.Cohorts):
		return fmt.Errorf("%w: %d cohorts, %d rows of moves", ErrConfig, len(c.Cohorts), len(c.Moves))
	}
	for i, m := range c.Cohorts {
		if m == 0 || int(m) >= 1<<c.Nodes {
			return fmt.Errorf("%w: cohort %d is %04b of %d nodes", ErrConfig, i, m, c.Nodes)
		}
		for _, to := range c.Moves[i] {
			if to < 0 || to >= len(c.Cohorts) {
				return fmt.Errorf("%w: move from cohort %d to %d", ErrConfig, i, to)
			}
		}
	}
	return nil
}

// majority says whether the nodes of set hold a majority of cohort.
func majority(set, cohort uint8) bool {
	return bits.OnesCount8(set&cohort) >= quorum.Majority(bits.OnesCount8(cohort))
}

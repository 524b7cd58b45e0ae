package hunt

import (
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim"
)

// Quarries gives every mistake with where it shows, and with what it breaks by itself, and
// not only in what follows from it: the invariants that the design names for it, or those of
// the protocol behind them, which the witness sees sooner. A panic (check.Internal) finds
// nothing, because none of them is a program that falls.
func Quarries() []Quarry {
	return []Quarry{
		on(OneNode, mutant.AckBeforeSync, check.Lost, check.Undone), // an end that is gone as well
		on(Clusters, mutant.PromiseInMemory, sim.Promise),
		on(Clusters, mutant.UnpromisedVotes, sim.Vote),
		on(Clusters, mutant.NoOldMajority, sim.Vote),
		on(Clusters, mutant.NoPush, check.Leader),
		on(Clusters, mutant.GrantBeforeCAS, check.Token), // of two candidates for one epoch
		on(Clusters, mutant.CASIfGreater, check.Register),
		on(Clusters, mutant.EagerZombie, check.Lost),
		on(Clusters, mutant.UngatedClaims, check.Overlap),
		on(Clusters, mutant.PlannedCohort, sim.Majority),
		on(Clusters, mutant.UnpromisedGrant, sim.Promise),
		on(Clusters, mutant.OutsiderCounts, check.Lost),
		on(OneNode, mutant.DeadlineReceipt, check.Overlap),
		on(Clusters, mutant.UnfencedRenewal, sim.Majority),
		on(Clusters, mutant.NoHandOver, check.Lost, check.Undone, check.Leader), // the facts of the old cohort are its ends, too
		on(Clusters, mutant.PurgeByTime, check.Collected),
		on(Clusters, mutant.LargerWins, check.Lost, check.Undone, sim.Convergence), // what is not taken over is gone, before anybody compares
		on(Clusters, mutant.LocalHash, sim.Audit),
		on(Schedules, mutant.LaunchAtNow, check.CronDoubled),
		on(FailingDisk, mutant.FsyncRetried, check.Lost),
		on(Clusters, mutant.TimeoutFailed, check.Honesty),
		on(OneNode, mutant.AbsentIsDone, check.Dependency),
		on(OneNode, mutant.GapShown, check.Contiguous),
		on(Clusters, mutant.StaleLeader, sim.Majority),
	}
}

// on is a mistake that a ground must show.
func on(g Ground, m mutant.ID, breaks ...string) Quarry {
	return Quarry{Mistake: m, Ground: g, Breaks: breaks}
}

// by is a mistake that a test of a package must find.
func by(pkg, test string, m mutant.ID) Quarry {
	return Quarry{Mistake: m, Unit: Unit{pkg, test}, Breaks: []string{ByTest}}
}

package stats

import (
	"fmt"
	"strings"
)

// Stat names something that is counted: a storm without wind proves nothing.
type Stat int

// What is counted.
const (
	Operations Stat = iota
	Enqueues
	Existed
	Repeated
	Keyed
	Grants
	TooLate
	Renewals
	LostClaims
	Unanswered
	GivenUp
	Updates
	Completions
	Works
	Failures
	Releases
	Deaths
	Cancels
	Retries
	Purged
	Settings
	Reads
	Refusals
	Unimplemented
	Ghosts
	Cuts
	Undelivered
	Crashes
	CrashesAtStep
	CrashesWithLoss
	Stops
	ClockSteps
	Syncs
	Rounds
	Collected
	Parked // rounds that left claim requests waiting and were looked at
	Audits
	Joins // from here on only clusters have any
	Messages
	LostMessages
	Comparisons // of replicas
	Repaired    // facts that replicas of a cohort lacked
	Copied      // facts that came with a partition, or left with it
	Moves       // members that were added to cohorts
	Splits
	SlowLinks
	Leaders // changes of the leader of a partition
	Wipes
	Restores
	Forgotten // of those disks: they lacked promises or claims
	Renewed   // nodes that have noticed that, and came back as another incarnation
	Flips
	Damaged // processes that ended because of what they had read
	Added
	Left
	Removals
	Sessions  // workers that got their name
	HandOvers // of those, with tasks, from one node to another
	Pushed    // grants through sessions
	Lapses    // claims that clients were shown as run out
	Old       // tasks below the horizon that members did not know
	Suspended // machines whose monotonic clock stood still
	Resizes   // of the number of replicas
	Lies      // of a node that lies to the others
	numStats
)

var statNames = [numStats]string{
	"operations", "enqueued", "existed", "repeated", "keyed", "granted", "granted too late", "renewed", "claims lost", "unanswered", "given up",
	"updates", "completed", "completed with the next claim", "failed", "released", "workers died", "cancelled", "retried", "purged", "queue settings", "read",
	"refusals", "unimplemented", "late copies", "cuts", "undelivered", "crashes", "at a step", "with loss", "clean stops",
	"clock settings", "syncs", "rounds", "collected", "rounds with waiting claims", "audits",
	"joined", "messages", "messages lost", "comparisons", "facts repaired", "facts moved", "moves", "partitions of the network", "slow links", "changes of leaders",
	"disks lost", "disks set back", "with promises or claims forgotten", "as another incarnation", "bits turned over", "ended by damage", "added", "left", "removed", "sessions", "handed over", "granted through them", "claims run out", "below the horizon", "machines suspended", "numbers of replicas", "lies",
}

// Stats counts what happened.
type Stats [numStats]int

// Add sums up.
func (s *Stats) Add(o *Stats) {
	for i := range s {
		s[i] += o[i]
	}
}

// String lists the counters.
func (s *Stats) String() string {
	var b strings.Builder
	for i, n := range s {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %d", statNames[i], n)
	}
	return b.String()
}

// perSeed is how much must happen in a seed on average, in hundredths, for a
// run of many seeds to count.
var perSeed = map[Stat]int{
	Operations: 20_000, Enqueues: 1500, Existed: 20, Grants: 1500, Renewals: 300, GivenUp: 20, Updates: 300, Completions: 1000, Works: 200,
	Failures: 50, Releases: 20, Deaths: 10, Reads: 1000, Ghosts: 50, Cuts: 50, Undelivered: 10, Crashes: 100, CrashesAtStep: 30,
	CrashesWithLoss: 10, Stops: 10, ClockSteps: 5, Collected: 100, Parked: 100, Audits: 200,
}

// Calm lists what happened too rarely in a number of seeds for them to prove
// anything.
func (s *Stats) Calm(seeds int) (missing []string) {
	for i := range numStats {
		if want := perSeed[i] * seeds / 100; s[i] < want {
			missing = append(missing, fmt.Sprintf("%s: %d, not %d", statNames[i], s[i], want))
		}
	}
	return missing
}

package core

import (
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/cron"
	"github.com/norn-dev/norn/node/core/decided"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/policy"
	"github.com/norn-dev/norn/node/core/retention"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/session"
)

// Config is what a core needs to know. Durations are checked by the caller.
type Config struct {
	Self    register.Member  // this node in this incarnation
	Policy  policy.Policy    // rules that are left out: none but in the hunt
	Address string           // client address, for status
	Zone    string           // failure domain, for status
	Cluster register.Cluster // what is fixed for all nodes
	Mark    uint64           // how far the disk was at least, by what is kept beside it: see [standing.Disk]
	SetBack bool             // the disk was set back, by what is kept beside it

	Eta      time.Duration // bound on clock difference and delay
	Buffer   time.Duration // added to a lease before it may lapse; >= Eta
	Slack    time.Duration // how much later than its own rule says a leader ends a lapsed claim: its followers heard of it later
	GCGrace  time.Duration // older unknown IDs are refused
	Lease    time.Duration // default lease
	Retry    crdt.Retry    // default retry policy
	HeadSize int           // ready tasks in memory per queue and partition

	MaxPayload  int    // bytes
	MaxWaiters  int    // waiting claim and log requests
	MaxQueues   int    // queue names
	MaxClaims   int    // tasks under a claim
	PartClaims  int    // of those in one partition; 0: [vnode.MaxClaimed]
	DiskReserve uint64 // bytes: enqueues are refused below

	Retention       retention.Rule // of queues that do not say
	CollectInterval time.Duration  // in which every partition is looked at once; 0: nothing is collected
	Archive         bool           // there is somewhere to archive to
	Common          bool           // what is to be configured alike on all nodes is kept in the register and compared

	Tree       bool          // keep the trees that replicas compare from the first fact on, not from the second node on
	Quarantine int64         // bytes of facts that are kept aside at most; 0: 256 MiB
	Repair     time.Duration // in which each partition is compared once with each other member of its cohort; 0: never
	Scrub      time.Duration // between two looks of the scrubber at the trees; 0: a second
	WatchFor   time.Duration // how long a replica remembers who asked about a task; 0: a minute

	Sessions session.DispatcherConfig // of workers; the zero value has defaults

	DeadAfter time.Duration // for how long a leader is not alive before others lead; 0: 10 s

	// History gives what was decided here by [message.Ready.Decided], beside the loop: a request
	// that [history.Check] has made whole is answered. nil: nobody remembers it.
	History func(*nornv1.HistoryRequest) *nornv1.HistoryReply

	// Rand is the only source of randomness.
	Rand *rand.Rand
}

// Stats counts what the core did since it was made.
type Stats struct {
	Enqueued, Duplicates, Claimed, Renewed, Updated uint64
	Completed, Failed, Released, Undelivered        uint64
	Cancelled, Retried, Collected, Archived         uint64
	Refused, Clashes                                uint64
	Clashed                                         id.ID  // the task of the last clash
	Stale                                           uint64 // times that facts of a task were left with a node outside the cohort: below the horizon and unknown here
	Quarantined                                     uint64 // tasks of which facts were put aside here
	QuarantinedLast                                 id.ID
	QuarantinedTasks                                int    // tasks of which facts are kept aside
	QuarantinedBytes                                int64  // of those facts
	QuarantineFull                                  uint64 // times that there was no room for more
	Unread                                          uint64 // times that claims of an election could not be read, so that a vote did not count
	UnreadLast                                      leadership.Unread
	HandoversLeft                                   int    // partitions that others keep and this node has not handed over yet
	Differs                                         string // what this node is configured with that the node that leads the register has otherwise; empty: nothing
	RegisterBack                                    string // how it shows that the register has gone back; empty: it has not
	Forgot                                          bool   // this disk has lost what it had acknowledged
	ClockFault                                      string // why this node's clock is no good for some partitions; empty: it is good
	ClockBad                                        int    // how many those are
	ClockAlone                                      bool   // the reason is that too few of the others answer, and nothing is known against the clock
	ClockRight                                      int64  // by how much its wall clock is to be put right, as far as the others have told, ns
	Skewed                                          uint64 // times that a member refused a claim because its clock is far from ours
	Elected, Defeated                               uint64 // candidacies of this node
	Passed                                          uint64 // grants taken back because they did not reach a majority
	Scrubbed                                        uint64 // nodes of trees that were not what the facts say
	RankErrors                                      dispatch.RankErrors
	Waits                                           decided.Waits
	Waiting                                         int // requests that wait
	Claims                                          int // tasks under a claim
	Full                                            int // partitions led of which nothing is granted, because so many of their tasks are
	Cron                                            cron.Stats
	Sessions                                        int // of workers, with this node
	SessionCounts                                   session.Counts
}

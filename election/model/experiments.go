package model

// Experiment is one search and what it must find.
type Experiment struct {
	// Config is the cluster, Omit what is left out of the protocol.
	Config Config
	Omit   Omission
	// Broke is what must be found; 0: nothing, and the search is exhaustive.
	Broke Invariant
	// Grant ignores K2, so that the trace goes on to the grant that hurts.
	Grant bool
	// Walks, if not 0, are random walks from Seed instead of a search.
	Walks int
	Seed  uint64
	// Short ones run with every `go test`.
	Short bool
	// Note says why nothing is found where something is left out.
	Note string
}

// walkLength is the number of steps of a random walk, longer than any way that
// has no step left.
const walkLength = 120

// Run searches.
func (x *Experiment) Run() (Result, error) {
	if x.Walks != 0 {
		return Walk(&x.Config, x.Omit, x.Seed, x.Walks, walkLength)
	}
	lim := Limits{}
	if x.Grant {
		lim.Only = K1 | K6 | K7
	}
	return Explore(&x.Config, x.Omit, lim)
}

// The cohorts of a change, and the moves: A to B and back, or staying.
var (
	change = Config{
		Nodes: 4, Cohorts: []uint8{0b0111, 0b1110}, Moves: [][]int{{0, 1}, {0, 1}},
		Candidacies: 2, Grants: 1,
	}
	still = Config{Nodes: 3, Cohorts: []uint8{0b0111}, Moves: [][]int{{0}}, Candidacies: 2, Grants: 1}
)

func (c Config) named(name string) Config     { c.Name = name; return c }
func (c Config) candidacies(n int) Config     { c.Candidacies = n; return c }
func (c Config) grants(n int) Config          { c.Grants = n; return c }
func (c Config) over() Config                 { c.Over = true; return c }
func (c Config) releasing() Config            { c.Release = true; return c }
func (c Config) retrying() Config             { c.Retry = true; return c }
func (c Config) completing() Config           { c.Complete = true; return c }
func (c Config) zombies() Config              { c.Zombies = true; return c }
func (c Config) full() Config                 { c.Full = true; return c }
func (c Config) following() Config            { c.Follow = true; return c }
func (c Config) moving(moves ...[]int) Config { c.Moves = moves; return c }

// Experiments lists what `go test` and `make model` search.
func Experiments() []Experiment {
	out := correct()
	out = append(out, listed()...)
	out = append(out, corrections()...)
	out = append(out, found()...)
	return append(out, harmless()...)
}

var (
	one   = change.candidacies(1)
	once  = one.named("one change")
	plain = change.named("change")
	sizes = Config{Nodes: 4, Cohorts: []uint8{0b0111, 0b1111, 0b0011}, Moves: [][]int{{1, 2}, {2, 0}, {0, 1}}, Candidacies: 2, Grants: 1}
	all   = Config{
		Name: "all at once, 3 elections", Nodes: 4,
		Cohorts: []uint8{0b0111, 0b1110, 0b1101}, Moves: [][]int{{0, 1}, {0, 1, 2}, {0, 2}},
		Candidacies: 3, Grants: 2, Over: true, Release: true, Retry: true, Complete: true, Zombies: true, Follow: true,
	}
	back  = left.moving([]int{1}, []int{0}).named("there and back, complete, zombies")
	three = Config{Nodes: 4, Cohorts: []uint8{0b0111, 0b1110, 0b1101}, Moves: [][]int{{1}, {2}, {0}}, Candidacies: 2, Grants: 1}.
		completing().zombies().named("three cohorts, complete, zombies")
	claimed = change.over().releasing().zombies().named("change, claims")
	moved   = change.completing().named("change, complete")
	left    = change.completing().zombies().named("change, complete, zombies")
	retried = still.over().retrying().releasing().named("retries")
	thrice  = still.candidacies(3).over().retrying().named("retries, 3 elections")
)

// correct are the clusters in which nothing may be found.
func correct() []Experiment {
	return []Experiment{
		{Config: change.moving([]int{1}, []int{0, 1}).named("change, always first"), Short: true},
		{Config: plain},
		{Config: plain.full().named("change, in full")},
		{Config: one.moving([]int{1}, nil).completing().zombies().named("one change, complete, zombies"), Short: true},
		{Config: one.over().releasing().retrying().following().named("one change, claims")},
		{Config: still.candidacies(1).over().releasing().retrying().following().named("no change, claims"), Short: true},
		{Config: still.candidacies(1).over().releasing().retrying().following().grants(2).named("no change, claims by twos")},
		{Config: claimed},
		{Config: sizes.over().releasing().zombies().named("sizes, claims")},
		{Config: sizes.candidacies(1).completing().zombies().named("one change of size, complete, zombies")},
		{Config: moved},
		{Config: retried},
		{Config: retried.following().named("retries, followers")},
		{Config: thrice},
		{Config: change.candidacies(3).over().named("change, claims, 3 elections")},
		{Config: left},
		{Config: three},
		{Config: all, Walks: 300000, Seed: 1},
	}
}

// listed is the table of the design (protocol (c)).
func listed() []Experiment {
	return []Experiment{
		{Config: once, Omit: NoOldMajority, Broke: K2, Short: true},
		{Config: once, Omit: UnpromisedSnapshots, Broke: K2, Short: true},
		{Config: once, Omit: NoUnion, Broke: K2, Short: true},
		{Config: once, Omit: NoPush, Broke: K2, Short: true},
		{Config: plain, Omit: WriteIfGreater, Broke: K2},
		{Config: plain, Omit: GrantBeforeCAS, Broke: K2},
		{Config: once, Omit: UnfencedGrants, Broke: K2, Short: true},
		{Config: change.zombies().named("change, zombies"), Omit: DropBeforeCAS, Broke: K2},
		{Config: once, Omit: LosePromise, Broke: K2, Short: true},
		{Config: once, Omit: LoseClaims, Broke: K2, Short: true},
		{Config: change.following().named("change, followers"), Omit: CopyLeadersSet, Broke: K2},
		{Config: plain, Omit: RingsCohort, Broke: K6},
		{Config: still.named("no change"), Omit: VoteTwice | CompareEpochAndCohort, Broke: K1, Short: true},
	}
}

// corrections are those of design 5 to 7.
func corrections() []Experiment {
	complete := one.completing().moving([]int{1}, nil).named("one change, complete")
	zombies := change.zombies().named("change, zombies")
	return []Experiment{
		{Config: thrice, Omit: HighestToken, Broke: K2},
		{Config: complete, Omit: NoTerminalFacts, Broke: K7, Short: true},
		{Config: change.completing().moving([]int{1}, []int{1}).named("change and stay, complete"), Omit: FactsToLeaderOnly, Broke: K7},
		{Config: complete, Omit: ProposalsNotNamed, Broke: K7, Short: true},
		{Config: complete, Omit: LoseProposals, Broke: K7},
		{Config: moved, Omit: LatestProposalOnly, Broke: K7},
		{Config: complete, Omit: StartFromProposed, Broke: K7, Short: true},
		{Config: once.zombies().named("one change, zombies"), Omit: DropBelowPromise, Broke: K2, Short: true},
		{Config: zombies, Omit: ForgetPromise, Broke: K6},
		{Config: back, Omit: KeepFactsToYourself, Broke: K7},
		{Config: back, Omit: HandOverToLeaderOnly, Broke: K7},
	}
}

// found are the rules of the design that the model has shown to be too weak,
// or that were not written down.
func found() []Experiment {
	return []Experiment{
		{Config: back, Omit: HandOverToCohortOnly, Broke: K7},
		{Config: retried, Omit: ReleaseWins, Broke: K6},
		{Config: retried, Omit: StaleIfUnreleased, Broke: K6},
		{Config: retried, Omit: UnfencedReleases, Broke: K6},
		{Config: thrice, Omit: KnownIsFree, Broke: K6, Grant: true},
	}
}

// harmless is what may be left out, as far as the model can see.
func harmless() []Experiment {
	never := still.over().releasing().named("releases")
	return []Experiment{
		{Config: claimed, Omit: NoNewMajority, Note: "step 7 has the union on a majority of C' before the compare-and-set, which is exact"},
		{Config: moved, Omit: NoNewMajority, Note: "the same, for facts"},
		{Config: claimed, Omit: UnfencedPush, Note: "pushes only add"},
		{Config: plain, Omit: VoteTwice, Note: "the nonce tells the two candidates of an epoch apart"},
		{Config: plain, Omit: CompareEpochAndCohort, Note: "with one vote per epoch two candidates of it cannot both have a majority"},
		{
			Config: never, Omit: ReleaseWins | StaleIfUnreleased | UnfencedReleases,
			Note: "a claim is handed out in the epoch that granted it only: no leader answers a repeated request with a claim of an earlier epoch",
		},
	}
}

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
	// Short ones run with every `go test`.
	Short bool
	// Note says why nothing is found where something is left out.
	Note string
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
func (c Config) following() Config            { c.Follow = true; return c }
func (c Config) moving(moves ...[]int) Config { c.Moves = moves; return c }

// Experiments lists what `go test` and `make model` search.
func Experiments() []Experiment {
	return append(correct(), append(table1(), corrections()...)...)
}

// correct are the configurations in which nothing may be found.
func correct() []Experiment {
	one := change.candidacies(1)
	return []Experiment{
		{Config: change.named("change"), Short: true},
		{Config: one.completing().zombies().named("complete"), Short: true},
		{Config: one.over().releasing().retrying().following().named("claims"), Short: true},
		{Config: still.over().retrying().releasing().named("retries")},
	}
}

// table1 is the table of the design's protocol (c).
func table1() []Experiment {
	c := change.named("change")
	return []Experiment{
		{Config: c, Omit: NoOldMajority, Broke: K2, Short: true},
		{Config: c, Omit: UnpromisedSnapshots, Broke: K2},
		{Config: c, Omit: NoUnion, Broke: K2, Short: true},
		{Config: c, Omit: NoPush, Broke: K2, Short: true},
		{Config: c, Omit: WriteIfGreater, Broke: K2},
		{Config: c, Omit: GrantBeforeCAS, Broke: K2},
		{Config: c, Omit: UnfencedGrants, Broke: K2, Short: true},
		{Config: c.zombies().named("change, zombies"), Omit: DropBeforeCAS, Broke: K2},
		{Config: c, Omit: LosePromise, Broke: K2, Short: true},
		{Config: c, Omit: LoseClaims, Broke: K2, Short: true},
		{Config: c.following().named("change, followers"), Omit: CopyLeadersSet, Broke: K2},
		{Config: c, Omit: RingsCohort, Broke: K6},
		{Config: c, Omit: VoteTwice | CompareEpochAndCohort, Broke: K1, Short: true},
	}
}

// corrections are those of design 5 to 7.
func corrections() []Experiment {
	one := change.candidacies(1).completing().named("complete")
	two := change.completing().named("change, complete")
	z := change.zombies().named("change, zombies")
	r := still.over().retrying().releasing().named("retries")
	return []Experiment{
		{Config: one, Omit: NoTerminalFacts, Broke: K7, Short: true},
		{Config: two, Omit: FactsToLeaderOnly, Broke: K7},
		{Config: one, Omit: ProposalsNotNamed, Broke: K7, Short: true},
		{Config: one, Omit: LoseProposals, Broke: K7, Short: true},
		{Config: two, Omit: LatestProposalOnly, Broke: K7},
		{Config: one, Omit: StartFromProposed, Broke: K7, Short: true},
		{Config: z, Omit: DropBelowPromise, Broke: K2, Short: true},
		{Config: z, Omit: ForgetPromise, Broke: K6},
		{Config: r, Omit: ReleaseWins, Broke: K6},
		{Config: r, Omit: StaleIfUnreleased, Broke: K6},
		{Config: r, Omit: UnfencedReleases, Broke: K6},
	}
}

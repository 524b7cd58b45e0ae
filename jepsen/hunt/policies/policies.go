package policies

import (
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/policy"
)

// rules are the rules whose absence is a mistake.
var rules = map[mutant.ID]func(*policy.Policy) *bool{
	mutant.StepUnseen:          func(p *policy.Policy) *bool { return &p.Standing.StepUnseen },
	mutant.MarksUnsaved:        func(p *policy.Policy) *bool { return &p.Standing.MarksUnsaved },
	mutant.TrustsAlways:        func(p *policy.Policy) *bool { return &p.Standing.TrustsAlways },
	mutant.CountsForgotten:     func(p *policy.Policy) *bool { return &p.Standing.CountsForgotten },
	mutant.OneWord:             func(p *policy.Policy) *bool { return &p.Standing.OneWord },
	mutant.UnpromisedVotes:     func(p *policy.Policy) *bool { return &p.Leadership.UnpromisedVotes },
	mutant.EagerZombie:         func(p *policy.Policy) *bool { return &p.Leadership.EagerZombie },
	mutant.OneVoterPulled:      func(p *policy.Policy) *bool { return &p.Leadership.OneVoterPulled },
	mutant.GrantBeforeCAS:      func(p *policy.Policy) *bool { return &p.Leadership.GrantBeforeCAS },
	mutant.PromiseInMemory:     func(p *policy.Policy) *bool { return &p.Leadership.PromiseInMemory },
	mutant.OldGrants:           func(p *policy.Policy) *bool { return &p.Lease.OldGrants },
	mutant.PlannedCohort:       func(p *policy.Policy) *bool { return &p.Lease.PlannedCohort },
	mutant.StaleLeader:         func(p *policy.Policy) *bool { return &p.Lease.StaleLeader },
	mutant.UngatedClaims:       func(p *policy.Policy) *bool { return &p.Lease.UngatedClaims },
	mutant.UnpromisedGrant:     func(p *policy.Policy) *bool { return &p.Lease.UnpromisedGrant },
	mutant.UnfencedRenewal:     func(p *policy.Policy) *bool { return &p.Lease.UnfencedRenewal },
	mutant.ClaimRefusalIgnored: func(p *policy.Policy) *bool { return &p.Lease.ClaimRefusalIgnored },
	mutant.HastyFailure:        func(p *policy.Policy) *bool { return &p.Dependency.HastyFailure },
	mutant.FirstLook:           func(p *policy.Policy) *bool { return &p.Dependency.FirstLook },
	mutant.AbsentIsDone:        func(p *policy.Policy) *bool { return &p.Dependency.AbsentIsDone },
	mutant.LateOutcome:         func(p *policy.Policy) *bool { return &p.Dependency.LateOutcome },
	mutant.ArchivedAll:         func(p *policy.Policy) *bool { return &p.Retention.ArchivedAll },
	mutant.JumpCollects:        func(p *policy.Policy) *bool { return &p.Retention.JumpCollects },
	mutant.FirstDues:           func(p *policy.Policy) *bool { return &p.Retention.FirstDues },
	mutant.RetentionStale:      func(p *policy.Policy) *bool { return &p.Retention.RetentionStale },
	mutant.WindowForgotten:     func(p *policy.Policy) *bool { return &p.Retention.WindowForgotten },
	mutant.KeyForgotten:        func(p *policy.Policy) *bool { return &p.Retention.KeyForgotten },
	mutant.FirstKeys:           func(p *policy.Policy) *bool { return &p.Retention.FirstKeys },
	mutant.SkippedAgreed:       func(p *policy.Policy) *bool { return &p.Retention.SkippedAgreed },
	mutant.ComparedLate:        func(p *policy.Policy) *bool { return &p.Retention.ComparedLate },
	mutant.MarkOfBefore:        func(p *policy.Policy) *bool { return &p.Retention.MarkOfBefore },
	mutant.PurgeByTime:         func(p *policy.Policy) *bool { return &p.Retention.PurgeByTime },
	mutant.GraveEarly:          func(p *policy.Policy) *bool { return &p.Retention.GraveEarly },
	mutant.OldTaken:            func(p *policy.Policy) *bool { return &p.Retention.OldTaken },
	mutant.HandedEarly:         func(p *policy.Policy) *bool { return &p.Transfer.HandedEarly },
	mutant.Unprobed:            func(p *policy.Policy) *bool { return &p.Transfer.Unprobed },
	mutant.LacksIgnored:        func(p *policy.Policy) *bool { return &p.Transfer.LacksIgnored },
	mutant.PausedGranted:       func(p *policy.Policy) *bool { return &p.Dispatch.PausedGranted },
	mutant.RepeatOfBefore:      func(p *policy.Policy) *bool { return &p.Dispatch.RepeatOfBefore },
	mutant.GrantedAgain:        func(p *policy.Policy) *bool { return &p.Dispatch.GrantedAgain },
	mutant.ScopeLost:           func(p *policy.Policy) *bool { return &p.Router.ScopeLost },
	mutant.EarlyAck:            func(p *policy.Policy) *bool { return &p.Replication.EarlyAck },
	mutant.RefusalIgnored:      func(p *policy.Policy) *bool { return &p.Replication.RefusalIgnored },
	mutant.LostRound:           func(p *policy.Policy) *bool { return &p.Replication.LostRound },
	mutant.OldSeries:           func(p *policy.Policy) *bool { return &p.Replication.OldSeries },
	mutant.OutsiderCounts:      func(p *policy.Policy) *bool { return &p.Replication.OutsiderCounts },
	mutant.FenceIgnored:        func(p *policy.Policy) *bool { return &p.Replication.FenceIgnored },
	mutant.TimeoutFailed:       func(p *policy.Policy) *bool { return &p.Replication.TimeoutFailed },
	mutant.WorkerPageEnd:       func(p *policy.Policy) *bool { return &p.Workers.WorkerPageEnd },
	mutant.NotPlacedAnew:       func(p *policy.Policy) *bool { return &p.Cron.NotPlacedAnew },
	mutant.RestoreLaunches:     func(p *policy.Policy) *bool { return &p.Cron.RestoreLaunches },
	mutant.LaunchAtNow:         func(p *policy.Policy) *bool { return &p.Cron.LaunchAtNow },
	mutant.DoubtFinal:          func(p *policy.Policy) *bool { return &p.Cron.DoubtFinal },
	mutant.PageEnd:             func(p *policy.Policy) *bool { return &p.Query.PageEnd },
	mutant.PageToLast:          func(p *policy.Policy) *bool { return &p.Query.PageToLast },
	mutant.QueuePageEnd:        func(p *policy.Policy) *bool { return &p.Query.QueuePageEnd },
	mutant.LargePage:           func(p *policy.Policy) *bool { return &p.Query.LargePage },
	mutant.KeyUnheard:          func(p *policy.Policy) *bool { return &p.UniqueKeys.KeyUnheard },
	mutant.KeyGivenTwice:       func(p *policy.Policy) *bool { return &p.UniqueKeys.KeyGivenTwice },
	mutant.WindowByStart:       func(p *policy.Policy) *bool { return &p.UniqueKeys.WindowByStart },
	mutant.ScopeText:           func(p *policy.Policy) *bool { return &p.Scope.ScopeText },
	mutant.ClaimOfOthers:       func(p *policy.Policy) *bool { return &p.Lease.ClaimOfOthers },
}

// Of is the policy that makes a mistake: one rule is left out, or none where the mistake is
// not one of the machines.
func Of(m mutant.ID) (p policy.Policy) {
	if rule := rules[m]; rule != nil {
		*rule(&p) = true
	}
	return p
}

// Chosen is the policy of the mistake that this process makes.
func Chosen() policy.Policy { return Of(mutant.Chosen()) }

package hunt

import (
	"cmp"
	"slices"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/witness"
)

// Quarries gives every mistake, in their order, with where it shows, and with what it breaks by
// itself, and not only in what follows from it: the invariants that the design names for it, or
// those of the protocol behind them, which the witness sees sooner; or the test of the very rule.
// A panic (check.Internal) finds nothing, because none of them is a program that falls.
func Quarries() []Quarry {
	all := slices.Concat(core(), pages(), times(), orders(), rounds(), workers())
	slices.SortFunc(all, func(a, b Quarry) int { return cmp.Compare(a.Mistake, b.Mistake) })
	return all
}

// core are those of the protocol's own proofs.
func core() []Quarry {
	return []Quarry{
		on(OneNode, mutant.AckBeforeSync, check.Lost, check.Undone), // an end that is gone as well
		on(Clusters, mutant.PromiseInMemory, witness.Promise),
		on(Clusters, mutant.UnpromisedVotes, witness.Vote),
		on(Clusters, mutant.NoOldMajority, witness.Vote),
		on(Clusters, mutant.NoPush, check.Leader),
		on(Clusters, mutant.GrantBeforeCAS, check.Token), // of two candidates for one epoch
		on(Clusters, mutant.CASIfGreater, check.Register),
		on(Clusters, mutant.EagerZombie, check.Lost),
		on(Clusters, mutant.UngatedClaims, check.Overlap),
		on(Clusters, mutant.PlannedCohort, witness.Majority),
		on(Clusters, mutant.UnpromisedGrant, witness.Promise),
		by("node/core", "TestACopyOutsideOfTheCohortDoesNotCount", mutant.OutsiderCounts),
		on(OneNode, mutant.DeadlineReceipt, check.Overlap),
		on(Clusters, mutant.UnfencedRenewal, witness.Majority),
		on(Clusters, mutant.NoHandOver, check.Lost, check.Undone, check.Leader), // the facts of the old cohort are its ends, too
		on(Clusters, mutant.PurgeByTime, check.Collected),
		on(Clusters, mutant.LargerWins, check.Lost, check.Undone, run.Convergence), // what is not taken over is gone, before anybody compares
		on(Clusters, mutant.LocalHash, run.Audit),
		on(Schedules, mutant.LaunchAtNow, check.CronDoubled),
		on(FailingDisk, mutant.FsyncRetried, check.Lost),
		on(Clusters, mutant.TimeoutFailed, check.Honesty),
		on(OneNode, mutant.AbsentIsDone, check.Dependency),
		on(OneNode, mutant.GapShown, check.Contiguous),
		on(Clusters, mutant.StaleLeader, witness.Majority),
	}
}

// pages are mistakes about answers in pages, and more of everything than one batch.
func pages() []Quarry {
	return []Quarry{
		on(Crowds, mutant.PageEnd, run.Pages),
		by("node/core", "TestPagesOfTasksLoseNone", mutant.PageToLast),
		by("node/core", "TestPagesOfSeveralNodesJoin", mutant.QueuePageEnd),
		by("node/core/workers", "TestPagesOfSeveralNodesJoin", mutant.WorkerPageEnd),
		by("node/core", "TestAPageThatIsFullByItsBytesIsNotTheLast", mutant.LargePage),
		by("vnode", "TestALogIsReadInPages", mutant.LogPage),
		on(Crowds, mutant.FirstLook, check.Stuck),
		on(Crowds, mutant.FirstDues, check.Collected),
		on(Crowds, mutant.FirstKeys, check.Collected),
		on(Crowds, mutant.FirstClaims, check.Lost, check.Leader),
		by("node/core", "TestWhatNoArchiveHasStays", mutant.ArchivedAll),
	}
}

// times are mistakes about long times, clocks that jump, and a disk that fails.
func times() []Quarry {
	return []Quarry{
		by("node/core/retention", "TestTheTombstoneOfAKeyStaysForItsWindow", mutant.WindowForgotten),
		by("node/core", "TestAWindowLongerThanTheGraceIsOpenToItsEnd", mutant.WindowByStart),
		by("node/core", "TestAKeyIsRememberedWhileItsTaskIsThere", mutant.KeyForgotten),
		by("schedule/policy", "TestTheClockComesBack", mutant.NoRewind),
		by("schedule/policy", "TestTheClockComesBack", mutant.NoBars),
		by("node/core/cron", "TestClockJumps", mutant.NotPlacedAnew),
		by("node/core/retention", "TestNothingIsCollectedByAClockThatJumps", mutant.JumpCollects),
		by("clock", "TestLapsed", mutant.WallEnds),
		by("clock", "TestLapsed", mutant.WallAlone),
		by("clock", "TestLapsed", mutant.SetAhead),
		by("clock", "TestRenew", mutant.ElapsedKept),
		by("claim", "TestShortRenewalKeepsTheLongerLease", mutant.RenewShortens),
		by("node/core", "TestALeaderWhoseClockWasSetRenewsNothing", mutant.StepUnseen),
		on(FailingDisk, mutant.CommitUnsure, check.Lost),
		on(FailingDisk, mutant.TableUnsure, check.Lost),
		by("store", "TestNoTableIsAheadOfTheLog", mutant.TableBeforeLog),
		by("store", "TestBulkCutAnywhere", mutant.TablesHidden),
		by("store", "TestCrashUnderLoad", mutant.BatchesSwapped),
		by("wal", "TestARecordOfAnotherHistory", mutant.ChainSkipped),
		by("store", "TestCrashUnderLoad", mutant.ReplayPartial),
		by("store", "TestOneWriteSurvivesAPowerFailure", mutant.PromiseUnlogged),
		by("wal", "TestPowerFailsAtEveryStep", mutant.TailTooFar),
		by("store", "TestThePlaceHasWhatWaited", mutant.PlaceAlone),
		by("store", "TestWhatIsSoonDeletedLeavesNothing", mutant.DeleteKept),
		by("vnode", "TestACompletionThatSaysLessLeavesTheRecord", mutant.RunUnsaid),
		by("register/raftnode", "TestGroupKeepsTheContract", mutant.RegisterUnsynced),
		by("archive", "TestPowerFailureAtEveryStep", mutant.ArchiveUnsynced),
		by("archive", "TestEveryFailure", mutant.ArchiveUnnamed),
		by("archive", "TestEveryFailure", mutant.ManifestKept),
	}
}

// orders are mistakes about orders that are rare.
func orders() []Quarry {
	return []Quarry{
		by("vnode", "TestOfTwoClaimsTheOlderOneHoldsToo", mutant.NewestOnly),
		by("vnode", "TestALapseLeavesTheOtherClaimItsAttempt", mutant.DeadTooSoon),
		by("vnode", "TestRequeueEndsOlderClaims", mutant.RetryNamesLast),
		by("crdt", "TestStateOf", mutant.RetryCountsLast),
		by("node/core", "TestRetentionChangedWhileAnArchiveIsWritten", mutant.RetentionStale),
		by("vnode", "TestReleaseBeforeItsGrant", mutant.ReleaseUnnoted),
		by("vnode", "TestAClaimThatAFactSaysIsOverIsNotTaken", mutant.ExpiredAtOnce),
		by("vnode", "TestAClaimCountsFromTheTakeover", mutant.TakeoverUncounted),
		by("node/core", "TestAPausedLeaderExpiresNoClaim", mutant.SoleUnasked),
		by("node/core", "TestADoubtfulFailureCancelsNothing", mutant.HastyFailure),
		by("node/core", "TestALateWordOfAFailure", mutant.LateOutcome),
		by("node/core", "TestAKeyThatIsGivenLate", mutant.KeyGivenTwice),
		by("node/core", "TestALeaderThatHasNotHeardOfAKeysTask", mutant.KeyUnheard),
		by("node/core", "TestAComparisonIsAsOldAsWhoBeganItSays", mutant.ComparedLate),
		by("node/core", "TestWhatAComparisonProves", mutant.MarkOfBefore),
		by("node/core", "TestWhatIsNoAgreement", mutant.SkippedAgreed),
		by("vnode", "TestATombstoneEndsClaims", mutant.GraveOpened),
		by("vnode", "TestATombstoneTakesNoAcknowledgedEndBack", mutant.StoneUnraised),
		by("crdt", "TestStateOf", mutant.FutureEnd),
		by("crdt", "TestStateOf", mutant.CancelWins),
		by("vnode", "TestTheSameOneStaysInAnyOrder", mutant.FirstStays),
		by("crdt", "TestCompletionWinsAndSticks", mutant.LastCompletion),
		by("vnode", "TestASuspendedClaimCountsFromTheTakeover", mutant.Unsuspended),
		by("node/core/retention", "TestTombstonesStayForSomeEtasMore", mutant.GraveEarly),
		by("node/core", "TestOldFactsKeepNobodyOut", mutant.OldTaken),
		by("node/core", "TestTheOnlyOneLeftRepeatsNoClaimOfALeaderBeforeIt", mutant.RepeatOfBefore),
	}
}

// rounds are mistakes about what nodes say to each other: rounds, votes, marks, moves.
func rounds() []Quarry {
	return []Quarry{
		on(Clusters, mutant.EarlyAck, check.Lost),
		by("node/core", "TestARefusalIsNoAck", mutant.RefusalIgnored),
		by("node/core", "TestARefusedClaimIsNotOnAMajority", mutant.ClaimRefusalIgnored),
		on(Clusters, mutant.LostRound, check.Lost),
		by("node/core", "TestAckOfAnotherLifeCountsNothing", mutant.OldSeries),
		by("node/core", "TestRoundsOfAnotherLifeMatchNothing", mutant.OldGrants),
		by("election", "TestLawsOfTheAcceptor", mutant.SameEpoch),
		by("election", "TestLawsOfTheAcceptor", mutant.StaleBallot),
		by("election", "TestLawsOfTheAcceptor", mutant.ProposalLost),
		by("node/core", "TestAZombieKeepsWhatItPromised", mutant.ForgetAnyway),
		by("election", "TestScripts", mutant.WonByEpoch),
		by("node/core", "TestAnAckWaitsForTheCohortThatWasVotedFor", mutant.FenceIgnored),
		by("node/core/leadership", "TestAHandOverCountsNoComparisonThatLeftSomething", mutant.OneVoterPulled),
		by("node/core", "TestADiskThatWasSetBackIsNoticed", mutant.MarksUnsaved),
		by("node/core", "TestANodeVotesWhenAMajorityHasTold", mutant.TrustsAlways),
		by("node/core", "TestAHintIsHandedOverBeforeItsPartitionGoes", mutant.HandedEarly),
		by("node/core", "TestACohortIsAskedBeforeAPartitionGoes", mutant.Unprobed),
		by("node/core", "TestWhatCameLateIsComparedToo", mutant.LacksIgnored),
		by("node/core", "TestTheCopyOfAForgetfulNodeDoesNotCount", mutant.CountsForgotten),
		by("node/core", "TestOneMemberEndsNoDisk", mutant.OneWord),
		by("placement", "TestCopiesAndProgress", mutant.CopiedEarly),
		by("register/group", "TestLinearizable", mutant.TermForgotten),
		by("crdt", "TestEveryFlippedBitOfAFactIsSeen", mutant.SumUnchecked),
	}
}

// workers are mistakes about sessions of workers, schedules and the order of tasks.
func workers() []Quarry {
	return []Quarry{
		by("session", "TestHealth", mutant.Reborn),
		by("session", "TestMutants", mutant.OldDispatcher),
		by("session", "TestMutants", mutant.NoBar),
		by("session", "TestScripts", mutant.Unlisted),
		by("session", "TestARepeatedHeartbeatCountsNothing", mutant.OldBeat),
		by("session", "TestMutants", mutant.NoMargin),
		by("session", "TestCells", mutant.EarlierWins),
		by("session", "TestScripts", mutant.EarlyEndLost),
		by("schedule/policy", "TestRivalMasters", mutant.OpenForgotten),
		by("node/core/cron", "TestARestoreLaunchesNothingAgain", mutant.RestoreLaunches),
		by("node/core/cron", "TestARefusalOfWhatIsThere", mutant.DoubtFinal),
		by("register", "TestApply", mutant.MasterUnfenced),
		by("claim", "TestHeadIsTheBeginningOfTheIndex", mutant.HeadBeyond),
		by("node/core", "TestSameClaimRequestGetsTheSameGrants", mutant.GrantedAgain),
		by("node/core", "TestAPausedQueueHandsOutNothing", mutant.PausedGranted),
		by("clock", "TestWorkerStopsBeforeTheLeaseLapses", mutant.NoStopTime),
		by("node/guard", "TestEveryMethodNeedsAVerb", mutant.RouteUnjudged),
		by("node/guard", "TestRandomAgainstReference", mutant.TenantSibling),
		by("node/access", "TestATokenExpires", mutant.ExpiryReversed),
		by("node/core", "TestAScopeGoesAlong", mutant.ScopeLost),
		by("node/core", "TestWhatMayNotBeSeenIsNotThere", mutant.ScopeText),
		by("node/core", "TestAClaimIsItsPrincipals", mutant.ClaimOfOthers),
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

// Package settle answers the requests of those who hold claims: to renew, to add to a log, to complete,
// to fail and to give back.
//
// What it guarantees:
//
//  1. A claim is renewed, failed or given back by its principal and its session alone, and only
//     where a partition is led.
//  2. That a claim is lost is said only if it is certain that no other leader has renewed it.
//  3. A renewal and a release are answered once a majority has them.
//  4. A completion is taken by any node, whoever leads; the same request twice is one completion.
//
// Events in: requests. Events out: facts and claims in the round's transaction, proposals for
// package lease, replies.
//
// What stops which request; completions and updates are stored on any node that keeps the
// partition, the others need its leader:
//
//	request     lease over   nobody leads   another session    task unknown here
//	renew       CLAIM_LOST   try again      CLAIM_LOST         NOT_FOUND
//	fail        CLAIM_LOST   try again      CLAIM_LOST         NOT_FOUND
//	release     CLAIM_LOST   try again      CLAIM_LOST         NOT_FOUND
//	update      stored       stored         by principal       stored; NOT_FOUND of an old ID
//	complete    stored       stored         stored             stored; NOT_FOUND of an old ID
//
// Invariant: work that is done is not refused for what happened to its claim: a completion is
// stored with its token, and the join of facts decides what it counts for (design 6). The
// exceptions are a partition that is being deleted here, a task that may have been forgotten
// and one that was collected with another end.
package settle

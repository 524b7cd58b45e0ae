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
package settle

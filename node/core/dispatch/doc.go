// Package dispatch brings ready tasks and those who ask for them together, here and at other
// leaders (design 7.3).
//
// Guarantees:
//
//  1. A claim request is answered once: with grants, with a refusal, or with nothing, and with
//     nothing only where that is so as far as the leaders in reach have said ([Machine.Claim]).
//  2. What is granted leaves only when a majority of each cohort holds it (an offer waits for its
//     proposals in package lease). What has not reached one is taken back, and its request goes on.
//  3. The same request again gets the same grants, for as long as one of their claims lives. It
//     never gets others beside them.
//  4. A request that its client has named as given up is granted nothing, on any node that has
//     heard of that, and what it was granted is free again ([Machine.GivenUp]).
//  5. Who waits is served in the order of arrival, where tasks may not be kept from it. A request
//     that was sent elsewhere in vain keeps its place.
//  6. The best task goes first, as far as what other leaders have is known: about [MaxLead] better
//     ones may be passed over, and none for longer than [MaxBehind].
//  7. Requests that wait are bounded in number, in bytes, and by connection: who has the most gives
//     one up for who has fewer ([Machine.RoomToWait]).
//
// In: claim requests ([Machine.Claim]), heads of queues and ends of claims from the vnodes
// ([Index.OnHead], [Index.OnEnd]), news of other leaders ([Machine.Heads]), withdrawals
// ([Machine.Cancel], [Machine.Gone], [Machine.Drain]), life of connections ([Machine.Hear]), time
// ([Machine.Serve], [Machine.Timeouts], [Machine.Ask], [Machine.Tell], [Machine.Due]). Out:
// proposals to package lease, requests to other leaders by package router, answers and messages in
// [round.Writer].
//
// What is known of other leaders is a hint: nothing but the order of grants depends on it.
package dispatch

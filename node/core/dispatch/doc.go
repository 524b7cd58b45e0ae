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
//
// How a claim request goes. [Machine.Claim] takes it in order through five gates: has its
// client given it up; was it granted something before (repeat); does anybody lead, and is there
// room for one more claim; is it known what the other leaders have (freshnessProbes). What
// passes is pursued: the best task of this node is granted, or the request goes to the leader
// with a better one, or it waits in the [Index]. A grant becomes an offer, which leaves once
// package lease has a majority for each of its claims. Whatever comes back without a task (a
// leader that had nothing, an offer without a majority) is pursued again, so there is one loop
// and each of its turns either answers, sends, or waits.
//
// Why the order is only approximate. A strict global order would cost a round trip to all
// leaders for each claim. Instead each leader tells the nodes that ask for a queue its best
// rank and a sample of the ranks behind it (head gossip), a node serves itself while it is not
// far ahead (power of the known head, not of a lock), and what that costs is measured:
// [RankErrors] counts how many better tasks were ready elsewhere when a task was granted. It is
// a relaxed priority queue (MultiQueues; Rihani, Sanders and Dementiev 2015), with the rank
// error as its measure.
//
// Invariant: nothing new is granted after [Machine.Drain]. A server that stops hands its
// leadership over at the same time, and a grant of that moment would wait for a majority that
// nobody counts any more.
//
// Invariant: a request that is on its way to another leader waits in no line here. Otherwise
// both places might grant it, and its worker would hold twice as many tasks as it asked for.
package dispatch

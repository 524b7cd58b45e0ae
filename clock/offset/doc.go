// Package offset measures how far the wall clocks of other nodes are from this
// node's, with bounds that hold, and judges from that whether this node may
// lead, vote and end leases early (design 7.3, Clocks; protocol (d)).
//
// Each heartbeat gives four times: sent and back on this node's clocks,
// received and answered on the peer's. Whatever the two ways took, the peer's
// clock then lies in an interval as wide as the round trip. A short window of
// samples is kept per peer, and the narrowest speaks; its interval grows with
// age by a declared drift and is forgotten after a while.
//
// Contract:
//
//  1. While the clocks' rates differ by no more than [Config.Drift] and the
//     peer's wall clock is not set, the interval of a peer contains its true
//     offset, however unequal the delays. A peer's clock that is set is noticed
//     at the first sample that contradicts the old ones, which then go; until
//     then the error is no more than that sample's own width.
//  2. A step of this node's own wall clock, or a suspension of its monotonic
//     one (not both at once, to the same amount) look alike. So samples from
//     before are widened at once by the step, to hold the truth either way;
//     the next exchange speaks instead.
//  3. [Peers.Judge] says OK only to a node whose clock is surely within eta/4
//     of those of a majority of the cohort, itself included if it is of it. So
//     two nodes that are both OK are within eta/2 of each other, a clock that
//     is off stops its own node and no other, and where only two nodes can
//     measure each other a disagreement stops both, which [Pair] reports.
//  4. Pure: it reads no clock. One goroutine at a time; a judgement allocates
//     nothing.
package offset

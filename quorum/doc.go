// Package quorum is the only place that counts votes and acks: what a majority
// is, and whether answers reach one in several cohorts at once.
//
// Contract: two majorities of one cohort always share a member. Answers of
// members that are in no cohort never count, and no member counts twice,
// however often it answers or is listed. What a tally says depends on the
// answers only, not on their order.
package quorum

// Package attention says what of a cluster needs somebody: the list that the dashboard's
// overview, `norn status` and GET /api/v1/attention show.
//
// [Look] asks the cluster for its parts as whoever wants to know, so that nobody is told of
// what they may not see; [Concerns] judges them and does nothing else. Each concern has one
// function here, a sentence with names and numbers, what to do about it, and a link.
//
// It is bounded: 10,000 queues, schedules and workers each are looked at, and of one kind the
// 50 worst concerns are told, with how many more there are.
//
// How severities are meant: critical is what takes something away now (no leader, no majority,
// a node or a disk that is down), warning is what will, or what has failed for somebody, and a
// note is what can wait for a day.
package attention

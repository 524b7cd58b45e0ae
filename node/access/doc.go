// Package access is where those who come to a node show who they are, and where what they ask
// for is judged and written down.
//
// Contract. A port gives a [Desk] what somebody shows, once for each connection or request over
// HTTP, and gets a [Caller]. Each request of a caller is judged by [Desk.Check], which asks
// package guard and tells the [Audit]. The audit writes lines of JSON, one after the other:
// always what changes settings, schedules, workers, members or rights, and what was refused;
// of refusals at most one a second for each principal and verb, with how many it stands for.
// It never holds payloads or secrets.
package access

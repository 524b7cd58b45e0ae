// Package access is where those who come to a node show who they are, and where what they ask
// for is judged and written down.
//
// Contract. A port gives a [Desk] what somebody shows, once for each connection or request over
// HTTP, and gets a [Caller]. Each request of a caller is judged by [Desk.Check], which asks
// package guard and tells the [Audit]. The audit writes lines of JSON, one after the other:
// always what changes settings, schedules, workers, members or rights, and what was refused;
// of refusals at most one a second for each principal and verb, with how many it stands for.
// It never holds payloads or secrets.
//
// How a request is judged. The desk keeps one immutable book of roles, tokens, maps and
// tenants, read from the register's state and swapped as a whole (copy on write), so a check
// takes one atomic load and no lock. A [Caller] says how it has proven who it is; what that
// allows is looked up anew with each request, because rights change while connections are open.
// [Desk.Changed] and [Desk.Still] end what waits and was begun with rights that are gone.
//
// Where the rights live. The register has them: one key per role, token, map and tenant,
// changed by compare and swap ([Desk.Do]). A node that is cut off goes on with what it knows,
// for auth-max-stale at most. Tokens are stored as SHA-256 of 256 random bits: there is nothing
// to guess, so no slow hash is needed, as passwords do.
//
// Invariant: a desk's book only gets newer, by generation and revision of the register's state.
// An older one would bring revoked tokens back ([Desk.Learn]).
//
// Invariant: whoever shows something that is wrong learns only that it is wrong; the reason is
// told to who has the secret, or whose token the issuer has signed ([Desk.Enter]).
package access

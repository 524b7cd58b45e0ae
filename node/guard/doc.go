// Package guard decides who may do what.
//
// Contract. A [Principal] is who sends requests on a connection, or one over HTTP: it has rules,
// each some verbs on a pattern of queue names. [Check] stands before everything that admits a
// request, on every port: it refuses the request, or gives the [Scope] that goes along with it
// where the request itself does not name every queue that it is about. Each method needs
// exactly one verb. A check makes no round trip, and allocates nothing when it lets a request
// pass.
//
// Two steps, because a request may name tasks and not queues. [Check] judges the method by its
// verb and the names that are in the request. Where the request names tasks only, its [Scope]
// goes along to whoever keeps them, and each task is judged there by its queue; a task that the
// scope does not show is answered like one that is not there, so that nobody learns which IDs
// exist.
//
// Tenants. A tenant is a prefix of queue names that ends with a slash. It is checked before the
// rules, so that no rule reaches out of it, and verbs on the cluster and on rights do not exist
// for its principals.
//
// Invariant: each method of the client port has exactly one row in methods, and what has none
// is refused (TestEveryMethodNeedsAVerb; mutant RouteUnjudged).
//
// Invariant: a name within one tenant's prefix is never within another's: prefixes end with a
// slash and have no other (TestRandomAgainstReference; mutant TenantSibling).
package guard

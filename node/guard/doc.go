// Package guard decides who may do what.
//
// Contract. A [Principal] is who sends requests on a connection, or one over HTTP: it has rules,
// each some verbs on a pattern of queue names. [Check] stands before everything that admits a
// request, on every port: it refuses the request, or gives the [Scope] that goes along with it
// where the request itself does not name every queue that it is about. Each method needs
// exactly one verb. A check makes no round trip, and allocates nothing when it lets a request
// pass.
package guard

// Package serve runs a node in a process: its ports, its credentials, its log,
// and its end.
//
// Contract. [Run] returns when everything it started has ended. It logs
// server.ready with the addresses once the node takes enqueues and hands out
// claims, server.stopping when it is told to stop, and server.stopped. The first
// stop is graceful: answers on their way are delivered; the second cuts
// connections. Either way what was acknowledged is on disk; only when the
// cluster is destroyed the node stops by itself and its data is deleted.
package serve

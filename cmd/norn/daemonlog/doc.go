// Package daemonlog is what a daemon writes its log to: whatever becomes of those who
// read it, the daemon goes on.
//
// Contract. A write never fails and takes no longer than [Patience]. What could not be
// written is counted, and told of once the log takes lines again.
package daemonlog

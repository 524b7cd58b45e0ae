// Package mutants are simulated nodes that are wrong on purpose, by hooks around a core that is
// right: each breaks one promise now and then, and must be found out by what it breaks. A checker
// that never failed proves nothing.
//
// node has those of runs of one node, cluster those of clusters, schedules those of clusters that
// launch schedules. Mistakes inside the core are another thing: internal/mutant, jepsen/hunt.
package mutants

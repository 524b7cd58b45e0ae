// Package witness sees what the nodes of a simulated cluster send and have on their disks, and holds it to
// the invariants of the protocol while clients work: it says at once what clients would notice only with much
// bad luck.
//
// Contract. It changes nothing, of a node or of the cluster, and draws nothing at random: a run with it is the
// run without it. What it sees it is told in the order in which it happens ([Witness.Said], [Witness.Formed],
// [Witness.Changed], …); the rest it reads through [Fleet] and [Node] at that moment.
package witness

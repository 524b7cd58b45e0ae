// Package sim runs whole node cores in one goroutine, with virtual clocks,
// disks and networks, from one seed: the same seed and build give the same
// history, event by event.
//
// A run is a storm and a calm. In the storm clients enqueue, claim, complete,
// cancel and read, while the network delays, cuts and repeats, the disk is
// slow or nearly full, clocks drift and step, machines of clusters are suspended, and the node is killed at any
// point between two steps of its contract (package node/core). Which faults
// there are, and how many, is drawn per seed. Then everything heals: what can be
// finished must be finished soon, and read back.
//
// What clients see goes into a history (package jepsen/history), which package
// jepsen/check holds to the promises. Beside that the simulator looks into the
// node, as no client can: indexes and counters must follow from the facts, no
// request may wait while there is work for it, and each is answered once.
//
// [Run] runs one node. [Cluster] runs three to nine whole nodes, each with its
// member of the register's group: they join, crash, are split, lose disks, find
// them older or rotten, leave and are removed. In the end the cluster has to
// come to rest: full cohorts, equal replicas, every acknowledged task on all of
// them, nobody else with data, the same answers everywhere. Claims are exclusive
// all the time, whoever leads (check.Options.Elected), and the whole history is
// judged once more by a check.Ledger, with the order of grants in the lull before
// the storm, and what each new leader knew when it asked to lead. Some workers claim, some have
// a session at a node that hands them tasks: two of those share a name, which one of them has at
// a time, and all have a session when the storm is over. A run without an election, an expiry, a
// renewal, a repair, a movement, a crash, a session that changed its node with
// tasks and, where finished tasks are deleted, a collection is invalid: it counts as
// neither passed nor failed.
//
// Where what is: package run has what all share, plan what a seed draws, world time and chance,
// disk the disks; nodes has nodes and clusters, clients who uses them, faults what goes wrong,
// checks how a cluster comes to rest and what it is held to, witness who sees every message and
// every disk, mutants the nodes that are wrong on purpose. Here are the kinds of runs: sim (one
// node), cluster, cron (schedules), crowd (hundreds of everything in one partition), many (seeds
// side by side), and the report of a failure.
package sim

// Package lab runs real norn programs on one machine, does to them what happens
// to machines, and judges what clients saw.
//
// Where what is: what clients do in workloads, what happens to the cluster in faults,
// the nodes and their processes in cluster, links in network, disks in storage, the
// history in record, what is thought of a run in verdict. This package puts one run
// together.
//
// Contract:
//
//   - [Run] is one run: a cluster is started, clients work on it through package
//     client while faults come and go by a seed, everything is healed, and the
//     cluster must come to rest: whole, all replicas equal, every acknowledged
//     task on the disks of all of them, the same answers through every node.
//   - One process drives all clients and writes down one history with one
//     monotonic clock (package jepsen/history), judged by package jepsen/check.
//     The seed decides which faults come, in which order and for how long; what
//     the programs do meanwhile differs from run to run.
//   - A node runs in a network namespace of its own with its own address, and
//     links are cut by packet filters, where this process may do that; else it
//     runs on loopback behind a proxy that every link goes through, TCP and UDP.
//     What a machine or a build does not allow is reported as not run, with the
//     reason, never as passed ([machine.NotRun]).
//   - A run in which too little happened is invalid, not passed.
//   - A run is bounded in time. It ends the processes that it started, by their
//     IDs, and removes its namespaces, links and mounts; what a killed run has
//     left behind is removed by the next one. Their names carry the ID of the
//     process that made them.
package lab

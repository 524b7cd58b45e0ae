// Package nodes is a simulated node, or a cluster of them, on virtual disks and networks: whole
// cores (package node/core), driven step by step as package node drives them.
//
//   - node, loop: a process that comes and goes over a disk that stays, and the loop that keeps
//     the core's contract: step, apply, sync, send. It crashes between any two of them.
//   - member: the node's part in the register's group. register: what the register says, as
//     nodes hear of it.
//   - fleet: a cluster; nodes join it. wire: what nodes send to each other gets lost, comes twice
//     or late. hints: whom a node takes to be alive.
//   - system, net: the connections of clients. answers: replies, reads and archives.
//   - config makes the core; mutant has the hooks of nodes that are wrong on purpose.
//   - inspect looks into a node as no client can: indexes and counters follow from the facts, each
//     request is answered once, and no claim waits beside a ready task. seen is a cluster as package
//     witness sees it.
//
// What goes wrong hears of nodes by the interface [Harm]; clients are a [Client]. The package
// knows neither.
package nodes

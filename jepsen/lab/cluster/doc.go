// Package cluster runs the nodes of a laboratory: real norn processes that are started,
// killed, paused and stopped, their network, disks and certificates, and the questions
// whether the cluster is whole and all replicas are equal.
//
//   - [Lab] is one run: what all its parts share. [Lab.Close] ends the processes that it
//     started, by their IDs, and removes what it has made.
//   - [Lab.Found] notes what is wrong; after somebody has ended the run nothing is.
//   - [Strain] and [Probe] keep a busy machine from being taken for a fault of a node:
//     time in which the machine had no processor or disk for it does not count.
package cluster

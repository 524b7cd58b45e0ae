// Package faults makes simulated nodes fail: it is the storm of a run.
//
//   - alone: at one node: crashes, cut connections, a clock that is set, a disk that is nearly full.
//   - storm: in a cluster: crashes, splits and slow links of the network, clocks that are set
//     wrong, machines that are suspended, and the end of all that (Heal).
//   - losses: nodes lose their disks, or their disks are set back to an older state, or rot. Never more is lost than
//     a cluster promises to survive.
//   - comings: nodes that join, leave and are removed, and changes of the number of replicas.
//   - lies: one node says what is not so.
//
// How much goes wrong is drawn by package plan.
package faults

// Package status tells what a node can do for clients, what it knows of the cluster, and how far it is
// with copies that were planned for it.
//
// What it guarantees:
//
//  1. A status is answered without a majority: what other nodes do not say stays as it looks from
//     here ([Machine.Gather]).
//  2. [Available] is made anew whenever something of it may have changed, and only then.
//  3. A node is filled once it has every copy that was planned when it began, and the register
//     needs nothing of it either; what is planned later takes nothing back.
//
// Events in: requests for the status. Events out: replies. Nothing here writes.
package status

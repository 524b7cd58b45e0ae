// Package plan is what a seed draws before its simulation begins: the shape of the
// cluster, what clients do, and how much goes wrong of what (network, disk, crashes,
// clocks, partitions, lost disks, members that come and go).
//
// Every kind of trouble is absent in some seeds, so that none hides what another one
// would show. What is derived from a number that was drawn for something else leaves
// the other seeds what they were.
package plan

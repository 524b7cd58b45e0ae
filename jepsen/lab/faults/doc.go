// Package faults is what happens to the clusters of a laboratory: the list is [Faults],
// numbered as in the fault matrix of the design.
//
//   - Processes are killed, paused and restarted (faults.go, leaders.go, pairs.go),
//     links cut and shaped (cuts.go, shapes.go), disks emptied, damaged, full, rotten
//     and lying (damage.go, volumes.go, rot.go, lies.go), clocks set (clocks.go,
//     leaps.go), members and voters changed (membership.go, resizes.go, voters.go,
//     registers.go), strangers and intruders let loose, certificates replaced, builds
//     upgraded.
//   - The nemesis draws which faults come by the seed, and takes each back: after it the
//     cluster must become whole, and serve.
//   - A fault that had no effect makes the run prove nothing: it is noted.
package faults

// Package demo is the guided tour behind `norn demo`: Norn's main job on real
// input, on three nodes, with a worker and a node that are killed in the middle,
// checked against a direct walk over the same files.
//
// Contract.
//
//   - Nodes and workers are child processes of this very program, on loopback and
//     in a temporary directory. They end with the demo, whatever ends it.
//   - The numbers of the [Verdict] come from what the nodes stored, from a log
//     that every execution writes a line to, and from a walk that asks no one.
//   - A number that does not match is an error that names it.
package demo

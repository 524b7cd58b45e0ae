// Package snapshots keeps copies of the register in a second place, and finds
// the one that a cluster begins anew from when all its nodes are lost (design
// 10).
//
// A snapshot is one object:
//
//	norn-register-snapshot 1 LF   the format
//	HEADER LF                     one line of JSON: see Header
//	STATE                         the register, zstd over register.AppendState
//	CHECKSUM                      32 bytes, SHA-256 over all before
//
// under the name norn-CLUSTER-gGENERATION-rREVISION-TIME.snapshot, so that names
// in order are snapshots in order: a restored cluster is of a later generation
// than the one that was lost.
//
// Contract.
//
//   - A snapshot counts once it was read back as it was written ([Save]). Older
//     ones are deleted only after that, and only those of the same cluster.
//   - [Latest] takes the newest that is whole, and says which newer ones are not.
//   - No two lives of a cluster have the same generation: whoever restores takes
//     one by creating norn-CLUSTER-gGENERATION.restored, which is never deleted
//     ([Begin]). So a second restore from the same place, at the same time or later,
//     is another generation, and none takes another for its own.
package snapshots

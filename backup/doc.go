// Package backup is the form of a backup of tasks: its parts, its manifest, and the
// pages in which nodes give what they hold.
//
// # Contract
//
//  1. A backup counts when its manifest is there; the manifest is written last. What
//     an interrupted backup leaves has no manifest and is no backup.
//  2. Each byte of a part is under the part's checksum, and each part under the
//     manifest, by name, place and checksum; so is the manifest under its own. A part
//     that is cut short, changed, of another backup or at another place is refused with
//     ErrDamaged and the place, one of a newer format with ErrNewer.
//  3. Of a partition a backup holds the union of what a majority of its cohort held
//     ([Union]): what was acknowledged by a majority before the first page was read is
//     in it.
//  4. Facts and claims are kept as they are: IDs, attempts and logs are those of the
//     cluster. The sum over all facts does not depend on partitions, so that a
//     cluster of another shape has the same one.
//
// The package is pure: it turns values into bytes and back.
//
// # Format 1
//
// A backup is some objects in one place, whose names begin with its name:
//
//	norn-CLUSTER-gGENERATION-YYYYMMDDThhmmssZ.tasks             the manifest
//	norn-CLUSTER-gGENERATION-YYYYMMDDThhmmssZ.pPPPP-NNNNN-TAKER.part  a part of partition PPPP
//	norn-CLUSTER-gGENERATION-rREVISION-TIME.snapshot            the register (package snapshots)
//
// A part is
//
//	norn-tasks-part 1 zstd LF       or zstd+age, when it is encrypted
//	BODY                            Zstandard (RFC 8878), inside of age (age-encryption.org/v1)
//	CHECKSUM                        32 bytes, SHA-256 over all before
//
// and its body, unpacked, a line of JSON that says of which backup, partition and
// number it is, and then tasks, ascending by ID:
//
//	20 bytes   ID
//	varint     number of facts, and for each, ascending by key:
//	             kind (1 byte), two numbers of the key (varints), length of the body (varint),
//	             the body (package crdt), its CRC32C (4 bytes, big endian; 0: none)
//	varint     number of claims that were held, and for each:
//	             token (varint), end in ns since 1970 (varint), length and name of the worker
//
// An incremental backup has the tasks of the ranges that changed since the one before it, as
// they are now, and of tasks in the other ranges the claims that are held: such a task has no
// facts. What counts of a task is the last backup of the chain whose changed spans have its ID.
//
// While a backup is taken there are a note that it has begun, NAME.begun, and notes of the partitions that are
// done, NAME.pPPPP-TAKER.done: manifests, of one partition each, one behind the other.
//
// Varints are those of protobuf. A task is whole in one part. A part has about
// [PartBytes] unpacked, and more only where one task has more.
//
// The manifest is
//
//	norn-tasks-manifest 1 LF
//	MANIFEST LF                     one line of JSON: see [Manifest]
//	CHECKSUM LF                     SHA-256 over all before, hexadecimal
package backup

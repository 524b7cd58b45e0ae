// Package wal is a log of records on a disk: what a node has written since its last
// checkpoint. A record is on the disk before [Log.Write] returns.
//
// # Contract
//
//  1. Write adds one record with one write and one sync, and returns when it is durable.
//     Records are numbered 1, 2, 3 … and never skipped. One call is in flight at a time:
//     whoever has more to write meanwhile gathers it into the next record.
//  2. After a crash [Open] gives every record whose Write has returned, in order, each whole,
//     from the place of the caller's checkpoint on. The record of a Write that had not
//     returned is there whole or not at all; if it is there it is synced before Open returns.
//  3. A torn tail is cut. Damage is not: a record that does not match its checksum, with a
//     later record of this log anywhere on the disk, is [ErrDamaged] with its place, and so is
//     a segment that is missing before another one. Nothing is given then. The last record
//     cannot be told from a torn write and is cut, and the last segment may be lost with its
//     file: other nodes know how far this one's disk was.
//  4. A failed write or sync is final: every later call returns the same error, and the
//     caller ends the process. What the disk has is unknown then. A disk without room for
//     another segment is not such a failure: nothing was written ([ErrFull]), and the next
//     call may succeed.
//  5. [Log.Cut] gives up what lies before a place. Segments are used again, and none is ever
//     shrunk or grown: a sync writes no metadata of the file system.
//
// # Format
//
// The log is a directory of segments, files of a fixed size, written with zeros when they are
// made. Numbers are big-endian.
//
//	segment: "nornwal1" · series 8 · sequence 8 · number of its first record 8 ·
//	         sum of the record before 8 · sum of these 40 bytes 8 · records
//	record:  "nRec" · length 4 · series 8 · number 8 · sum of the record before 8 ·
//	         sum of these 32 bytes and the body 8 · body
//
// Sums are xxhash64, and 0 before the first record. The first record follows the head of its
// segment at once, within the same sector; each later one begins at a multiple of 512 bytes,
// so that no write touches a sector of an earlier record. A record has the sum of the one
// before it, so that the records of a log are a chain, and a sum of its own, so that a later
// record is recognized beyond a damaged one. The series is drawn at random when the log is
// made: what segments had in an earlier log is none of this one's, and no payload can look
// like a record.
//
// # Invariants
//
// Invariant: of all segments whose head is intact no two have one sequence, and those from
// the checkpoint's on follow each other without a gap.
//
// Invariant: a record with a higher number than the last one of the chain is nowhere on the
// disk. A segment that is used again holds lower ones only.
package wal

// Package archive keeps finished tasks after they were deleted: files that are
// read back in full before the caller may delete anything, in a format that
// other programs can read.
//
// # Contract
//
//  1. When [Writer.Write] returns nil, the tasks are durable in one data file,
//     the file was read back in full and compared, and its manifest is durable.
//     Only then may the caller delete the tasks.
//  2. When it returns an error, or the process dies in it, the tasks must be
//     taken to be in no archive and be archived again. An archive may therefore
//     hold a task twice (the manifest was written, the answer was not heard);
//     it never lacks one.
//  3. A data file counts only when its manifest is there. What else an
//     interrupted Write leaves is ignored by readers and removed by the next
//     Write of the same node of the same cluster.
//  4. Nothing here ever changes or removes a data file that has a manifest.
//  5. What is read is checked against the manifest. Tasks come while the file is
//     read, so they count only when the sequence ends without an error.
//
// Any number of nodes and clusters may share a directory: the names of their
// files differ. Of one node of one cluster there must be one Writer per
// directory, because it removes what it takes for its own leftovers; a node's
// lock on its data directory sees to that.
//
// What reading back shows: that the bytes that reached the file give these
// tasks again. On Linux the kernel is asked to forget the pages after the
// fsync, so that they come from the disk; it may not comply.
//
// # Format 1
//
// An archive is a directory. Files whose names are not of this form are not
// part of it:
//
//	norn-CLUSTER-NODE-TIME-SEQ.zst    data
//	norn-CLUSTER-NODE-TIME-SEQ.json   manifest
//	norn-CLUSTER-NODE-TIME-SEQ.json.tmp   a manifest that was not finished
//
// CLUSTER is the cluster's UUID as 32 lower-case hexadecimal digits without
// dashes. NODE is the node's name; bytes other than A-Z a-z 0-9 . _ and - are
// written as % and two upper-case hexadecimal digits, and if that is longer than
// 100 bytes, NODE is its first 80 bytes, ~ and the first 16 hexadecimal digits of
// the SHA-256 of the name. TIME is when it was written, in UTC, as
// yyyymmddThhmmss.nnnnnnnnn. SEQ is 0001 to 9999 and tells files of the same time
// apart. Names of one node sort by time.
//
// The data file is a Zstandard stream (RFC 8878), readable with a window of
// 8 MiB and without a dictionary. Uncompressed it is a sequence of records, one
// per task: the length of the record as an unsigned varint of protobuf in its
// shortest form, then a message norn.v1.Task (proto/norn/v1/task.proto) of that
// length. Nothing stands before, between or behind the records. A record has
// 1 to [MaxRecord] bytes and at most [MaxFields] fields; a file has 1 to
// [MaxTasks] records and at most [MaxBytes] uncompressed bytes, lengths included.
//
// The manifest is a JSON object in UTF-8 of at most 64 KiB; readers ignore
// members they do not know:
//
//	format            number   1; a reader refuses higher ones
//	cluster           string   UUID of the cluster, with dashes
//	node              string   name of the node, as it is
//	file              string   name of the data file
//	tasks             number   records in it
//	first_id          string   smallest ID (text form; the order of the texts)
//	last_id           string   largest ID
//	min_finished_at   string   smallest Task.finished_at, RFC 3339, UTC; absent when no task has one
//	max_finished_at   string   largest Task.finished_at, likewise
//	bytes             number   size of the data file
//	records_bytes     number   size of the uncompressed records, lengths included
//	sha256            string   SHA-256 of the data file, hexadecimal
//	records_sha256    string   SHA-256 of the uncompressed records, lengths included
//	created_at        string   TIME of the name, RFC 3339, UTC
//
// The order of writing is: data file, fsync of it, fsync of the directory,
// reading back, manifest under its temporary name, fsync of it, rename, fsync of
// the directory.
package archive

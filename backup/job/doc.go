// Package job takes backups of tasks from a running cluster, verifies them, and restores
// them, over the client port and any place of package objects.
//
// # Contract
//
//   - Memory is bounded: of each partition that is under way (at most sixteen) a page and the
//     largest task, of those with more than a page (at most four) two parts (backup.PartBytes); what reads a backup has two parts for
//     each processor, and a restore 8 MiB of tasks more for each, 8 MiB under way, or the largest task.
//   - What a majority holds alike, by the sums over runs of IDs, is read from one replica, and
//     compared with the sums; of the rest the union of a majority is read.
//   - A part counts when it was read back as it was written; the manifest comes last. A
//     backup that was interrupted goes on where it was with [Options.Resume]: what
//     partitions have is noted beside the parts when they are done, once a second.
//   - A restore may be repeated and interrupted: it joins facts, so that the second time
//     changes nothing.
package job

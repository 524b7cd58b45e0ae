// Package job takes backups of tasks from a running cluster, verifies them, and restores
// them, over the client port and any place of package objects.
//
// # Contract
//
//   - Memory is bounded: of each partition that is under way (at most four) a page, the
//     largest task, and two parts (backup.PartBytes); a restore has 16 MiB of tasks under
//     way, or the largest task.
//   - A part counts when it was read back as it was written; the manifest comes last. A
//     backup that was interrupted goes on where it was with [Options.Resume]: what a
//     partition has is noted beside the parts when it is done.
//   - A restore may be repeated and interrupted: it joins facts, so that the second time
//     changes nothing.
package job

// Package command runs a command for each task.
//
// Contract, the one of `norn work`. The payload is the command's standard input.
// Its environment is that of this process with, in addition,
//
//	NORN_TASK_ID          the task's ID
//	NORN_TOKEN            the fencing token of the claim
//	NORN_QUEUE            the task's queue
//	NORN_KIND, NORN_TAGS  its kind, and its tags one per line
//	NORN_ATTEMPT          1 for the first run
//	NORN_CHECKPOINT_FILE  a file with the last update of earlier claims, empty when
//	                      there is none; it is removed when the command has ended
//
// Each line of standard output becomes an update of the task, without its line feed. Lines
// over 64 KiB are split there. What comes while something is being written is written
// together; when 1,000 lines or 256 KiB are not durable yet the command is held up. All are
// durable before the task ends. Once the log of the task is full, the last 1,000 lines are
// kept, and the log says how many are missing before them.
// The last 4 KiB of standard error are kept for the error text.
//
// Exit status 0 completes the task, 75 (EX_TEMPFAIL) puts it off without using an
// attempt, anything else fails it with the end of standard error. When the
// handler's context ends first, the command's process group gets SIGTERM, and
// SIGKILL after the grace; what it exits with no longer counts. What it prints
// meanwhile is kept, unless the claim is lost. Processes that the command leaves
// behind in other groups are not touched.
//
// On Linux the kernel kills the command, though not its children, when this
// process is killed: nobody would end it when its claim does. A process that is
// frozen cannot end its commands; those of tasks whose claims lapse meanwhile run
// beside the next ones until it wakes. NORN_TOKEN tells them apart: hand it to
// what the command writes to.
//
// Only on Unix there are process groups; elsewhere the command alone is killed.
package command

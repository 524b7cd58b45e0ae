// Package outbox enqueues tasks inside a transaction of an SQL database: the
// task is there if and only if the transaction commits.
//
// A program writes tasks as rows of a table, in the transaction that writes its
// own data ([Outbox.Enqueue]). A [Relay] carries committed rows to Norn and
// deletes them. It runs inside that program, inside another, or as the command
// `norn outbox`; any number of them at once.
//
// Contract.
//
//   - A task's ID is made inside the transaction. A relay that dies between the
//     enqueue and the delete is followed by one that enqueues the same ID again:
//     the same task, once. How often a row is sent never matters.
//   - A transaction that is rolled back leaves no row and so no task.
//   - Rows are sent about in the order in which they were written, never exactly:
//     transactions commit in another order than they begin, relays work next to
//     each other, and what failed is tried again later.
//   - A row that the cluster refuses for good (see [Config.OnAside]) is set aside:
//     it stays in the table with the reason, out of the way of all others, until
//     someone decides ([Outbox.Retry], [Outbox.Rename], [Outbox.Discard]). Other
//     refusals are tried again with growing delays, for ever. While no node
//     answers, rows stay as they are.
//   - A cluster takes an ID for as long as it could remember it (gc-grace, seven
//     days unless configured): a relay that was away for longer finds rows that
//     may have been enqueued by a predecessor and be forgotten since. The cluster
//     refuses them, and they are set aside: only a person can know. The relay warns
//     from half of that time on.
//   - Neither this package nor anything it imports has a database driver: the
//     program brings the one it has. The SQL is the same for all drivers of a
//     database. [Outbox.Statement] serves programs that do not use database/sql.
//
// PostgreSQL and MySQL lock the rows of a batch (SKIP LOCKED) in a transaction
// that is open while they are sent, so that the rows of a relay that dies are
// free at once. SQLite, or any of them with [Config.Leases], pushes the rows'
// due time ahead instead and holds no transaction; there the rows of a relay
// that dies wait for a lease.
package outbox

// Command rivals puts Norn beside NATS JetStream on one machine, in one run, with
// the same work: three servers, three copies, payloads of 100 bytes, 64 producers and
// 16 workers, one task or a hundred at a time. It starts the servers of both itself, on
// loopback with fresh directories, one cluster at a time and in turns, so that an hour
// in which the machine is slow is slow for all of them, and prints medians and ratios.
//
// What is compared (docs/explanation/performance.md has the results):
//
//   - JetStream as it comes: a publish is acknowledged by a majority of the replicas,
//     and what they have is on disk within two minutes (sync_interval).
//   - JetStream with sync_interval: always. That is what Norn does without being asked.
//   - Norn as it comes, by `norn bench` and `norn dev`.
//
// A task is enqueued by a publish to a stream that deletes what is acknowledged, and claimed
// by one of the workers, which pull from one durable consumer; it is completed by an
// acknowledgement that is itself acknowledged. Each producer and each worker has a connection
// of its own, spread over the servers. A strict worker of either side holds no task in
// advance; else it claims ten at a time and completes them one by one.
//
// Processor time is that of the servers and of the load generator; Norn tells its own by
// `norn bench`, of JetStream it is read from /proc.
//
// With -access it measures what roles cost instead: Norn that asks nobody who it is beside Norn that
// holds each request to a role which allows the queues of the benchmark and no others. There is no
// JetStream then, and nats-server need not be there.
//
// It is a module of its own: nothing of Norn needs what it needs.
package main

// Package store is the contract between the machines and the disk: ordered
// keys, atomic batches, and a clear line between what is visible and what is
// durable.
//
//  1. Apply makes a batch visible at once, whole, after every batch before it.
//     It is not durable.
//  2. Sync returns when everything applied before the call is durable. After a
//     crash every batch applied before a Sync that returned is there, and of
//     those applied later a prefix, each whole or not at all.
//  3. A failure to write, to sync or to read is never an answer: the
//     implementation hands it to its fatal handler and does not return.
//     Damaged is not absent, unknown is not failed (design 11).
//
// [Overlay] collects the writes of many steps, visible to those steps, into one
// batch; it hashes and sorts nothing it does not need and allocates nothing
// once warm.
//
// A batch of much that lies in a row says so ([Batch.Bulk]): on a disk most of it
// then becomes tables that are taken in as they are, for a third of what it costs to
// log, flush and compact it. It is one write all the same.
//
// On a disk it is a log and an index: package wal makes batches durable, with one write and
// one sync for all that wait, and Pebble, without a log of its own, has them in order. After
// a crash the batches that no table has are applied again.
//
// [OpenPebble] is the store of a node: one writer applies, another goroutine
// syncs, any number read snapshots; package memstore is the twin of the
// simulator, with the same behaviour and a crash that can be placed anywhere.
// Package storetest holds both to this contract.
package store

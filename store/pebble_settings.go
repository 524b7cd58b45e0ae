package store

import (
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
)

// Sizes that fit one node with any backlog into 150 MiB.
const (
	// DefaultCache holds the blocks that were read last, in bytes. What is
	// claimed was mostly enqueued a moment ago or lies in a row on disk, so
	// little is gained beyond.
	DefaultCache = 16 << 20
	// DefaultMemTable is the size of one memtable in bytes. Larger ones write
	// less to disk, because short-lived keys die in them.
	DefaultMemTable = 16 << 20
	// DefaultFiles is how many files are open at once. Further tables are opened
	// when they are read, in the place of others.
	DefaultFiles = 1000
	// DefaultSlowAfter is when a write or sync counts as slow.
	DefaultSlowAfter = 5 * time.Second
)

// Of a small volume memtables, tables and the first level are a part only: a compaction
// writes anew beside what it replaces, and must find room for it in what enqueues leave
// free (disk-reserve).
const (
	pieces     = 256
	leastPiece = 64 << 10 // bytes
)

// format is the version of Pebble's files. It goes up only, and only in a
// release after the one that can first read the new version, so that an
// upgrade can be taken back.
const format = pebble.FormatValueSeparation

const (
	// tableSize is how large a table becomes, in bytes. A memtable becomes one table, not
	// seven by key.
	tableSize = 16 << 20
	// tombstoneDense is the share of a table's blocks that are mostly tombstones from which on it is
	// compacted for that reason alone. At Pebble's 0.1 each flush under load was followed by a compaction
	// to the last level, for what claims and ready tasks leave behind; at 0.5 by one where finished
	// tasks are collected too. Walks begin behind what is deleted, or see one partition's share of it.
	tombstoneDense = 0.9
)

// memTables is how many there may be: one fills while another is flushed.
const memTables = 2

// settings are Pebble's options.
func settings(o PebbleOptions, e *events) *pebble.Options {
	opts := &pebble.Options{
		// Pebble takes the memory of memtables out of the cache: with less than theirs
		// it keeps no block at all, and each read of a table reads its filter, its
		// index and its data anew.
		FS: o.FS, Cache: pebble.NewCache(o.Cache + memTables*int64(o.MemTable)), FormatMajorVersion: format,
		Logger: &pebbleLogger{o.Logger, o.Fatal}, EventListener: e.listener(),
		// One memtable fills while another is flushed. More absorb longer
		// bursts, but are memory that the collector doubles: 6 million writes at
		// full speed took as long with 2 (100 MiB resident) as with 4 (200).
		MemTableSize: o.MemTable, MemTableStopWritesThreshold: memTables,
		// Every sublevel of level 0 is one more place to look for a key, and
		// every merge of them costs as much as all else that is done for a task
		// (docs/archive/performance.md): few places would be too dear. Never stop writes
		// for it: the memtables do that. Replicas fill at the same pace: each compacts after a number of
		// flushes of its own, 5 to 8 (Pebble counts a place twice), so that a majority is mostly free of it.
		L0CompactionThreshold: 10 + 2*rand.IntN(4), L0StopWritesThreshold: 1000,
		LBaseMaxBytes: 256 << 20, MaxOpenFiles: o.Files,
		// Table files are written to disk as they grow, not all at the end:
		// an fsync of the log must not wait behind megabytes.
		BytesPerSync: 512 << 10,
		// Deleting many large files at once stalls some disks.
		TargetByteDeletionRate: 128 << 20,
		// Deleted ranges give their space back soon, without a flush each.
		FlushDelayDeleteRange: 10 * time.Second,
		DisableWAL:            true, // see journal
		CompactionConcurrencyRange: func() (int, int) {
			return 1, max(1, runtime.NumCPU()/4)
		},
	}
	// A table that is taken in is durable at once, and does not wait in Pebble's log.
	opts.Experimental.DisableIngestAsFlushable = func() bool { return true }
	opts.Experimental.TombstoneDenseCompactionThreshold = tombstoneDense
	opts.Experimental.ReadSamplingMultiplier = -1 // no compaction because something is read: a scrub reads everything
	for i := range opts.TargetFileSizes {
		opts.TargetFileSizes[i] = tableSize
	}
	if piece := int64(max(o.volume/pieces, leastPiece)); o.small {
		opts.L0StopWritesThreshold = 3 * opts.L0CompactionThreshold // writes may not outrun what makes room
		opts.LBaseMaxBytes = min(opts.LBaseMaxBytes, piece)
		for i := range opts.TargetFileSizes {
			opts.TargetFileSizes[i] = min(tableSize, piece)
		}
	}
	for i := range opts.Levels {
		opts.Levels[i].BlockSize = 16 << 10
		// Payloads are the users' to compress: unpacking a block to read one
		// task costs more than it saves.
		opts.Levels[i].Compression = func() *block.CompressionProfile { return block.NoCompression }
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10) // 1 % false positives
	}
	// Filters of the last level grow with the backlog, by 1.25 bytes for each key, and the cache does not:
	// to read one for a key is to read up to a dozen blocks, and to do without is to read one.
	opts.Levels[lowest].FilterPolicy = pebble.NoFilterPolicy
	return opts
}

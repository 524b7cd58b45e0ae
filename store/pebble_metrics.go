package store

// Metrics are figures of a Pebble store. Counts go up from the moment it was
// opened; everything else is as of now.
type Metrics struct {
	DiskBytes      uint64 // all files
	LiveBytes      uint64 // tables that are in use
	LogBytes       uint64 // live part of the write-ahead log
	MemTables      int    // memtables and large batches in memory
	MemTableBytes  uint64
	CacheBytes     int64
	CacheHits      int64 // count
	CacheMisses    int64 // count
	Snapshots      int   // open
	L0Sublevels    int   // places a read of level 0 may have to look; rising means that compactions fall behind
	ReadPlaces     int   // the same for all levels
	CompactionDebt uint64
	Compactions    int64  // count
	Flushes        int64  // count
	Tombstones     uint64 // about, on disk

	Stalls           uint64 // count: Apply had to wait for a flush
	Stalled          bool
	SlowWrites       uint64 // count
	BackgroundErrors uint64 // count: failed flushes and compactions
}

// Metrics gives the figures. It costs some microseconds and a few locks: for a
// page or a scrape, not for a loop.
func (p *Pebble) Metrics() Metrics {
	m := p.db.Metrics()
	all, used := p.log.log.Size()
	return Metrics{
		DiskBytes: m.DiskSpaceUsage() + uint64(all), LiveBytes: m.Table.Local.LiveSize + m.BlobFiles.Local.LiveSize,
		LogBytes: uint64(used), MemTables: int(m.MemTable.Count), MemTableBytes: m.MemTable.Size,
		CacheBytes: m.BlockCache.Size, CacheHits: m.BlockCache.Hits, CacheMisses: m.BlockCache.Misses,
		Snapshots: m.Snapshots.Count, L0Sublevels: int(m.Levels[0].Sublevels), ReadPlaces: m.ReadAmp(),
		CompactionDebt: m.Compact.EstimatedDebt, Compactions: m.Compact.Count, Flushes: m.Flush.Count,
		Tombstones: m.Keys.TombstoneCount,
		Stalls:     p.events.stalls.Load(), Stalled: p.events.stalled.Load(),
		SlowWrites: p.events.slow.Load(), BackgroundErrors: p.events.background.Load(),
	}
}

package node

import (
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/transport"
)

// Parts of the memory that a node may have, where that is little: each is a divisor, and what is
// configured, or the default, is the most. Together with what each part costs again further on
// (a request is read, waits, is put into a batch and a memtable, and is sent to others) they
// leave room for the rest of the node (docs/how-to/deploy.md, "How much a node needs").
const (
	memTablePart = 64 // two of them
	cachePart    = 32
	inboxPart    = 32 // for what frees work as much again, and for other nodes twice as much
	readPart     = 16 // large frames of clients that are being read, and likewise those of other nodes
	untakenPart  = 16 // replies that nobody takes
	queuePart    = 16 // bytes for one other node
	roomPart     = 8  // requests on the HTTP port
	// leastMemTable is what a memtable has in any case: smaller ones cost more in files than
	// they save.
	leastMemTable = 1 << 20
)

// FitMemory gives a configuration whose memtables, cache and inbox fit so many bytes of
// memory; 0: any number.
func FitMemory(cfg *config.Config, memory uint64) *config.Config {
	if memory == 0 {
		return cfg
	}
	fits := *cfg
	fits.MemTableSize = min(fits.MemTableSize, config.Size(max(memory/memTablePart, leastMemTable)))
	fits.CacheSize = min(fits.CacheSize, config.Size(max(memory/cachePart, leastMemTable)))
	fits.MaxInbox = atMost(fits.MaxInbox, memory, inboxPart)
	return &fits
}

// atMost is so much of the memory, at most most.
func atMost(most int, memory uint64, divisor uint64) int {
	if memory == 0 {
		return most
	}
	return int(min(uint64(most), memory/divisor))
}

// Room is how many bytes requests on the HTTP port may take together; 0: as many as it likes.
func Room(memory uint64) int { return int(min(memory/roomPart, 256<<20)) }

// fitTransport lowers what the client port may hold.
func fitTransport(c *transport.Config, memory uint64) {
	c.MaxReadBytes = atMost(transport.DefaultMaxReadBytes, memory, readPart)
	c.MaxUntakenBytes = atMost(transport.DefaultMaxUntakenBytes, memory, untakenPart)
}

// fitPeers lowers what the port for nodes may hold.
func fitPeers(l peer.Limits, memory uint64) peer.Limits {
	if memory > 0 {
		l.ReadBytes = atMost(256<<20, memory, readPart)
		l.QueueBulk, l.QueueControl = atMost(64<<20, memory, queuePart), atMost(16<<20, memory, queuePart)
	}
	return l
}

package node

import (
	"testing"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/transport"
)

// TestWhatFollowsTheMemory: without a limit, or with a large one, all is as configured; with a
// small one what is configured to less stays, and all that may be held together fits.
func TestWhatFollowsTheMemory(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		memory                 uint64
		memTable, cache, inbox int
	}{
		{0, 24 * mib, 14 * mib, 64 * mib}, {16 << 30, 24 * mib, 14 * mib, 64 * mib}, {256 * mib, 4 * mib, 8 * mib, 8 * mib},
		{128 * mib, 2 * mib, 4 * mib, 4 * mib}, {16 * mib, mib, mib, mib / 2},
	} {
		fits := FitMemory(config.Default(), c.memory)
		if int(fits.MemTableSize) != c.memTable || int(fits.CacheSize) != c.cache || fits.MaxInbox != c.inbox {
			t.Errorf("%d bytes: memtable %d, cache %d, inbox %d", c.memory, fits.MemTableSize, fits.CacheSize, fits.MaxInbox)
		}
		var client transport.Config
		fitTransport(&client, c.memory)
		peers := fitPeers(peer.Limits{}, c.memory)
		held := 2*int(fits.MemTableSize) + int(fits.CacheSize) + 4*fits.MaxInbox + client.MaxReadBytes + peers.ReadBytes + Room(c.memory)
		if c.memory == 256*mib && held > 120*mib {
			t.Errorf("of %d bytes %d may be held", c.memory, held)
		}
		if c.memory == 0 && (peers != peer.Limits{} || client.MaxReadBytes != transport.DefaultMaxReadBytes || Room(0) != 0) {
			t.Errorf("without a limit: %+v, %d", peers, client.MaxReadBytes)
		}
	}
	small := config.Default()
	small.MaxInbox, small.MemTableSize = 24*mib, 2*mib
	if fits := FitMemory(small, 1<<30); fits.MaxInbox != 24*mib || fits.MemTableSize != 2*mib {
		t.Errorf("what is configured was raised: %d, %d", fits.MaxInbox, fits.MemTableSize)
	}
}

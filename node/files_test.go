package node

import (
	"testing"

	"github.com/norn-dev/norn/node/config"
)

// TestConnectionsLeaveFilesForTheStores: half of few files and some more, and a fixed
// number of many, are not for clients; where all fits nothing is changed.
func TestConnectionsLeaveFilesForTheStores(t *testing.T) {
	for _, c := range []struct{ files, clients, http int }{
		{0, 1, 1}, {128, 1, 1}, {256, 52, 12}, {512, 154, 38}, {1024, 359, 89}, {20_000, 14_362, 3590}, {22_528, 16_384, 4096}, {unbounded, 16_384, 4096},
	} {
		cfg := config.Default()
		fits := fit(cfg, c.files)
		if fits.MaxConnections != c.clients || fits.MaxHTTPConnections != c.http {
			t.Errorf("of %d files %d for clients, %d for HTTP; want %d, %d", c.files, fits.MaxConnections, fits.MaxHTTPConnections, c.clients, c.http)
		}
		if cfg.MaxConnections != 16_384 {
			t.Errorf("the configuration was changed: %d", cfg.MaxConnections)
		}
	}
}

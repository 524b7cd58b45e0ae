package node

import (
	"fmt"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/peer"
)

// How many files and connections a node has open for itself at most, where the process
// may have as many as it likes: tables of the two stores, and connections of nodes.
const (
	factFiles     = 1000
	registerFiles = 100
	peerConns     = 4096
	strangerConns = 256 // of the port for nodes, that have not said who they are
	// baseFiles are open whatever is done: the ports, logs, locks, and tables that are
	// being written.
	baseFiles = 64
	// ownFiles is what is kept free for all that but for a very large cluster, and for
	// connections that are being sent away.
	ownFiles = 2048
)

// unbounded stands for a process that may have any number of files open.
const unbounded = 1 << 30

// share is a part of the files that this process may have open, at most most.
func share(part, most int) int { return min(openFiles()/part, most) }

// peerLimits are those of the connections between nodes.
func peerLimits() peer.Limits {
	return peer.Limits{Conns: share(8, peerConns), Greeting: share(16, strangerConns)}
}

// minFiles are what a node needs to serve some clients: with fewer the stores and the other
// nodes leave next to none.
const minFiles = 256

// EnoughFiles refuses a process that may have too few files open (ulimit -n) to run a node.
func EnoughFiles() error { return enough(openFiles()) }

func enough(files int) error {
	if files >= minFiles {
		return nil
	}
	return fmt.Errorf("this process may have %d files open (ulimit -n), and a node needs %d at least, better 65536: raise that (ulimit -n 65536; LimitNOFILE=65536 in a unit of systemd)", files, minFiles)
}

// Fit gives a configuration whose limits of connections leave enough files for the
// rest of the node, of as many as this process may have open (ulimit -n). Without that
// whoever opens connections could take the last one, and a store that cannot open its
// files ends the node.
func Fit(cfg *config.Config) *config.Config { return fit(cfg, openFiles()) }

func fit(cfg *config.Config, files int) *config.Config {
	rest := max(files-min(files/2+baseFiles, ownFiles), 2)
	wanted := cfg.MaxConnections + cfg.MaxHTTPConnections
	if wanted <= rest {
		return cfg
	}
	fits := *cfg
	fits.MaxHTTPConnections = max(rest*cfg.MaxHTTPConnections/wanted, 1)
	fits.MaxConnections = max(rest-fits.MaxHTTPConnections, 1)
	return &fits
}

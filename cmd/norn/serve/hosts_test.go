package serve

import (
	"testing"

	"github.com/norn-dev/norn/node/config"
)

// TestOwnHosts: what the settings call this node is its name, and nothing that only looks
// like it.
func TestOwnHosts(t *testing.T) {
	own := ownHosts(&config.Config{
		Name: "Node-1", Listen: ":7711", HTTPListen: "norn.lan:7713", PeerListen: "0.0.0.0:7712", PeerAdvertise: "n1.norn.svc.cluster.local.:7712",
	}, nil)
	for host, want := range map[string]bool{
		"node-1": true, "norn.lan": true, "n1.norn.svc.cluster.local": true,
		"n1": false, "norn": false, "evil.norn.lan": false, "node-1.evil.example": false, "evil.example": false,
	} {
		if own(host) != want {
			t.Errorf("%s: %v", host, !want)
		}
	}
}

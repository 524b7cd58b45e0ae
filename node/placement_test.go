package node

import (
	"bytes"
	"testing"

	"github.com/norn-dev/norn/node/core"
)

// TestWhereClientsDrawIDs: a node with little to do names the partitions that it leads, as all
// else would go through another leader. Under load, or where it leads none, it names all.
func TestWhereClientsDrawIDs(t *testing.T) {
	all, led, none := []byte{0xf7, 0x01}, []byte{0x05, 0x00}, []byte{0, 0}
	for _, c := range []struct {
		name   string
		can    core.Available
		loaded bool
		want   []byte
	}{
		{"a node that has just started", core.Available{}, false, none},
		{"little to do", core.Available{Enqueueable: all, Led: led}, false, led},
		{"load", core.Available{Enqueueable: all, Led: led}, true, all},
		{"a node that leads nothing", core.Available{Enqueueable: all}, false, all},
	} {
		n := new(Node)
		n.cluster.Partitions = 9
		n.available.Store(&c.can)
		n.loaded.Store(c.loaded)
		if got := n.placement().GetEnqueueable(); !bytes.Equal(got, c.want) {
			t.Errorf("%s: %x, want %x", c.name, got, c.want)
		}
	}
}

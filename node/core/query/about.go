package query

import (
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/ring"
)

// About are the partitions that an answer is to be about.
func About(v *view.View, open *partitions.Set, r *message.Request) []ring.Partition {
	if r.Partitions != nil {
		return r.Partitions
	}
	all := make([]ring.Partition, 0, len(v.Cells))
	for p := range v.Cells {
		if p := ring.Partition(p); !r.Led || open.See(p).Leading() != 0 {
			all = append(all, p)
		}
	}
	return all
}
